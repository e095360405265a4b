"""Pages: newest first, every object once (docs/interface.md#pagination; docs/decisions.md#lists)."""

from __future__ import annotations

from functools import partial

import pytest

from ledger_engine.access import projects
from ledger_engine.core.errors import InvalidRequest
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts, transactions
from ledger_engine.ledger.accounts import Account, NewAccount
from ledger_engine.ledger.transactions import NewTransaction, Transaction
from ledger_engine.store.engine import Engine
from ledger_engine.store.pages import LIMIT_DEFAULT, Page, PageRequest
from tests.ledger_engine.manual_clock import ManualClock


async def open_accounts(engine: Engine, tenant: Tenant, count: int) -> list[str]:
    """Their ids, newest first."""
    create = partial(accounts.create, tenant=tenant, new=NewAccount("Till", "EUR", {}))
    return [(await engine.write(create)).id for _ in range(count)][::-1]


async def page(
    engine: Engine,
    tenant: Tenant,
    limit: int = LIMIT_DEFAULT,
    after: str | None = None,
    before: str | None = None,
    cursor: str = "starting_after",
) -> Page[Account]:
    wanted = PageRequest(limit, after, before, cursor)
    return await engine.read(partial(accounts.page, tenant=tenant, request=wanted))


def ids(page: Page[Account] | Page[Transaction]) -> list[str]:
    return [item.id for item in page.items]


async def test_a_list_without_objects_is_an_empty_last_page(engine: Engine, tenant: Tenant) -> None:
    empty = await page(engine, tenant)
    assert (empty.items, empty.has_more, empty.next_cursor) == ([], False, None)


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_a_list_that_fits_is_the_last_page(engine: Engine, tenant: Tenant, count: int) -> None:
    made = await open_accounts(engine, tenant, count)
    only = await page(engine, tenant, limit=3)
    assert (ids(only), only.has_more, only.next_cursor) == (made, False, None)


async def test_one_object_more_makes_another_page(engine: Engine, tenant: Tenant) -> None:
    made = await open_accounts(engine, tenant, 4)
    first = await page(engine, tenant, limit=3)
    assert (ids(first), first.has_more, first.next_cursor) == (made[:3], True, made[2])
    last = await page(engine, tenant, limit=3, after=made[2])
    assert (ids(last), last.has_more, last.next_cursor) == (made[3:], False, None)


async def test_a_page_contains_twenty_objects_by_default(engine: Engine, tenant: Tenant) -> None:
    made = await open_accounts(engine, tenant, 21)
    assert ids(await page(engine, tenant)) == made[:20]


async def test_the_page_after_the_oldest_object_is_empty(engine: Engine, tenant: Tenant) -> None:
    made = await open_accounts(engine, tenant, 2)
    after = await page(engine, tenant, after=made[-1])
    assert (ids(after), after.has_more, after.next_cursor) == ([], False, None)


async def test_reading_on_while_others_write_gives_each_earlier_object_once(
    engine: Engine, tenant: Tenant
) -> None:
    made = await open_accounts(engine, tenant, 23)
    read: list[str] = []
    wanted = PageRequest(limit=5)
    while True:
        got = await engine.read(partial(accounts.page, tenant=tenant, request=wanted))
        read += ids(got)
        await open_accounts(engine, tenant, 3)
        if got.next_cursor is None:
            break
        wanted = PageRequest(limit=5, after=got.next_cursor)
    assert read == made


async def test_scrolling_back_gives_the_page_just_newer_and_still_newest_first(
    engine: Engine, tenant: Tenant
) -> None:
    made = await open_accounts(engine, tenant, 7)
    back = await page(engine, tenant, limit=3, before=made[5])
    assert (ids(back), back.has_more, back.next_cursor) == (made[2:5], True, made[2])
    top = await page(engine, tenant, limit=3, before=made[2])
    assert (ids(top), top.has_more, top.next_cursor) == (made[:2], False, None)
    above = await page(engine, tenant, limit=3, before=made[0])
    assert (ids(above), above.has_more, above.next_cursor) == ([], False, None)


@pytest.mark.parametrize("way", ["after", "before"])
async def test_a_cursor_that_is_not_the_id_of_an_object_of_the_list_is_refused(
    engine: Engine, tenant: Tenant, way: str
) -> None:
    [account] = await open_accounts(engine, tenant, 1)
    posted = await engine.write(
        partial(transactions.post, tenant=tenant, new=NewTransaction(account, 1, "credit"))
    )
    other = await engine.write(partial(projects.create, new=projects.NewProject("Other")))
    [of_other_mode] = await open_accounts(engine, Tenant(tenant.project, livemode=True), 1)
    [of_other_project] = await open_accounts(engine, Tenant(other.id, livemode=False), 1)
    for cursor in ("", "nonsense", "acc_" + "0" * 26, posted.id, of_other_mode, of_other_project):
        after, before = (cursor, None) if way == "after" else (None, cursor)
        with pytest.raises(InvalidRequest) as refused:
            await page(engine, tenant, after=after, before=before)
        param = "starting_after" if way == "after" else "ending_before"
        assert (refused.value.code, refused.value.param) == ("invalid_cursor", param)


async def test_the_error_for_a_cursor_names_the_parameter_of_the_list(engine: Engine, tenant: Tenant) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await page(engine, tenant, after="nonsense", cursor="cursor")
    assert refused.value.param == "cursor"


async def test_a_list_leaves_out_other_modes_and_other_projects(engine: Engine, tenant: Tenant) -> None:
    other = await engine.write(partial(projects.create, new=projects.NewProject("Other")))
    made = {
        each: await open_accounts(engine, Tenant(*each), 3)
        for each in [(tenant.project, False), (tenant.project, True), (other.id, False), (other.id, True)]
    }
    for each, mine in made.items():
        assert ids(await page(engine, Tenant(*each))) == mine


async def test_filters_and_cursors_work_together(engine: Engine, tenant: Tenant, clock: ManualClock) -> None:
    first, second = await open_accounts(engine, tenant, 2)
    posted: list[Transaction] = []
    for number in range(40):
        clock.advance(10)
        kind = "credit" if number % 3 else "debit"
        new = NewTransaction(first if number % 2 else second, 1 + number, kind)
        posted.append(await engine.write(partial(transactions.post, tenant=tenant, new=new)))
    since = posted[9].created
    wanted = [
        each.id
        for each in reversed(posted)
        if each.account == first and each.type == "credit" and each.created > since
    ]
    assert len(wanted) > 6
    read: list[str] = []
    request = PageRequest(limit=3)
    while True:
        got = await engine.read(
            partial(
                transactions.page,
                tenant=tenant,
                request=request,
                account=first,
                type="credit",
                created_after=since,
            )
        )
        read += ids(got)
        if got.next_cursor is None:
            break
        request = PageRequest(limit=3, after=got.next_cursor)
    assert read == wanted
