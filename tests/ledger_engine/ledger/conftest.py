"""A ledger that changes at random, and all that was read in it at some moments."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import pytest

from ledger_engine.core.errors import LedgerError
from ledger_engine.core.records import as_json
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts, invoices, orders, transactions, users
from ledger_engine.store.engine import Engine
from ledger_engine.store.pages import PageRequest
from tests.ledger_engine.manual_clock import ManualClock

STEPS = 150
KINDS = {"acc": accounts, "inv": invoices, "usr": users, "ord": orders}
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
