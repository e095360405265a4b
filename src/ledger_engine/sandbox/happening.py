"""Making an event happen: everything it takes is made by the ledger's own rules, in one commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ledger_engine.core.errors import InvalidRequest
from ledger_engine.core.records import Record
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.events.outbox import Event
from ledger_engine.ledger import accounts, invoices, orders, transactions, users
from ledger_engine.ledger.accounts import Account, NewAccount
from ledger_engine.ledger.invoices import Invoice, NewInvoice
from ledger_engine.ledger.orders import NewOrder
from ledger_engine.ledger.transactions import NewTransaction
from ledger_engine.ledger.users import NewUser
from ledger_engine.store import Unit
from ledger_engine.store.pages import PageRequest

AMOUNT = 12_50
_RECENT = PageRequest(10)  # no kind of event takes more events


def make_happen(unit: Unit, tenant: Tenant, type: str) -> tuple[Event, list[Record]]:
    """Make an event of this type happen; return it and the objects made for it, as they are then.

    Raises InvalidRequest for an unknown type, and what making the objects raises.
    """
    if type not in _MAKERS:
        raise InvalidRequest("invalid_value", f"type must be one of {', '.join(outbox.KINDS)}.", "type")
    make, moves = _MAKERS[type]
    made = make(unit, tenant, *moves)
    event = next(each for each in outbox.page(unit, tenant, _RECENT).items if each.type == type)
    return event, made


def _account(unit: Unit, tenant: Tenant) -> Account:
    return accounts.create(unit, tenant, NewAccount("Test account", "EUR", {}))


def _posted(unit: Unit, tenant: Tenant) -> list[Record]:
    account = _account(unit, tenant)
    posted = transactions.post(unit, tenant, NewTransaction(account.id, AMOUNT, "credit", "Test posting"))
    return [accounts.get(unit, tenant, account.id), posted]


def _invoice(unit: Unit, tenant: Tenant, *moves: Move) -> list[Record]:
    account = _account(unit, tenant)
    invoice = invoices.create(unit, tenant, NewInvoice(account.id, "Test customer", AMOUNT))
    for move in moves:
        invoice = move(unit, tenant, invoice.id)
    payment = invoice.transaction
    paid = [] if payment is None else [transactions.get(unit, tenant, payment)]
    return [accounts.get(unit, tenant, account.id), invoice, *paid]


def _update(unit: Unit, tenant: Tenant, id: str) -> Invoice:
    return invoices.update(unit, tenant, id, {"amount": 2 * AMOUNT})


def _user(unit: Unit, tenant: Tenant, *moves: Move) -> list[Record]:
    # An address that no other user has.
    user = users.create(unit, tenant, NewUser("Test user", f"{unit.new_id('usr')}@example.com"))
    for move in moves:
        user = move(unit, tenant, user.id)
    return [user]


def _order(unit: Unit, tenant: Tenant, *moves: Move) -> list[Record]:
    (user,) = _user(unit, tenant)
    item = {"name": "Test item", "quantity": 1, "unit_amount": AMOUNT}
    order = orders.create(unit, tenant, NewOrder(user.id, [item]))
    for move in moves:
        order = move(unit, tenant, order.id)
    return [user, order]


Move = Callable[[Unit, Tenant, str], Any]
Make = Callable[..., list[Record]]
# How each is made: an object, and how that is then moved from state to state.
_MAKERS: dict[str, tuple[Make, list[Move]]] = {
    "account.created": (lambda unit, tenant: [_account(unit, tenant)], []),
    "transaction.created": (_posted, []),
    "invoice.created": (_invoice, []),
    "invoice.updated": (_invoice, [_update]),
    "invoice.opened": (_invoice, [invoices.finalize]),
    "invoice.paid": (_invoice, [invoices.finalize, invoices.pay]),
    "invoice.voided": (_invoice, [invoices.finalize, invoices.void]),
    "user.created": (_user, []),
    "user.deactivated": (_user, [users.deactivate]),
    "user.restored": (_user, [users.deactivate, users.restore]),
    "order.created": (_order, []),
    "order.paid": (_order, [orders.pay]),
    "order.shipped": (_order, [orders.pay, orders.ship]),
}
