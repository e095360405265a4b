"""Differences: the objects that changed between two moments, with both states and exact counts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledger_engine.core.errors import InvalidRequest
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts, differences
from ledger_engine.store import Parameters, Row, Unit
from ledger_engine.store.engine import Engine
from ledger_engine.store.group_cache import NOTHING
from ledger_engine.store.pages import Page, PageRequest
from tests.ledger_engine.conftest import Run
from tests.ledger_engine.ledger.conftest import KINDS, World
from tests.ledger_engine.ledger.test_past import make_one_of_each
from tests.ledger_engine.manual_clock import ManualClock


async def changes(
    read: Callable[..., Awaitable[Any]], start: int, end: int, request: PageRequest
) -> tuple[Page[differences.Change], differences.Summary]:
    count = differences.ChangeCount(start, end)
    while count.after is not None:
        count.add(await read(differences.next_rows, count))
    page, summary = await read(differences.changes, count, request)
    return page, summary


@pytest.mark.parametrize("rows_at_once", [3, 5_000])
async def test_a_difference_is_that_of_two_moments(
    world: World, monkeypatch: pytest.MonkeyPatch, rows_at_once: int
) -> None:
    monkeypatch.setattr(differences, "ROWS_AT_ONCE", rows_at_once)
    for _ in range(20):
        first, second = sorted(world.chance.sample(range(len(world.seen)), 2))
        (start, before, posted_before), (end, after, posted_after) = world.seen[first], world.seen[second]
        found, wanted = [], PageRequest(limit=4, cursor="cursor")
        while True:
            page, summary = await changes(world.read, start, end, wanted)
            found += page.items
            if not page.has_more:
                break
            wanted = PageRequest(limit=4, after=page.next_cursor, cursor="cursor")
        assert len({each.id for each in found}) == len(found)
        assert {each.id for each in found} >= {id for id in after if after[id] != before.get(id)}
        for each in found:
            assert (each.before, each.after) == (before.get(each.id), after[each.id])
        counts = [sum(each.id.startswith(prefix) for each in found) for prefix in KINDS]
        assert [summary.accounts, summary.invoices, summary.users, summary.orders] == counts
        postings = sum(each.postings or 0 for each in found)
        assert summary.postings == postings == posted_after - posted_before


async def test_a_page_of_changed_accounts_takes_a_few_statements(
    engine: Engine, tenant: Tenant, write: Run, read: Run, clock: ManualClock
) -> None:
    start = clock.now()
    for _ in range(30):
        await write(accounts.create, accounts.NewAccount("Till", "EUR", {}))
    clock.advance(10)
    count = differences.ChangeCount(start - 1, clock.now())
    while count.after is not None:
        count.add(await read(differences.next_rows, count))
    statements = 0

    def page_of(unit: Unit) -> Page[differences.Change]:
        def execute(sql: str, parameters: Parameters = NOTHING, /) -> list[Row]:
            nonlocal statements
            statements += 1
            return unit.execute(sql, parameters)

        def first(sql: str, parameters: Parameters = NOTHING, /) -> Row | None:
            return next(iter(execute(sql, parameters)), None)

        counting = cast(Unit, SimpleNamespace(execute=execute, first=first))
        return differences.changes(counting, tenant, count, PageRequest(limit=30))[0]

    assert len((await engine.read(page_of)).items) == 30
    assert statements < 10


async def test_a_period_ends_with_its_last_millisecond(write: Run, read: Run, clock: ManualClock) -> None:
    at = clock.now()
    first = await make_one_of_each(write, "a@example.com")
    clock.advance(1)
    second = await make_one_of_each(write, "b@example.com")
    for start, end, changed in ((at - 1, at, first), (at, at + 1, second), (at + 1, at + 2, [])):
        page, summary = await changes(read, start, end, PageRequest(limit=100))
        assert [each.id for each in page.items] == changed
        assert summary.postings == (1 if changed else 0)


async def test_a_key_without_read_users_sees_no_change_of_users(world: World, tenant: Tenant) -> None:
    (start, *_), (end, *_) = world.seen[0], world.seen[-1]
    world.tenant = Tenant(tenant.project, livemode=False, scopes=frozenset({"read:projects"}))
    page, summary = await changes(world.read, start, end, PageRequest(limit=100))
    assert "user" not in {each.kind for each in page.items}
    assert summary.users == 0


async def test_a_cursor_of_another_kind_or_project_is_refused(world: World, stranger: Tenant) -> None:
    theirs = await world.engine.write(
        lambda unit: accounts.create(unit, stranger, accounts.NewAccount("Till", "EUR", {}))
    )
    for cursor in ("txn_x", "acc_x", "", theirs.id):
        wanted = PageRequest(after=cursor, cursor="cursor")
        with pytest.raises(InvalidRequest):
            await changes(world.read, 0, world.clock.now(), wanted)
