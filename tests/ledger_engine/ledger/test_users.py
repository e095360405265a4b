"""Users in the engine: addresses, roles, deactivation, and the 30 days to come back."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from ledger_engine.core.clock import DAY
from ledger_engine.core.errors import Conflict
from ledger_engine.core.records import as_json
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import users
from ledger_engine.ledger.users import NewUser, User
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine
from tests.ledger_engine.conftest import Run
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.refusals import refusal

ADA = NewUser("Ada Lovelace", "Ada@Example.com")


@pytest.fixture
async def ada(write: Run) -> User:
    return await write(users.create, ADA)


@pytest.fixture
def erase(engine: Engine) -> Run:
    async def run(before: int) -> list[str]:
        def work(unit: Unit) -> list[str]:
            found = users.expired(unit, before)
            for id in found:
                users.erase(unit, id)
            return found

        return await engine.write(work)

    return run


# Creating


async def test_a_new_user_is_an_active_member(read: Run, ada: User) -> None:
    assert (ada.name, ada.email, ada.role) == ("Ada Lovelace", "Ada@Example.com", "member")
    assert (ada.status, ada.deactivated_at, ada.livemode) == ("active", None, False)
    assert await read(users.get, ada.id) == ada


@pytest.mark.parametrize(
    "email",
    [
        "a@b",
        "ada@example.com",
        "ada.lovelace+ledger@sub.example.co.uk",
        "o'hara@example.com",
        "日本@例え.jp",
        "ada@localhost",
        "a" * 242 + "@example.com",
    ],
)
async def test_an_address_is_kept_as_it_was_sent(write: Run, read: Run, email: str) -> None:
    made = await write(users.create, NewUser("Ada", email))
    assert (await read(users.get, made.id)).email == email


@pytest.mark.parametrize(
    "email",
    [
        "",
        "ada",
        "@example.com",
        "ada@",
        "ada@@example.com",
        "ada@example@com",
        "ada @example.com",
        " ada@example.com",
        "ada@example.com\n",
        "ada@exa\x07mple.com",
        "ada@example.com\u202e",
        "ada@.com",
        "ada@example.",
        "ada@example..com",
        "Ada <ada@example.com>",
        "ada@example.com,bob@example.com",
        "a" * 243 + "@example.com",
    ],
)
async def test_an_invalid_address_is_refused(write: Run, email: str) -> None:
    assert await refusal(write(users.create, NewUser("Ada", email))) == ("invalid_value", "email")


@pytest.mark.parametrize("name", ["", "x" * 256])
async def test_a_name_has_1_to_255_characters(write: Run, name: str) -> None:
    assert await refusal(write(users.create, replace(ADA, name=name))) == ("invalid_value", "name")
    await write(users.create, replace(ADA, name="ü" * 255))


async def test_a_role_is_one_of_three(write: Run, read: Run) -> None:
    for attempt in (write(users.create, replace(ADA, role="root")), read(users.page, role="root")):
        assert await refusal(attempt) == ("invalid_value", "role")


@pytest.mark.parametrize("email", ["ada@example.com", "ADA@EXAMPLE.COM", "Ada@Example.com"])
async def test_an_active_users_address_is_taken_in_any_case(
    write: Run, ada: User, recorded: Run, stored_objects: Run, email: str
) -> None:
    attempt = write(users.create, NewUser("Another", email), "key-1")
    assert await refusal(attempt) == ("email_taken", "email")
    assert (await stored_objects(), len(await recorded("user.created"))) == (1, 1)
    await write(users.create, NewUser("Another", "other@example.com"), "key-1")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("straße@example.com", "STRASSE@example.com"),
        ("zoe\u0308@example.com", "ZO\u00cb@example.com"),
        ("ΣΑΣ@example.com", "σας@example.com"),
    ],
)
async def test_case_and_accents_are_folded_as_unicode_says(write: Run, first: str, second: str) -> None:
    await write(users.create, NewUser("One", first))
    assert (await refusal(write(users.create, NewUser("Two", second))))[0] == "email_taken"


async def test_another_project_or_mode_has_its_own_addresses(write: Run, ada: User, stranger: Tenant) -> None:
    theirs = await write(users.create, ADA, by=stranger)
    assert theirs.livemode == stranger.livemode


async def test_of_many_creates_of_one_address_at_once_one_wins(write: Run) -> None:
    attempt = (write(users.create, replace(ADA, name=f"Ada {number}")) for number in range(12))
    answers = await asyncio.gather(*attempt, return_exceptions=True)
    assert Counter(type(answer) for answer in answers) == {User: 1, Conflict: 11}


@pytest.mark.parametrize(("own", "wanted"), [("member", "admin"), ("member", "owner"), ("admin", "owner")])
async def test_nobody_makes_a_user_above_their_own_role(
    write: Run, tenant: Tenant, own: str, wanted: str
) -> None:
    limited = replace(tenant, role=own)
    attempt = write(users.create, replace(ADA, role=wanted), by=limited)
    assert (await refusal(attempt))[0] == "missing_role"
    made = await write(users.create, replace(ADA, role=own), by=limited)
    assert made.role == own


# Deactivating and restoring


async def test_a_deactivated_user_stays_with_the_time_of_it(
    write: Run, read: Run, ada: User, clock: ManualClock
) -> None:
    clock.advance(5)
    gone = await write(users.deactivate, ada.id)
    assert gone == replace(ada, status="deactivated", deactivated_at=clock.now())
    assert await read(users.get, ada.id) == gone


async def test_deactivating_twice_answers_the_same_and_records_it_once(
    write: Run, ada: User, clock: ManualClock, recorded: Run
) -> None:
    gone = await write(users.deactivate, ada.id)
    clock.advance(DAY)
    assert await write(users.deactivate, ada.id) == gone
    [event] = await recorded("user.deactivated")
    assert event["data"]["object"] == as_json(gone)


async def test_deactivating_and_restoring_need_the_role_admin(
    write: Run, read: Run, ada: User, tenant: Tenant
) -> None:
    member = replace(tenant, role="member")
    assert (await refusal(write(users.deactivate, ada.id, by=member)))[0] == "missing_role"
    assert await read(users.get, ada.id) == ada
    gone = await write(users.deactivate, ada.id, by=replace(tenant, role="admin"))
    assert (await refusal(write(users.restore, ada.id, by=member)))[0] == "missing_role"
    assert await read(users.get, ada.id) == gone


async def test_a_deactivated_users_address_is_free_again(write: Run, ada: User) -> None:
    await write(users.deactivate, ada.id)
    second = await write(users.create, ADA)
    await write(users.deactivate, second.id)
    await write(users.create, ADA)


async def test_a_restored_user_is_as_before(write: Run, read: Run, ada: User, recorded: Run) -> None:
    await write(users.deactivate, ada.id)
    assert await write(users.restore, ada.id) == ada
    assert await read(users.get, ada.id) == ada
    [event] = await recorded("user.restored")
    assert event["data"]["object"] == as_json(ada)
    assert (await refusal(write(users.create, ADA)))[0] == "email_taken"


async def test_restoring_an_active_user_is_no_change_and_no_event(
    write: Run, ada: User, recorded: Run
) -> None:
    assert await write(users.restore, ada.id) == ada
    assert await recorded("user.restored") == []


async def test_only_an_owner_takes_an_owner_back(write: Run, read: Run, tenant: Tenant) -> None:
    admin = replace(tenant, role="admin")
    owner = await write(users.create, NewUser("Olga", "olga@example.com", "owner"))
    gone = await write(users.deactivate, owner.id, by=admin)
    assert (await refusal(write(users.restore, owner.id, by=admin)))[0] == "missing_role"
    assert await read(users.get, owner.id) == gone
    assert await write(users.restore, owner.id) == owner


async def test_a_user_can_be_restored_for_30_days_and_no_longer(
    write: Run, read: Run, ada: User, clock: ManualClock
) -> None:
    await write(users.deactivate, ada.id)
    clock.advance(30 * DAY)
    assert (await write(users.restore, ada.id)).status == "active"
    gone = await write(users.deactivate, ada.id)
    clock.advance(30 * DAY + 1)
    # Whether or not the name and the address were erased already.
    assert (await refusal(write(users.restore, ada.id)))[0] == "not_recoverable"
    assert await read(users.get, ada.id) == gone


async def test_a_user_whose_address_was_given_away_cannot_be_restored(
    write: Run, ada: User, clock: ManualClock
) -> None:
    await write(users.deactivate, ada.id)
    second = await write(users.create, replace(ADA, email="ADA@example.COM"))
    assert await refusal(write(users.restore, ada.id, "key-1")) == ("email_taken", "email")
    await write(users.deactivate, second.id)
    assert (await write(users.restore, ada.id, "key-1")).status == "active"
    # Too late is said before taken: giving the address free would not help.
    clock.advance(30 * DAY + 1)
    assert (await refusal(write(users.restore, second.id)))[0] == "not_recoverable"


async def test_of_two_with_one_address_restored_at_once_one_comes_back(write: Run, ada: User) -> None:
    await write(users.deactivate, ada.id)
    second = await write(users.create, ADA)
    await write(users.deactivate, second.id)
    attempt = (write(users.restore, id) for id in (ada.id, second.id))
    answers = await asyncio.gather(*attempt, return_exceptions=True)
    assert Counter(type(answer) for answer in answers) == {User: 1, Conflict: 1}


# Erasing


async def test_30_days_after_the_deactivation_name_address_and_password_are_erased(
    write: Run, read: Run, engine: Engine, ada: User, clock: ManualClock, erase: Run
) -> None:
    await engine.write(lambda unit: unit.execute("UPDATE users SET password_hash = 'argon2'"))
    gone = await write(users.deactivate, ada.id)
    clock.advance(30 * DAY)
    assert await erase(clock.now() - users.RECOVERABLE_FOR) == []
    assert await read(users.get, ada.id) == gone
    clock.advance(1)
    assert await erase(clock.now() - users.RECOVERABLE_FOR) == [ada.id]
    assert await read(users.get, ada.id) == replace(gone, name=None, email=None)
    [row] = await engine.read(lambda unit: unit.execute("SELECT * FROM users"))
    assert (row["email_folded"], row["password_hash"], row["erased_at"]) == (None, None, clock.now())
    assert (await refusal(write(users.restore, ada.id)))[0] == "not_recoverable"
    assert await erase(clock.now() - users.RECOVERABLE_FOR) == []


async def test_erasing_goes_over_every_project_and_leaves_active_users_alone(
    write: Run, read: Run, ada: User, clock: ManualClock, stranger: Tenant, erase: Run
) -> None:
    theirs = await write(users.create, ADA, by=stranger)
    bob = await write(users.create, NewUser("Bob", "bob@example.com"))
    for id, by in ((ada.id, None), (theirs.id, stranger)):
        await write(users.deactivate, id, by=by)
    clock.advance(31 * DAY)
    late = await write(users.deactivate, (await write(users.create, NewUser("Eve", "eve@example.com"))).id)
    assert set(await erase(clock.now() - users.RECOVERABLE_FOR)) == {ada.id, theirs.id}
    assert await read(users.get, bob.id) == bob
    assert await read(users.get, late.id) == late


async def test_an_erased_user_stays_deactivated_and_listed(
    write: Run, read: Run, ada: User, clock: ManualClock, erase: Run, recorded: Run
) -> None:
    gone = await write(users.deactivate, ada.id)
    await erase(clock.now() + 1)
    erased = replace(gone, name=None, email=None)
    assert await write(users.deactivate, ada.id) == erased
    assert (await read(users.page)).items == [erased]
    assert len(await recorded("user.deactivated")) == 1


# Pages


@pytest.fixture
async def seven(write: Run) -> list[User]:
    """Seven users, newest first, of which the second and fifth made are admins."""
    made = []
    for number in range(7):
        role = "admin" if number in (1, 4) else "member"
        made.append(await write(users.create, NewUser(f"User {number}", f"u{number}@example.com", role)))
    return made[::-1]


@pytest.mark.parametrize(("per_page", "total_pages"), [(1, 7), (3, 3), (6, 2), (7, 1), (100, 1)])
async def test_pages_are_counted_and_hold_everyone_once(
    read: Run, seven: list[User], per_page: int, total_pages: int
) -> None:
    pages = [await read(users.page, number, per_page) for number in range(1, total_pages + 1)]
    assert [user for page in pages for user in page.items] == seven
    assert {(page.total, page.total_pages, page.per_page) for page in pages} == {(7, total_pages, per_page)}
    assert [page.page for page in pages] == list(range(1, total_pages + 1))


@pytest.mark.parametrize("number", [2, 8, 10**9, users.PAGE_MAX])
async def test_a_page_after_the_last_is_empty(read: Run, seven: list[User], number: int) -> None:
    page = await read(users.page, number, 100)
    assert (page.items, page.page, page.total, page.total_pages) == ([], number, 7, 1)


async def test_a_list_of_nobody_has_no_pages(read: Run) -> None:
    page = await read(users.page)
    assert (page.items, page.total, page.total_pages) == ([], 0, 0)


async def test_users_are_listed_by_role(read: Run, seven: list[User]) -> None:
    page = await read(users.page, 1, 1, role="admin")
    assert (page.total, page.total_pages) == (2, 2)
    assert page.items == [user for user in seven if user.role == "admin"][:1]
    assert (await read(users.page, role="owner")).total == 0


async def test_deactivated_users_are_listed_too(write: Run, read: Run, seven: list[User]) -> None:
    gone = await write(users.deactivate, seven[3].id)
    page = await read(users.page)
    assert page.items == [*seven[:3], gone, *seven[4:]]
    assert page.total == 7


@pytest.mark.parametrize(
    ("attempt", "param"),
    [
        ((0, 20), "page"),
        ((-1, 20), "page"),
        ((10**13, 20), "page"),
        ((1, 0), "per_page"),
        ((1, 101), "per_page"),
    ],
)
async def test_a_page_out_of_range_is_refused(read: Run, attempt: tuple[int, int], param: str) -> None:
    assert await refusal(read(users.page, *attempt)) == ("invalid_value", param)


# Tenancy


async def test_another_projects_or_modes_user_does_not_exist(
    write: Run, read: Run, ada: User, stranger: Tenant
) -> None:
    for attempt in (
        read(users.get, ada.id, by=stranger),
        write(users.deactivate, ada.id, by=stranger),
        write(users.restore, ada.id, by=stranger),
        read(users.require_active, ada.id, "user_id", by=stranger),
    ):
        assert (await refusal(attempt))[0] == "not_found"
    assert (await read(users.page, by=stranger)).total == 0
    assert (await read(users.page, by=stranger, role="member")).items == []
    assert await read(users.get, ada.id) == ada
