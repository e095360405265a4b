"""Looking back: each moment shows every object as it was then."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from ledger_engine.core.errors import NotFound
from ledger_engine.core.records import as_json
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts, invoices, orders, past, transactions, users
from ledger_engine.store.engine import Engine
from ledger_engine.store.pages import PageRequest
from tests.contract.rules import holds
from tests.ledger_engine.conftest import Run
from tests.ledger_engine.ledger.conftest import World
from tests.ledger_engine.manual_clock import ManualClock

THEN = {"acc": past.account, "inv": past.invoice, "usr": past.user, "ord": past.order}


async def make_one_of_each(write: Run, email: str) -> list[str]:
    """Make an account with a transaction, an invoice, a user and an order; return their ids."""
    account = (await write(accounts.create, accounts.NewAccount("Till", "EUR", {}))).id
    await write(transactions.post, transactions.NewTransaction(account, 100, "credit"))
    invoice = (await write(invoices.create, invoices.NewInvoice(account, "Café", 100))).id
    user = (await write(users.create, users.NewUser("Ada", email))).id
    order = await write(orders.create, orders.NewOrder(user, [{"quantity": 1, "unit_amount": 5}]))
    return [account, invoice, user, order.id]


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


async def test_a_moment_ends_with_its_millisecond(write: Run, read: Run, clock: ManualClock) -> None:
    at = clock.now()
    first = await make_one_of_each(write, "a@example.com")
    clock.advance(1)
    await make_one_of_each(write, "b@example.com")
    listed = [
        as_json((await read(past.account_page, PageRequest(), at)).items[0])["id"],
        *[item["id"] for item in (await read(past.invoice_page, PageRequest(), at)).items],
        *[item["id"] for item in (await read(past.user_page, 1, 100, at))[1]],
        *[item["id"] for item in (await read(past.order_page, PageRequest(), at)).items],
    ]
    assert listed == first
    assert (await read(past.account, first[0], at)).balance == 100


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
