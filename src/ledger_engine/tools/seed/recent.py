"""Gives a demo a recent history: deeds (`tools.seed.deeds`) that are dated in the minutes before its start.

All changes go through the engine's own rules.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from random import Random
from typing import Any

from ledger_engine.core.errors import LedgerError, StorageUnavailable
from ledger_engine.core.ids import IdSource
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts, invoices, orders, transactions, users
from ledger_engine.ledger.invoices import NewInvoice
from ledger_engine.ledger.orders import NewOrder
from ledger_engine.ledger.transactions import NewTransaction, Transaction
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine
from ledger_engine.store.pages import LIMIT_MAX, PageRequest
from ledger_engine.tools.seed.deeds import DEEDS, DEEDS_A_SECOND, Deed, Fields, Past
from ledger_engine.tools.seed.steps import UnitInThePast

POSTINGS_MAX = 2000  # how many of the newest transactions are read, because deeds imitate them
# Deeds imitate only transactions whose description occurs at least this often; this excludes wages.
OFTEN = 10
_A_TURN = 100  # the number of deeds in one commit

log = logging.getLogger("ledger_engine.tools.seed.recent")

_PAGES: dict[str, Callable[..., Any]] = {
    "transactions": transactions.page,
    "invoices": invoices.page,
    "orders": orders.page,
}
_ACTIONS: dict[tuple[str, str], Callable[[Unit, Tenant, str], object]] = {
    ("transactions", "reverse"): transactions.reverse,
    ("invoices", "finalize"): invoices.finalize,
    ("invoices", "pay"): invoices.pay,
    ("orders", "pay"): orders.pay,
    ("orders", "ship"): orders.ship,
}


class BooksInThePast:
    """Implements the protocol `Books` of `tools.seed.deeds` within one transaction, at the time of `unit`.

    The methods never wait.
    """

    def __init__(self, unit: Unit, tenant: Tenant, past: Past, random: Random) -> None:
        self.past = past
        self.random = random
        self._unit = unit
        self._tenant = tenant

    @property
    def now(self) -> int:
        return self._unit.now

    async def balance(self, account: str) -> int:
        return accounts.get(self._unit, self._tenant, account).balance

    async def newest(self, kind: str, **only: str) -> list[Any]:
        if kind == "users":
            return users.page(self._unit, self._tenant, per_page=LIMIT_MAX).items
        newest: list[Any] = _PAGES[kind](self._unit, self._tenant, PageRequest(LIMIT_MAX), **only).items
        return newest

    async def create(self, kind: str, fields: Fields) -> None:
        if kind == "transactions":
            transactions.post(self._unit, self._tenant, NewTransaction(**fields))
        elif kind == "invoices":
            invoices.create(self._unit, self._tenant, NewInvoice(**fields))
        else:
            orders.create(self._unit, self._tenant, NewOrder(**fields))

    async def move(self, kind: str, id: str, action: str) -> None:
        _ACTIONS[kind, action](self._unit, self._tenant, id)


def _do_at_once(doing: Awaitable[None]) -> None:
    """Run the coroutine of a deed to its end.

    The caller is the function that is passed to `engine.write`. It is a plain function, which cannot await,
    so the deed must not wait for anything.
    """
    for _ in doing.__await__():
        raise AssertionError("a deed in the past waits for nothing")


async def make_recent(
    engine: Engine,
    tenant: Tenant,
    past: Past,
    times: Iterator[int],
    random: Random,
    report: Callable[[int], None] = lambda _deeds: None,
) -> None:
    """Do a deed at each of these times. The times are in milliseconds, the earliest first.

    After each commit `report` is called with the number of deeds in the commit. If the ledger's rules forbid
    one deed, all deeds of the same commit are left out. Raises StorageUnavailable.
    """
    ids = IdSource()
    while turn := [*islice(times, _A_TURN)]:
        # The engine may run `work` more than once, and each run must have the same result. So the random
        # choices are made here, once.
        turn_deeds = [
            (at, random.choices([*DEEDS], [*DEEDS.values()])[0], random.getrandbits(64)) for at in turn
        ]

        def work(unit: Unit, turn_deeds: list[tuple[int, Deed, int]] = turn_deeds) -> None:
            in_past = UnitInThePast(unit, ids)
            for at, deed, chance in turn_deeds:
                in_past.now = at
                _do_at_once(deed(BooksInThePast(in_past, tenant, past, Random(chance))))

        try:
            await engine.write(work)
        except StorageUnavailable:
            raise
        except LedgerError as error:
            log.warning("%s deeds of the demo are left out: %s", len(turn), error)
        report(len(turn))


def times_between(start: int, end: int, random: Random) -> Iterator[int]:
    """Yield random times from `start` to `end` in milliseconds, on average `DEEDS_A_SECOND` each second."""
    at = start + random.expovariate(DEEDS_A_SECOND) * 1000
    while at < end:
        yield int(at)
        at += random.expovariate(DEEDS_A_SECOND) * 1000


def recall(unit: Unit, tenant: Tenant) -> Past:
    """Return the newest changes of the project that deeds can imitate."""
    postings: list[Transaction] = []
    request: PageRequest | None = PageRequest(LIMIT_MAX)
    while request is not None and len(postings) < POSTINGS_MAX:
        page = transactions.page(unit, tenant, request)
        postings += page.items
        request = PageRequest(LIMIT_MAX, after=page.next_cursor) if page.next_cursor else None
    times = Counter(each.description for each in postings)
    return Past(
        # The first side of a transfer stands for both sides.
        postings=[
            each
            for each in postings
            if each.reverses is None and each.transfer in (None, each.id) and times[each.description] >= OFTEN
        ],
        invoices=invoices.page(unit, tenant, PageRequest(LIMIT_MAX)).items,
        # Leave out orders with a total of 0, because an imitation of such an order would look like a mistake.
        orders=[each for each in orders.page(unit, tenant, PageRequest(LIMIT_MAX)).items if each.total],
    )
