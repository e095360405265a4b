"""Differences: the objects that changed between two moments, with both states and exact counts."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from itertools import chain
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledger_engine.core.errors import InvalidRequest
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts, differences, orders, users
from ledger_engine.store import Parameters, Row, Unit, pages
from ledger_engine.store.engine import Engine
from ledger_engine.store.group_cache import NOTHING
from ledger_engine.store.pages import PageRequest
from tests.ledger_engine.conftest import Run
from tests.ledger_engine.ledger.conftest import KINDS, World
from tests.ledger_engine.ledger.test_past import make_one_of_each
from tests.ledger_engine.manual_clock import ManualClock


async def page_of(
    read: Callable[..., Awaitable[Any]], start: int, end: int, request: PageRequest
) -> differences.ChangedPage:
    count = differences.ChangeCount(start, end)
    while count.after is not None:
        count.add(await read(differences.next_rows, count))
    page: differences.ChangedPage = await read(differences.changed_page, count, request)
    return page


async def parts_of(
    read: Callable[..., Awaitable[Any]], page: differences.ChangedPage
) -> list[list[dict[str, Any]]]:
    """Return the changes of the page, as they are read part by part."""
    parts: list[list[dict[str, Any]]] = []
    while (skipped := sum(map(len, parts))) < len(page.postings):
        parts.append([json.loads(text) for text in await read(differences.next_changes, page, skipped)])
    return parts


@pytest.mark.parametrize("letters_together", [600, 500_000])
@pytest.mark.parametrize("rows_at_once", [3, 5_000])
async def test_a_difference_is_that_of_two_moments(
    world: World, monkeypatch: pytest.MonkeyPatch, rows_at_once: int, letters_together: int
) -> None:
    monkeypatch.setattr(differences, "ROWS_AT_ONCE", rows_at_once)
    monkeypatch.setattr(pages, "TOGETHER_MAX", letters_together)
    for _ in range(20):
        first, second = sorted(world.chance.sample(range(len(world.seen)), 2))
        (start, before, posted_before), (end, after, posted_after) = world.seen[first], world.seen[second]
        changes: list[dict[str, Any]] = []
        request = PageRequest(limit=4, cursor="cursor")
        while True:
            page = await page_of(world.read, start, end, request)
            changes += chain.from_iterable(await parts_of(world.read, page))
            if page.next_cursor is None:
                break
            request = PageRequest(limit=4, after=page.next_cursor, cursor="cursor")
        ids = [change["id"] for change in changes]
        assert len(set(ids)) == len(ids)
        assert set(ids) >= {id for id in after if after[id] != before.get(id)}
        for change in changes:
            id = change["id"]
            assert (change["before"], change["after"]) == (before.get(id), after[id])
        counts = [sum(id.startswith(prefix) for id in ids) for prefix in KINDS]
        summary = page.summary
        assert [summary.accounts, summary.invoices, summary.users, summary.orders] == counts
        postings = sum(change["postings"] or 0 for change in changes)
        assert summary.postings == postings == posted_after - posted_before


async def test_a_part_of_long_changes_ends_with_the_change_that_exceeds_the_limit(
    write: Run, read: Run, clock: ManualClock
) -> None:
    start = clock.now()
    user = (await write(users.create, users.NewUser("Ada", "ada@example.com"))).id
    shares = (70, 30, 120, 10)  # of the limit, in percent; a page lists the newest order first
    for share in shares:
        note = "x" * (pages.TOGETHER_MAX * share // 100)
        await write(orders.create, orders.NewOrder(user, [{"note": note}]))
    clock.advance(1)
    parts = await parts_of(read, await page_of(read, start - 1, clock.now(), PageRequest(limit=100)))
    assert [[change["kind"] for change in part] for part in parts] == [
        ["user", "order", "order"],
        ["order", "order"],
    ]


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

    def changes_of(unit: Unit) -> list[str]:
        def execute(sql: str, parameters: Parameters = NOTHING, /) -> list[Row]:
            nonlocal statements
            statements += 1
            return unit.execute(sql, parameters)

        def first(sql: str, parameters: Parameters = NOTHING, /) -> Row | None:
            return next(iter(execute(sql, parameters)), None)

        counting = cast(Unit, SimpleNamespace(execute=execute, first=first))
        page = differences.changed_page(counting, tenant, count, PageRequest(limit=30))
        return differences.next_changes(counting, tenant, page, 0)

    assert len(await engine.read(changes_of)) == 30
    assert statements < 10


async def test_a_period_ends_with_its_last_millisecond(write: Run, read: Run, clock: ManualClock) -> None:
    at = clock.now()
    first = await make_one_of_each(write, "a@example.com")
    clock.advance(1)
    second = await make_one_of_each(write, "b@example.com")
    for start, end, changed in ((at - 1, at, first), (at, at + 1, second), (at + 1, at + 2, [])):
        page = await page_of(read, start, end, PageRequest(limit=100))
        assert list(page.postings) == changed
        assert page.summary.postings == (1 if changed else 0)


async def test_a_key_without_read_users_sees_no_change_of_users(world: World, tenant: Tenant) -> None:
    (start, *_), (end, *_) = world.seen[0], world.seen[-1]
    world.tenant = Tenant(tenant.project, livemode=False, scopes=frozenset({"read:projects"}))
    page = await page_of(world.read, start, end, PageRequest(limit=100))
    assert not any(id.startswith("usr_") for id in page.postings)
    assert page.summary.users == 0


async def test_a_cursor_of_another_kind_or_project_is_refused(world: World, stranger: Tenant) -> None:
    theirs = await world.engine.write(
        lambda unit: accounts.create(unit, stranger, accounts.NewAccount("Till", "EUR", {}))
    )
    for cursor in ("txn_x", "acc_x", "", theirs.id):
        wanted = PageRequest(after=cursor, cursor="cursor")
        with pytest.raises(InvalidRequest):
            await page_of(world.read, 0, world.clock.now(), wanted)
