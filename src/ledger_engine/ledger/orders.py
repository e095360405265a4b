"""Orders of a project's users, from open to paid to shipped.

See docs/decisions.md#directory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from ledger_engine.access import idempotency, quotas
from ledger_engine.core.errors import Conflict, InvalidRequest
from ledger_engine.core.ids import OrderId, UserId
from ledger_engine.core.money import MAX_AMOUNT
from ledger_engine.core.records import Moment, OneOf, dumps
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.ledger import users
from ledger_engine.store import Row, Unit, in_one_book, pages
from ledger_engine.store.pages import Listing, Page, PageRequest
from ledger_engine.store.rows import insert, reader, short, update_row

STATUSES = ("open", "paid", "shipped")
ITEMS_MAX = 100

Item = Mapping[str, Any]  # a JSON object, whose fields the caller chooses


@dataclass(slots=True)
class Order:
    """An order of one user.

    `items` are stored as they were sent; `total` is the sum of the items with a `unit_amount`.
    """

    OBJECT: ClassVar[str] = "order"

    id: OrderId
    user_id: UserId
    items: list[Item]
    total: int
    status: Annotated[str, OneOf(*STATUSES)]
    paid_at: Moment | None
    shipped_at: Moment | None
    created: Moment
    livemode: bool


@dataclass(slots=True)
class NewOrder:
    user_id: str
    items: Sequence[Item]


@in_one_book
def create(unit: Unit, tenant: Tenant, new: NewOrder, key: str | None = None) -> Order:
    """Create an order for an active user, and return it."""
    total = _total(new.items)
    order = Order(
        id=unit.new_id("ord"),
        user_id=new.user_id,
        items=list(new.items),
        total=total,
        status="open",
        paid_at=None,
        shipped_at=None,
        created=Moment(unit.now),
        livemode=tenant.livemode,
    )
    idempotency.take(unit, tenant, key, order.id)
    users.require_active(unit, tenant, new.user_id, "user_id")
    quotas.count_stored(unit, tenant)
    values = tenant.bind(
        id=order.id,
        user_id=order.user_id,
        items=_items_text(order.items),
        total=order.total,
        created=order.created,
    )
    insert(unit, "orders", values)
    outbox.record(unit, tenant, "order.created", order)
    return order


def get(unit: Unit, tenant: Tenant, id: str) -> Order:
    """Return the order. Raises NotFound."""
    return _LISTING.get(unit, tenant, id)


def page(unit: Unit, tenant: Tenant, request: PageRequest, *, status: str | None = None) -> Page[Order]:
    """Return a page of the orders, newest first."""
    if status is not None and status not in STATUSES:
        raise InvalidRequest("invalid_value", f"status must be one of {', '.join(STATUSES)}.", "status")
    return _LISTING.page(unit, tenant, request, {"status": status})


def of_user(unit: Unit, tenant: Tenant, request: PageRequest, user: str) -> Page[Order]:
    """Return a page of the user's orders, newest first. Raises NotFound if the user does not exist."""
    users.get(unit, tenant, user)
    # A user belongs to one project and mode, so a condition on project and mode is not needed.
    return _LISTING.page(unit, tenant, request, {}, among="user_id = :user", values={"user": user})


@in_one_book
def pay(unit: Unit, tenant: Tenant, id: str, key: str | None = None) -> Order:
    """Mark an open order as paid. Raises Conflict `order_not_open`."""
    idempotency.take(unit, tenant, key, id)
    row = update_row(unit, tenant, "orders", id, "status = 'open'", status="paid", paid_at=unit.now)
    if row is None:
        status = get(unit, tenant, id).status
        raise Conflict("order_not_open", f"Only an open order can be paid; {id} is {status}.")
    return _record_change(unit, tenant, "order.paid", row)


@in_one_book
def ship(unit: Unit, tenant: Tenant, id: str, key: str | None = None) -> Order:
    """Mark a paid order as shipped. Raises Conflict `order_not_paid`."""
    idempotency.take(unit, tenant, key, id)
    row = update_row(unit, tenant, "orders", id, "status = 'paid'", status="shipped", shipped_at=unit.now)
    if row is None:
        status = get(unit, tenant, id).status
        raise Conflict("order_not_paid", f"Only a paid order can be shipped; {id} is {status}.")
    return _record_change(unit, tenant, "order.shipped", row)


def _total(items: Sequence[Item]) -> int:
    """Return the sum of quantity × unit_amount over all items.

    A missing quantity counts as 1, and a missing unit_amount as 0. Raises InvalidRequest.
    """
    if not 1 <= len(items) <= ITEMS_MAX:
        raise InvalidRequest("invalid_value", f"items must have 1 to {ITEMS_MAX} objects.", "items")
    total = 0
    for number, item in enumerate(items):
        quantity = _integer(item.get("quantity", 1), 1, f"items.{number}.quantity")
        unit_amount = _integer(item.get("unit_amount", 0), 0, f"items.{number}.unit_amount")
        total += quantity * unit_amount
    if total > MAX_AMOUNT:
        raise InvalidRequest(
            "invalid_value", f"The total of the items must be at most {MAX_AMOUNT}.", "items"
        )
    return total


def _integer(value: object, least: int, param: str) -> int:
    # In Python True and False are integers too, but in JSON they are not.
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MAX_AMOUNT:
        raise InvalidRequest(
            "invalid_value", f"{param} must be an integer from {least} to {MAX_AMOUNT}.", param
        )
    return value


def _items_text(items: list[Item]) -> str:
    try:
        return dumps(items)
    except ValueError:
        # Python reads a number such as 1e400 as infinity, which JSON cannot represent.
        raise InvalidRequest("invalid_value", "A number in items is out of range.", "items") from None


def _record_change(unit: Unit, tenant: Tenant, kind: str, row: Row) -> Order:
    """Record the event of a change, and return the changed order."""
    order = read(row)
    outbox.record(unit, tenant, kind, order)
    return order


read = reader(Order)
LONG = ("items",)
SHORT_COLUMNS = (
    f"id, user_id, {short('items', pages.SHORT_MAX)} AS items, total, status, paid_at, shipped_at, created,"
    " livemode"
)
_LISTING: Listing[Order] = Listing("orders", "order", read, long=LONG, short_columns=SHORT_COLUMNS)
