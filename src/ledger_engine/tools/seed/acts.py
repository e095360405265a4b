"""The demo's last minutes before it begins: changes such as a ledger in use has, made in the past.

They repeat what they find: transactions, invoices and orders like earlier ones, with other amounts. So they
fit whatever data set is loaded. All changes go through the engine's own rules.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import TypeVar

from ledger_engine.core.clock import DAY, iso
from ledger_engine.core.errors import LedgerError, StorageUnavailable
from ledger_engine.core.ids import IdSource
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts, invoices, orders, transactions, users
from ledger_engine.ledger.invoices import Invoice, Line, NewInvoice
from ledger_engine.ledger.orders import NewOrder, Order
from ledger_engine.ledger.transactions import NewTransaction, Transaction
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine
from ledger_engine.store.pages import LIMIT_MAX, PageRequest
from ledger_engine.tools.seed.steps import UnitInThePast

A_SECOND = 3.0  # changes, on average
POSTINGS_MAX = 2000  # how many recent transactions may be repeated
OFTEN = 10  # occurrences among these; rarer ones, like wages, are not repeated
PROMPT = 8  # how many of the newest open invoices are paid next
LATE_PAYERS = 0.01  # the share of payments for any of them
_A_TURN = 100  # changes in one commit

log = logging.getLogger("ledger_engine.tools.seed.acts")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Past:
    """Past changes that may be repeated. They are read once: what the demo adds is not repeated."""

    postings: list[Transaction]
    invoices: list[Invoice]
    orders: list[Order]


Act = Callable[[Unit, Tenant, Past, Random], None]


async def make_recent(
    engine: Engine,
    tenant: Tenant,
    past: Past,
    times: Iterator[int],
    random: Random,
    done: Callable[[int], None] = lambda _changes: None,
) -> None:
    """Make a change at each of these times, in milliseconds and in order, some in each commit.

    `done` is called with the number of changes of each commit. When the ledger's rules forbid one, all of its
    commit are left out. Raises StorageUnavailable.
    """
    ids = IdSource()
    while turn := [*islice(times, _A_TURN)]:
        # A work may run again and must do the same, so the chances of each are drawn here, once.
        changes = [(at, random.choices([*ACTS], [*ACTS.values()])[0], random.getrandbits(64)) for at in turn]

        def work(unit: Unit, changes: list[tuple[int, Act, int]] = changes) -> None:
            in_past = UnitInThePast(unit, ids)
            for at, act, chance in changes:
                in_past.now = at
                act(in_past, tenant, past, Random(chance))

        try:
            await engine.write(work)
        except StorageUnavailable:
            raise
        except LedgerError as error:
            log.warning("%s changes of the demo are left out: %s", len(turn), error)
        done(len(turn))


def times_between(start: int, end: int, random: Random) -> Iterator[int]:
    """Yield the times of changes from `start` to `end`, in milliseconds; on average `A_SECOND` a second."""
    at = start + random.expovariate(A_SECOND) * 1000
    while at < end:
        yield int(at)
        at += random.expovariate(A_SECOND) * 1000


def recall(unit: Unit, tenant: Tenant) -> Past:
    """Return the project's recent past."""
    postings: list[Transaction] = []
    wanted: PageRequest | None = PageRequest(LIMIT_MAX)
    while wanted is not None and len(postings) < POSTINGS_MAX:
        page = transactions.page(unit, tenant, wanted)
        postings += page.items
        wanted = PageRequest(LIMIT_MAX, after=page.next_cursor) if page.next_cursor else None
    times = Counter(each.description for each in postings)
    return Past(
        # The first side of a transfer stands for both.
        postings=[
            each
            for each in postings
            if each.reverses is None and each.transfer in (None, each.id) and times[each.description] >= OFTEN
        ],
        invoices=invoices.page(unit, tenant, PageRequest(LIMIT_MAX)).items,
        # Not what was given away: an order for nothing would look like a mistake.
        orders=[each for each in orders.page(unit, tenant, PageRequest(LIMIT_MAX)).items if each.total],
    )


def post_again(unit: Unit, tenant: Tenant, past: Past, random: Random) -> None:
    """Post a transaction like an earlier one, with a similar amount; debit only what the account holds."""
    if not past.postings:
        return
    like = random.choice(past.postings)
    amount = about(like.amount, random)
    if like.type == "debit" and accounts.get(unit, tenant, like.account).balance < amount:
        return
    new = NewTransaction(like.account, amount, like.type, like.description, like.destination)
    transactions.post(unit, tenant, new)


def refund(unit: Unit, tenant: Tenant, past: Past, random: Random) -> None:
    """Refund one of the last payments."""
    recent = transactions.page(unit, tenant, PageRequest(LIMIT_MAX), type="credit").items
    if simple := [each for each in recent if each.transfer is None and each.reverses is None]:
        transactions.reverse(unit, tenant, random.choice(simple).id)


def draft_invoice(unit: Unit, tenant: Tenant, past: Past, random: Random) -> None:
    """Draft an invoice like an earlier one."""
    if not past.invoices:
        return
    like = random.choice(past.invoices)
    lines: list[Line] | None = None
    if like.lines is not None:
        lines = [{**line, "quantity": about(line["quantity"], random)} for line in like.lines]
    new = NewInvoice(
        account=like.account,
        customer=like.customer,
        amount=None if lines else about(like.amount, random),
        lines=lines,
        due_date=iso(unit.now + 14 * DAY)[:10],
        metadata=like.metadata,
    )
    invoices.create(unit, tenant, new)


def finalize_invoice(unit: Unit, tenant: Tenant, past: Past, random: Random) -> None:
    """Finalize a draft."""
    if invoice := _some_invoice(unit, tenant, random, "draft"):
        invoices.finalize(unit, tenant, invoice)


def pay_invoice(unit: Unit, tenant: Tenant, past: Past, random: Random) -> None:
    """Pay an open invoice."""
    if invoice := _some_invoice(unit, tenant, random, "open"):
        invoices.pay(unit, tenant, invoice)


def place_order(unit: Unit, tenant: Tenant, past: Past, random: Random) -> None:
    """Place an order like an earlier one, by any user."""
    active = [user for user in users.page(unit, tenant, per_page=LIMIT_MAX).items if user.status == "active"]
    if past.orders and active:
        new = NewOrder(random.choice(active).id, random.choice(past.orders).items)
        orders.create(unit, tenant, new)


def pay_order(unit: Unit, tenant: Tenant, past: Past, random: Random) -> None:
    """Pay an open order."""
    if order := _some_order(unit, tenant, random, "open"):
        orders.pay(unit, tenant, order)


def ship_order(unit: Unit, tenant: Tenant, past: Past, random: Random) -> None:
    """Ship a paid order."""
    if order := _some_order(unit, tenant, random, "paid"):
        orders.ship(unit, tenant, order)


# How often each happens, in a hundred times. Objects leave each stage a little more often than they
# enter it, so that drafts and open orders do not pile up however long the demo runs.
ACTS: dict[Act, int] = {
    post_again: 59,
    refund: 1,
    draft_invoice: 5,
    finalize_invoice: 6,
    pay_invoice: 6,
    place_order: 7,
    pay_order: 8,
    ship_order: 8,
}


def about(amount: int, random: Random) -> int:
    """Return an amount within a fifth of the given one, and as round: 12,500 stays a multiple of 100."""
    grain = 1
    while amount % (grain * 10) == 0 and amount // (grain * 10) >= 10:
        grain *= 10
    return max(grain, round(amount * random.uniform(0.8, 1.2) / grain) * grain)


def prompt(objects: Sequence[T], random: Random) -> T:
    """Return one of the newest of these objects: an invoice not paid in time is seldom paid at all."""
    return random.choice(objects if random.random() < LATE_PAYERS else objects[:PROMPT])


def _some_invoice(unit: Unit, tenant: Tenant, random: Random, status: str) -> str | None:
    found = invoices.page(unit, tenant, PageRequest(LIMIT_MAX), status=status).items
    return prompt(found, random).id if found else None


def _some_order(unit: Unit, tenant: Tenant, random: Random, status: str) -> str | None:
    found = orders.page(unit, tenant, PageRequest(LIMIT_MAX), status=status).items
    return random.choice(found).id if found else None
