"""Looking back: at each moment every object is shown as it was read then."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Awaitable, Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledger_engine.core.errors import InvalidRequest, LedgerError, NotFound
from ledger_engine.core.records import as_json
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts, invoices, orders, past, transactions, users
from ledger_engine.store import Parameters, Row, Unit
from ledger_engine.store.engine import Engine
from ledger_engine.store.group_cache import NOTHING
from ledger_engine.store.pages import Page, PageRequest
from tests.contract.rules import holds
from tests.ledger_engine.conftest import Run
from tests.ledger_engine.manual_clock import ManualClock

STEPS = 150
KINDS = {"acc": accounts, "inv": invoices, "usr": users, "ord": orders}
THEN = {"acc": past.account, "inv": past.invoice, "usr": past.user, "ord": past.order}
Seen = dict[str, dict[str, Any]]  # every object, by its id


class World:
    """A ledger that changes at random, a millisecond or more between two changes."""

    def __init__(self, engine: Engine, tenant: Tenant, clock: ManualClock, seed: int) -> None:
        self.engine, self.tenant, self.clock = engine, tenant, clock
        self.chance = random.Random(seed)
        self.ids: dict[str, list[str]] = {prefix: [] for prefix in KINDS}
        self.seen: list[tuple[int, Seen, int]] = []  # a moment, what was there, the number of transactions
        self.postings = 0

    async def write(self, work: Any, *given: Any) -> Any:
        return await self.engine.write(lambda unit: work(unit, self.tenant, *given))

    async def read(self, work: Any, *given: Any, **named: Any) -> Any:
        return await self.engine.read(lambda unit: work(unit, self.tenant, *given, **named))

    async def make(self, prefix: str, work: Any, new: Any) -> None:
        self.ids[prefix].append((await self.write(work, new)).id)

    async def change(self) -> None:
        """Make one change; what the rules refuse changes nothing."""
        pick = {prefix: self.chance.choice(ids) for prefix, ids in self.ids.items() if ids}
        account, invoice, order, user = (pick.get(prefix) for prefix in ("acc", "inv", "ord", "usr"))
        amount = self.chance.randint(1, 1000)
        choices: list[Any] = [
            lambda: self.make("acc", accounts.create, accounts.NewAccount("Till", "EUR", {})),
            lambda: self.make("usr", users.create, users.NewUser("Ada", f"{amount}@example.com")),
        ]
        if account is not None:
            posting = transactions.NewTransaction(account, amount, self.chance.choice(transactions.TYPES))
            new = invoices.NewInvoice(account, "Café", amount)
            choices += [lambda: self.write(transactions.post, posting)] * 4
            choices += [lambda: self.make("inv", invoices.create, new)] * 2
        if invoice is not None:
            choices += [
                lambda: self.write(invoices.update, invoice, {"amount": amount, "account": account}),
                lambda: self.write(invoices.finalize, invoice),
                lambda: self.write(invoices.pay, invoice),
                lambda: self.write(invoices.void, invoice),
            ]
        if user is not None:
            items = [{"quantity": 1, "unit_amount": amount}]
            choices += [
                lambda: self.make("ord", orders.create, orders.NewOrder(user, items)),
                lambda: self.write(users.deactivate, user),
                lambda: self.write(users.restore, user),
            ]
        if order is not None:
            choices += [lambda: self.write(orders.pay, order), lambda: self.write(orders.ship, order)]
        with contextlib.suppress(LedgerError):
            await self.chance.choice(choices)()

    async def look(self) -> None:
        """Remember everything as it is read now."""
        seen = {}
        for prefix, ids in self.ids.items():
            for id in ids:
                seen[id] = as_json(await self.read(KINDS[prefix].get, id))
        listed = (await self.read(transactions.page, PageRequest(limit=100))).items
        self.seen.append((self.clock.now(), seen, len(listed)))


@pytest.fixture
async def world(engine: Engine, tenant: Tenant, clock: ManualClock, seed: int) -> World:
    world = World(engine, tenant, clock, seed)
    for _ in range(STEPS):
        clock.advance(world.chance.randint(1, 5))
        await world.change()
        if world.chance.random() < 0.2:
            await world.look()
    clock.advance(1)
    await world.look()
    return world


async def all_of(world: World, prefix: str, at: int, **filters: str) -> list[dict[str, Any]]:
    """Every object of a list at a moment, read page by page."""
    if prefix == "usr":
        return list((await world.read(past.user_page, 1, 100, at, **filters))[1])
    work = {"acc": past.account_page, "inv": past.invoice_page, "ord": past.order_page}[prefix]
    found: list[dict[str, Any]] = []
    wanted = PageRequest(limit=3)
    while True:
        page = await world.read(work, wanted, at, **filters)
        found += [item if isinstance(item, dict) else as_json(item) for item in page.items]
        if not page.has_more:
            return found
        wanted = PageRequest(limit=3, after=page.next_cursor)


async def test_every_object_and_every_list_is_as_it_was(world: World) -> None:
    for at, seen, postings in world.seen:
        for prefix, ids in world.ids.items():
            there = [id for id in ids if id in seen]
            assert await all_of(world, prefix, at) == [seen[id] for id in sorted(there, reverse=True)]
            for id in ids:
                if id in seen:
                    shown = await world.read(THEN[prefix], id, at)
                    assert (shown if isinstance(shown, dict) else as_json(shown)) == seen[id]
                else:
                    with pytest.raises(NotFound):
                        await world.read(THEN[prefix], id, at)
        assert len((await world.read(transactions.page, PageRequest(limit=100), at=at)).items) == postings


async def test_a_filter_means_the_state_of_then(world: World) -> None:
    for at, seen, _ in world.seen:
        for prefix, name in (("inv", "status"), ("inv", "account"), ("ord", "status")):
            for value in {each[name] for id, each in seen.items() if id.startswith(prefix)}:
                expected = [seen[id] for id in sorted(seen, reverse=True) if seen[id].get(name) == value]
                expected = [each for each in expected if each["id"].startswith(prefix)]
                assert await all_of(world, prefix, at, **{name: value}) == expected


async def test_a_page_before_a_cursor_is_as_it_was(world: World) -> None:
    at, seen, _ = world.seen[-1]
    ids = sorted((id for id in seen if id.startswith("inv")), reverse=True)
    page = await world.read(past.invoice_page, PageRequest(limit=2, before=ids[-1]), at)
    assert [item["id"] for item in page.items] == ids[-3:-1]
    status = seen[ids[-1]]["status"]
    same = [id for id in ids[:-1] if seen[id]["status"] == status]
    page = await world.read(past.invoice_page, PageRequest(limit=2, before=ids[-1]), at, status=status)
    assert [item["id"] for item in page.items] == same[-2:]


async def test_the_last_page_before_a_cursor_is_newest_first_with_a_filter_too(
    write: Run, read: Run, clock: ManualClock
) -> None:
    account = (await write(accounts.create, accounts.NewAccount("Till", "EUR", {}))).id
    first, *others = [
        (await write(invoices.create, invoices.NewInvoice(account, "Café", 100))).id for _ in range(4)
    ]
    page = await read(past.invoice_page, PageRequest(limit=5, before=first), clock.now(), status="draft")
    assert ([item["id"] for item in page.items], page.has_more) == (others[::-1], False)


async def changes(
    read: Callable[..., Awaitable[Any]], start: int, end: int, request: PageRequest
) -> tuple[Page[past.Change], past.Summary]:
    counted = past.begin_to_count(start, end)
    while counted.after is not None:
        counted.add(await read(past.next_part, counted))
    page, summary = await read(past.changes, counted, request)
    return page, summary


@pytest.mark.parametrize("rows_at_once", [3, 5_000])
async def test_a_difference_is_that_of_two_moments(
    world: World, monkeypatch: pytest.MonkeyPatch, rows_at_once: int
) -> None:
    monkeypatch.setattr(past, "ROWS_AT_ONCE", rows_at_once)
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
    counted = past.begin_to_count(start - 1, clock.now())
    while counted.after is not None:
        counted.add(await read(past.next_part, counted))
    statements = 0

    def page_of(unit: Unit) -> Page[past.Change]:
        def execute(sql: str, parameters: Parameters = NOTHING, /) -> list[Row]:
            nonlocal statements
            statements += 1
            return unit.execute(sql, parameters)

        def first(sql: str, parameters: Parameters = NOTHING, /) -> Row | None:
            return next(iter(execute(sql, parameters)), None)

        counting = cast(Unit, SimpleNamespace(execute=execute, first=first))
        return past.changes(counting, tenant, counted, PageRequest(limit=30))[0]

    assert len((await engine.read(page_of)).items) == 30
    assert statements < 10


async def test_a_moment_ends_with_its_millisecond(write: Run, read: Run, clock: ManualClock) -> None:
    async def make(email: str) -> list[str]:
        account = (await write(accounts.create, accounts.NewAccount("Till", "EUR", {}))).id
        await write(transactions.post, transactions.NewTransaction(account, 100, "credit"))
        invoice = (await write(invoices.create, invoices.NewInvoice(account, "Café", 100))).id
        user = (await write(users.create, users.NewUser("Ada", email))).id
        order = await write(orders.create, orders.NewOrder(user, [{"quantity": 1, "unit_amount": 5}]))
        return [account, invoice, user, order.id]

    at = clock.now()
    first = await make("a@example.com")
    clock.advance(1)
    second = await make("b@example.com")
    listed = [
        as_json((await read(past.account_page, PageRequest(), at)).items[0])["id"],
        *[item["id"] for item in (await read(past.invoice_page, PageRequest(), at)).items],
        *[item["id"] for item in (await read(past.user_page, 1, 100, at))[1]],
        *[item["id"] for item in (await read(past.order_page, PageRequest(), at)).items],
    ]
    assert listed == first
    assert (await read(past.account, first[0], at)).balance == 100
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


@holds("past-erased")
async def test_an_erased_user_is_erased_at_every_moment(
    engine: Engine, tenant: Tenant, clock: ManualClock
) -> None:
    made = await engine.write(partial(users.create, tenant=tenant, new=users.NewUser("Ada", "a@example.com")))
    at = clock.now()
    clock.advance(1)
    await engine.write(partial(users.deactivate, tenant=tenant, id=made.id))
    await engine.write(partial(users.erase, id=made.id))
    shown = await engine.read(partial(past.user, tenant=tenant, id=made.id, at=at))
    assert (shown["name"], shown["email"], shown["status"]) == (None, None, "active")
