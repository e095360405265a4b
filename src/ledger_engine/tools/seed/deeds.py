"""Deeds: the actions, such as a payment or an order, that the demo performs for invented users.

A deed imitates an earlier transaction, invoice or order, with another amount. So deeds fit every data set.
Deeds reach the ledger through the protocol `Books`, which has two implementations: `tools.seed.recent` works
in the ledger itself, and dates each deed in the past; `tools.seed.traffic` sends requests over HTTP.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol, TypeVar

from ledger_engine.core.clock import DAY, iso
from ledger_engine.ledger.invoices import Invoice
from ledger_engine.ledger.orders import Order
from ledger_engine.ledger.transactions import Transaction

DEEDS_A_SECOND = 3.0  # on average
PROMPT = 8  # a payment usually chooses among this many newest open invoices
LATE_PAYERS = 0.01  # the fraction of payments that choose among all open invoices

LEFT = 5  # deeds leave this many drafts, open invoices, and open and paid orders, for a user to act on

T = TypeVar("T")
Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Past:
    """The past changes that deeds imitate.

    They are read once, before the first deed, so no deed imitates another deed.
    """

    postings: list[Transaction]
    invoices: list[Invoice]
    orders: list[Order]


class Books(Protocol):
    """The operations of the ledger that deeds need. A returned object has its fields as attributes."""

    @property
    def past(self) -> Past: ...

    @property
    def random(self) -> Random: ...

    @property
    def now(self) -> int:
        """Return the time in milliseconds."""
        ...

    async def balance(self, account: str) -> int:
        """Return the balance of an account."""
        ...

    async def newest(self, kind: str, **only: str) -> list[Any]:
        """Return the newest objects of a kind, such as `invoices`.

        `only` restricts the result to objects whose fields have these values, such as `status="open"`.
        """
        ...

    async def create(self, kind: str, fields: Fields) -> None:
        """Create an object of a kind."""
        ...

    async def move(self, kind: str, id: str, action: str) -> None:
        """Perform an action such as `pay` on an object."""
        ...


def like_earlier(books: Books) -> Fields | None:
    """Return the fields of a new transaction that imitates an earlier one, with a similar amount.

    Return None if there is no earlier transaction to imitate.
    """
    if not books.past.postings:
        return None
    like = books.random.choice(books.past.postings)
    return {
        "account": like.account,
        "amount": about(like.amount, books.random),
        "type": like.type,
        "description": like.description,
        "destination": like.destination,
    }


async def post(books: Books) -> None:
    """Post a transaction like an earlier one. Do nothing if it would debit more than the balance."""
    fields = like_earlier(books)
    if fields is None:
        return
    if fields["type"] == "debit" and await books.balance(fields["account"]) < fields["amount"]:
        return
    await books.create("transactions", fields)


async def refund(books: Books) -> None:
    """Refund one of the last payments."""
    recent = await books.newest("transactions", type="credit")
    if simple := [each for each in recent if each.transfer is None and each.reverses is None]:
        await books.move("transactions", books.random.choice(simple).id, "reverse")


async def draft_invoice(books: Books) -> None:
    """Draft an invoice like an earlier one."""
    if not books.past.invoices:
        return
    like, random = books.random.choice(books.past.invoices), books.random
    lines = [{**line, "quantity": about(line["quantity"], random)} for line in like.lines or ()]
    fields: Fields = {"lines": lines} if lines else {"amount": about(like.amount, random)}
    fields |= {"account": like.account, "customer": like.customer, "metadata": dict(like.metadata)}
    await books.create("invoices", fields | {"due_date": iso(books.now + 14 * DAY)[:10]})


async def spare(books: Books, kind: str, status: str) -> list[Any]:
    """Return the newest objects in a state; an empty list if there are no more than LEFT."""
    objects = await books.newest(kind, status=status)
    return objects if len(objects) > LEFT else []


async def finalize_invoice(books: Books) -> None:
    """Finalize a draft."""
    if drafts := await spare(books, "invoices", "draft"):
        await books.move("invoices", prompt(drafts, books.random).id, "finalize")


async def pay_invoice(books: Books) -> None:
    """Pay an open invoice."""
    if unpaid := await spare(books, "invoices", "open"):
        await books.move("invoices", prompt(unpaid, books.random).id, "pay")


async def place_order(books: Books) -> None:
    """Place an order like an earlier one, by any user."""
    active = [user for user in await books.newest("users") if user.status == "active"]
    if books.past.orders and active:
        user = books.random.choice(active).id
        items = books.random.choice(books.past.orders).items
        await books.create("orders", {"user_id": user, "items": items})


async def pay_order(books: Books) -> None:
    """Pay an open order."""
    if unpaid := await spare(books, "orders", "open"):
        await books.move("orders", books.random.choice(unpaid).id, "pay")


async def ship_order(books: Books) -> None:
    """Ship a paid order."""
    if order := await spare(books, "orders", "paid"):
        await books.move("orders", books.random.choice(order).id, "ship")


Deed = Callable[[Books], Awaitable[None]]
# How many of a hundred deeds are of each kind. Deeds that finalize, pay or ship are slightly more frequent
# than the deeds that create the invoices and orders, so that drafts and open orders do not pile up in a long
# demo.
DEEDS: dict[Deed, int] = {
    post: 59,
    refund: 1,
    draft_invoice: 5,
    finalize_invoice: 6,
    pay_invoice: 6,
    place_order: 7,
    pay_order: 8,
    ship_order: 8,
}


def about(amount: int, random: Random) -> int:
    """Return a random amount, at most a fifth more or less than `amount`, and as round as `amount`.

    For instance, the result for 12,500 is also a multiple of 100.
    """
    grain = 1
    while amount % (grain * 10) == 0 and amount // (grain * 10) >= 10:
        grain *= 10
    return max(grain, round(amount * random.uniform(0.8, 1.2) / grain) * grain)


def prompt(objects: Sequence[T], random: Random) -> T:
    """Return one of the newest PROMPT of these objects. In rare cases return any of the objects.

    This is realistic: few old invoices are still paid.
    """
    return random.choice(objects if random.random() < LATE_PAYERS else objects[:PROMPT])
