"""Accounts in the engine: their rules, their tenancy, their pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from ledger_engine.core.errors import DuplicateIdempotencyKey, InvalidRequest, NotFound, PermissionDenied
from ledger_engine.core.records import as_json
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts, transactions
from ledger_engine.ledger.accounts import Account, NewAccount
from ledger_engine.ledger.transactions import NewTransaction
from ledger_engine.store.pages import PageRequest
from tests.ledger_engine.manual_clock import ManualClock

Run = Callable[..., Awaitable[Any]]


def new(name: str = "Till", currency: str = "EUR", metadata: dict[str, str] | None = None) -> NewAccount:
    return NewAccount(name, currency, metadata or {})


async def test_a_new_account_holds_nothing_and_is_found_again(write: Run, read: Run) -> None:
    made = await write(accounts.create, new(metadata={"shop": "1"}))
    assert (made.balance, made.currency, made.livemode, made.metadata) == (0, "EUR", False, {"shop": "1"})
    assert await read(accounts.get, made.id) == made


@pytest.mark.parametrize("name", ["x", "ü" * 255, "=SUM(A1)", "\x1b[31mred", "日本"])
async def test_a_name_is_kept_as_it_was_sent(write: Run, read: Run, name: str) -> None:
    made = await write(accounts.create, new(name))
    assert (await read(accounts.get, made.id)).name == name


@pytest.mark.parametrize("name", ["", "x" * 256])
async def test_a_name_has_1_to_255_characters(write: Run, name: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await write(accounts.create, new(name))
    assert (refused.value.code, refused.value.param) == ("invalid_value", "name")


@pytest.mark.parametrize("currency", ["eur", "Eur", "EUR", "jpy", "kwd"])
async def test_a_currency_is_taken_in_any_case(write: Run, currency: str) -> None:
    assert (await write(accounts.create, new(currency=currency))).currency == currency.upper()


@pytest.mark.parametrize("currency", ["", "EU", "EURO", "DEM", "XXX", "XAU", "BTC", "ＥＵＲ", " EUR", "ſek"])
async def test_a_currency_is_an_active_iso_4217_code(write: Run, currency: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await write(accounts.create, new(currency=currency))
    assert (refused.value.code, refused.value.param) == ("invalid_value", "currency")


async def test_metadata_holds_20_pairs_of_64_and_1024_characters(write: Run, read: Run) -> None:
    metadata = {f"{number:064}": "ü" * 1024 for number in range(20)}
    made = await write(accounts.create, new(metadata=metadata))
    assert (await read(accounts.get, made.id)).metadata == metadata


@pytest.mark.parametrize(
    ("metadata", "param"),
    [
        ({str(number): "" for number in range(21)}, "metadata"),
        ({"": "x"}, "metadata"),
        ({"k" * 65: "x"}, "metadata"),
        ({"note": "x" * 1025}, "metadata.note"),
    ],
    ids=["21 pairs", "no key", "long key", "long value"],
)
async def test_metadata_beyond_its_limits_is_refused(
    write: Run, metadata: dict[str, str], param: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await write(accounts.create, new(metadata=metadata))
    assert (refused.value.code, refused.value.param) == ("invalid_value", param)


async def test_another_projects_or_modes_account_does_not_exist(
    write: Run, read: Run, stranger: Tenant
) -> None:
    made = await write(accounts.create, new())
    for attempt in (
        read(accounts.get, made.id, by=stranger),
        read(accounts.balance_at, made.id, 0, by=stranger),
        write(transactions.post, NewTransaction(made.id, 5, "credit"), by=stranger),
    ):
        with pytest.raises(NotFound):
            await attempt
    assert (await read(accounts.page, PageRequest(), by=stranger)).items == []
    assert (await read(accounts.get, made.id)).balance == 0


async def test_the_event_shows_the_account_as_it_was_made(write: Run, recorded: Run) -> None:
    made = await write(accounts.create, new())
    shown = as_json(made)
    await write(transactions.post, NewTransaction(made.id, 700, "credit"))
    [event] = await recorded("account.created")
    assert event["data"]["object"] == shown
    assert (event["object"], event["livemode"], event["created"]) == ("event", False, shown["created"])


async def test_a_refused_account_leaves_no_event_and_no_key(write: Run, recorded: Run) -> None:
    with pytest.raises(InvalidRequest):
        await write(accounts.create, new(currency="nope"), "key-1")
    assert await recorded() == []
    assert (await write(accounts.create, new(), "key-1")).name == "Till"


async def test_a_second_use_of_a_key_names_the_first_account(write: Run, read: Run) -> None:
    made = await write(accounts.create, new(), "key-1")
    with pytest.raises(DuplicateIdempotencyKey) as refused:
        await write(accounts.create, new("Other", "USD"), "key-1")
    assert refused.value.original == made.id
    assert (await read(accounts.page, PageRequest())).items == [made]


async def test_another_project_or_mode_has_its_own_keys(write: Run, stranger: Tenant) -> None:
    mine = await write(accounts.create, new(), "key-1")
    theirs = await write(accounts.create, new(), "key-1", by=stranger)
    assert mine.id != theirs.id


async def test_the_quota_refuses_one_more_object_and_keeps_nothing_of_it(
    write: Run, read: Run, recorded: Run, stored_objects: Run, tenant: Tenant
) -> None:
    limited = replace(tenant, quota=2)
    made = [await write(accounts.create, new(), by=limited) for _ in range(2)]
    with pytest.raises(PermissionDenied) as refused:
        await write(accounts.create, new(), "key-1", by=limited)
    assert refused.value.code == "quota_exceeded"
    assert (await read(accounts.page, PageRequest())).items == made[::-1]
    assert await stored_objects() == len(await recorded()) == 2
    # A larger plan makes room at once, and the key was not used up.
    await write(accounts.create, new(), "key-1", by=replace(tenant, quota=3))


async def test_the_quota_counts_each_project_and_mode_alone(
    write: Run, tenant: Tenant, stranger: Tenant
) -> None:
    await write(accounts.create, new(), by=replace(tenant, quota=1))
    await write(accounts.create, new(), by=replace(stranger, quota=1))


# Pages


@pytest.fixture
async def seven(write: Run) -> list[Account]:
    """Seven accounts, newest first."""
    return [await write(accounts.create, new(f"Till {number}")) for number in range(7)][::-1]


async def test_pages_go_from_the_newest_to_the_oldest(read: Run, seven: list[Account]) -> None:
    first = await read(accounts.page, PageRequest(limit=3))
    assert (first.items, first.has_more, first.next_cursor) == (seven[:3], True, seven[2].id)
    second = await read(accounts.page, PageRequest(limit=3, after=first.next_cursor))
    assert (second.items, second.has_more) == (seven[3:6], True)
    last = await read(accounts.page, PageRequest(limit=3, after=second.next_cursor))
    assert (last.items, last.has_more, last.next_cursor) == (seven[6:], False, None)


async def test_a_page_that_holds_just_all_has_no_more(read: Run, seven: list[Account]) -> None:
    page = await read(accounts.page, PageRequest(limit=7))
    assert (page.items, page.has_more, page.next_cursor) == (seven, False, None)


async def test_the_page_after_the_oldest_is_empty(read: Run, seven: list[Account]) -> None:
    page = await read(accounts.page, PageRequest(after=seven[-1].id))
    assert (page.items, page.has_more, page.next_cursor) == ([], False, None)


async def test_ending_before_gives_the_page_just_newer_still_newest_first(
    read: Run, seven: list[Account]
) -> None:
    page = await read(accounts.page, PageRequest(limit=2, before=seven[5].id))
    assert page.items == seven[3:5]
    assert page.has_more


async def test_ending_before_leads_back_to_the_newest(read: Run, seven: list[Account]) -> None:
    seen: list[Account] = []
    cursor = seven[6].id
    while True:
        page = await read(accounts.page, PageRequest(limit=2, before=cursor))
        seen = page.items + seen
        if not page.has_more:
            break
        cursor = page.items[0].id
    assert seen == seven[:6]
    assert page.next_cursor is None
    newest = await read(accounts.page, PageRequest(before=seven[0].id))
    assert (newest.items, newest.has_more) == ([], False)


async def test_ending_befores_next_cursor_continues_in_its_direction(read: Run, seven: list[Account]) -> None:
    page = await read(accounts.page, PageRequest(limit=3, before=seven[6].id))
    newer = await read(accounts.page, PageRequest(limit=3, before=page.next_cursor))
    assert page.items + newer.items == seven[3:6] + seven[0:3]


@pytest.mark.parametrize("cursor", ["", "acc_", "acc_00000000000000000000000000", "nonsense", "acc_\x00"])
async def test_a_cursor_of_no_account_is_refused(read: Run, seven: list[Account], cursor: str) -> None:
    for wanted, param in (
        (PageRequest(after=cursor), "starting_after"),
        (PageRequest(after=cursor, cursor="cursor"), "cursor"),
        (PageRequest(before=cursor), "ending_before"),
    ):
        with pytest.raises(InvalidRequest) as refused:
            await read(accounts.page, wanted)
        assert (refused.value.code, refused.value.param) == ("invalid_cursor", param)


async def test_a_cursor_of_another_project_or_mode_is_refused(
    read: Run, seven: list[Account], stranger: Tenant
) -> None:
    for wanted in (PageRequest(after=seven[3].id), PageRequest(before=seven[3].id)):
        with pytest.raises(InvalidRequest) as refused:
            await read(accounts.page, wanted, by=stranger)
        assert refused.value.code == "invalid_cursor"


async def test_a_cursor_of_another_kind_is_refused(write: Run, read: Run, seven: list[Account]) -> None:
    posted = await write(transactions.post, NewTransaction(seven[0].id, 1, "credit"))
    with pytest.raises(InvalidRequest) as refused:
        await read(accounts.page, PageRequest(after=posted.id))
    assert refused.value.code == "invalid_cursor"


async def test_reading_on_while_others_write_gives_every_earlier_account_once(
    write: Run, read: Run, seven: list[Account]
) -> None:
    seen: list[Account] = []
    page = await read(accounts.page, PageRequest(limit=2))
    seen += page.items
    while page.has_more:
        await write(accounts.create, new("late"))
        page = await read(accounts.page, PageRequest(limit=2, after=page.next_cursor))
        seen += page.items
    assert seen == seven


# Balance at a time


async def test_the_balance_at_a_time_counts_what_was_posted_up_to_that_millisecond(
    write: Run, read: Run, clock: ManualClock
) -> None:
    account = await write(accounts.create, new())
    clock.advance(1000)
    first = clock.now()
    await write(transactions.post, NewTransaction(account.id, 500, "credit"))
    await write(transactions.post, NewTransaction(account.id, 100, "debit"))
    clock.advance(1)
    await write(transactions.post, NewTransaction(account.id, 25, "credit"))

    async def balance(at: int) -> int:
        answer = await read(accounts.balance_at, account.id, at)
        assert (answer.currency, answer.at) == ("EUR", at)
        return int(answer.balance)

    assert await balance(first - 1) == 0
    assert await balance(first) == 400
    assert await balance(first + 1) == 425
    assert await balance(-(10**13)) == 0
    assert await balance(2**50) == 425


async def test_the_balance_at_a_time_is_the_accounts_own(write: Run, read: Run, clock: ManualClock) -> None:
    mine, other = await write(accounts.create, new()), await write(accounts.create, new())
    await write(transactions.post, NewTransaction(mine.id, 500, "credit"))
    await write(transactions.post, NewTransaction(other.id, 9, "debit"))
    assert (await read(accounts.balance_at, mine.id, clock.now())).balance == 500
