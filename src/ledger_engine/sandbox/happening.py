"""Making an event happen: everything it takes is made by the ledger's own rules, in one commit."""

from __future__ import annotations

from collections.abc import Callable

from ledger_engine.core.errors import InvalidRequest
from ledger_engine.core.records import Record
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.events.outbox import Event
from ledger_engine.ledger import accounts, invoices, orders, transactions, users
from ledger_engine.ledger.accounts import Account, NewAccount
from ledger_engine.ledger.invoices import Invoice, NewInvoice
from ledger_engine.ledger.orders import NewOrder, Order
from ledger_engine.ledger.transactions import NewTransaction
from ledger_engine.ledger.users import NewUser, User
from ledger_engine.store import Unit
from ledger_engine.store.pages import PageRequest

AMOUNT = 12_50
_RECENT = PageRequest(10)  # no kind of event takes more events


def make_happen(unit: Unit, tenant: Tenant, type: str) -> tuple[Event, list[Record]]:
    """Make an event of this type happen; return it and the objects made for it, as they are then.

    Raises InvalidRequest for an unknown type, and what making the objects raises.
    """
    make = _MAKERS.get(type)
    if make is None:
        raise InvalidRequest("invalid_value", f"type must be one of {', '.join(outbox.KINDS)}.", "type")
    made = make(unit, tenant)
    event = next(each for each in outbox.page(unit, tenant, _RECENT).items if each.type == type)
    return event, made


def _account(unit: Unit, tenant: Tenant) -> Account:
    return accounts.create(unit, tenant, NewAccount("Test account", "EUR", {}))


def _posted(unit: Unit, tenant: Tenant) -> list[Record]:
    account = _account(unit, tenant)
    posted = transactions.post(unit, tenant, NewTransaction(account.id, AMOUNT, "credit", "Test posting"))
    return [accounts.get(unit, tenant, account.id), posted]


def _drafted(unit: Unit, tenant: Tenant) -> tuple[Account, Invoice]:
    account = _account(unit, tenant)
    return account, invoices.create(unit, tenant, NewInvoice(account.id, "Test customer", AMOUNT))


def _drafted_alone(unit: Unit, tenant: Tenant) -> list[Record]:
    return list(_drafted(unit, tenant))


def _updated(unit: Unit, tenant: Tenant) -> list[Record]:
    account, invoice = _drafted(unit, tenant)
    return [account, invoices.update(unit, tenant, invoice.id, {"amount": 2 * AMOUNT})]


def _opened(unit: Unit, tenant: Tenant) -> list[Record]:
    account, invoice = _drafted(unit, tenant)
    return [account, invoices.finalize(unit, tenant, invoice.id)]


def _paid(unit: Unit, tenant: Tenant) -> list[Record]:
    account, invoice = _drafted(unit, tenant)
    invoices.finalize(unit, tenant, invoice.id)
    paid = invoices.pay(unit, tenant, invoice.id)
    assert paid.transaction is not None, "a paid invoice has its payment"
    payment = transactions.get(unit, tenant, paid.transaction)
    return [accounts.get(unit, tenant, account.id), paid, payment]


def _voided(unit: Unit, tenant: Tenant) -> list[Record]:
    account, invoice = _drafted(unit, tenant)
    invoices.finalize(unit, tenant, invoice.id)
    return [account, invoices.void(unit, tenant, invoice.id)]


def _user(unit: Unit, tenant: Tenant) -> User:
    # An address that no other user has.
    return users.create(unit, tenant, NewUser("Test user", f"{unit.new_id('usr')}@example.com"))


def _deactivated(unit: Unit, tenant: Tenant) -> list[Record]:
    return [users.deactivate(unit, tenant, _user(unit, tenant).id)]


def _restored(unit: Unit, tenant: Tenant) -> list[Record]:
    user = _user(unit, tenant)
    users.deactivate(unit, tenant, user.id)
    return [users.restore(unit, tenant, user.id)]


def _ordered(unit: Unit, tenant: Tenant) -> tuple[User, Order]:
    user = _user(unit, tenant)
    item = {"name": "Test item", "quantity": 1, "unit_amount": AMOUNT}
    return user, orders.create(unit, tenant, NewOrder(user.id, [item]))


def _ordered_alone(unit: Unit, tenant: Tenant) -> list[Record]:
    return list(_ordered(unit, tenant))


def _order_paid(unit: Unit, tenant: Tenant) -> list[Record]:
    user, order = _ordered(unit, tenant)
    return [user, orders.pay(unit, tenant, order.id)]


def _shipped(unit: Unit, tenant: Tenant) -> list[Record]:
    user, order = _ordered(unit, tenant)
    orders.pay(unit, tenant, order.id)
    return [user, orders.ship(unit, tenant, order.id)]


_MAKERS: dict[str, Callable[[Unit, Tenant], list[Record]]] = {
    "account.created": lambda unit, tenant: [_account(unit, tenant)],
    "transaction.created": _posted,
    "invoice.created": _drafted_alone,
    "invoice.updated": _updated,
    "invoice.opened": _opened,
    "invoice.paid": _paid,
    "invoice.voided": _voided,
    "user.created": lambda unit, tenant: [_user(unit, tenant)],
    "user.deactivated": _deactivated,
    "user.restored": _restored,
    "order.created": _ordered_alone,
    "order.paid": _order_paid,
    "order.shipped": _shipped,
}
