"""Routes of the directory surface: the health of the server for monitoring, users and orders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.ids import id_pattern
from ledger_engine.core.money import MAX_AMOUNT
from ledger_engine.core.records import Pattern, as_json, dumps
from ledger_engine.http.bodies import Body
from ledger_engine.http.errors import Rendered, body_of
from ledger_engine.http.lists import DIGITS, GenericList, LookingBack, in_parts
from ledger_engine.http.operations import Call, Routes, StreamedAnswer
from ledger_engine.ledger import orders, past, users
from ledger_engine.ledger.orders import Order
from ledger_engine.ledger.users import User
from ledger_engine.store.pages import Page

# Health (docs/interface.md#directory)


VERSION = "1.4.2"  # the version of the directory's interface (docs/interface.md#versioning)

health_routes = Routes("health", "/api")


@dataclass(slots=True)
class Health:
    """The health of the server.

    `ok` is false when the storage is lost; `version` is the version of the directory's interface, not of this
    server; `notice` is a message that a person must read, null when there is none.
    """

    ok: bool
    version: Annotated[str, Pattern(r"^[0-9]+(\.[0-9]+)*$")]
    notice: str | None


@dataclass(slots=True)
class Readiness:
    """Whether the server is ready for requests that write."""

    ok: bool


@health_routes.add("GET", "/health", public=True, in_contract=True)
async def get_health(call: Call) -> Health | Rendered:
    """Report whether the server can work; 503 when its storage is lost."""
    losses = call.engine.losses
    try:
        await call.engine.check()
    except StorageUnavailable as error:
        return _unavailable(call, Health(False, VERSION, losses.refused or call.engine.notice), error)
    return Health(True, VERSION, call.engine.notice)


@health_routes.add("GET", "/health/ready", public=True)
async def get_readiness(call: Call) -> Readiness | Rendered:
    """Report whether the server can commit; 503 if it cannot. A commit is tried at most once a second."""
    try:
        await call.engine.check_writable()
    except StorageUnavailable as error:
        return _unavailable(call, Readiness(False), error)
    return Readiness(True)


def _unavailable(call: Call, state: Health | Readiness, error: StorageUnavailable) -> Rendered:
    # Make a new error with the same reason. A health check changes nothing, so the message must not say that
    # the outcome of a change is unknown.
    error = StorageUnavailable(error.reason)
    status, headers, _ = call.refuse(error)
    return status, headers, dumps({**as_json(state), **body_of(error, call.path)}).encode()


# Users


user_routes = Routes("users", "/api")

Role = Literal["member", "admin", "owner"]


class CreateUser(Body):
    name: Annotated[str, Field(min_length=1, max_length=users.NAME_MAX)]
    email: Annotated[
        str, Field(max_length=users.EMAIL_MAX, json_schema_extra={"pattern": users.EMAIL_PATTERN})
    ]
    role: Role | None = "member"


class ListUsers(LookingBack):
    page: Annotated[int, Field(ge=1, le=users.PAGE_MAX), DIGITS] = 1
    per_page: Annotated[int, Field(ge=1, le=users.PER_PAGE_MAX), DIGITS] = users.PER_PAGE_DEFAULT
    role: Role | None = None


@dataclass(slots=True)
class UserPage:
    """One numbered page; `total` and `total_pages` count all users that match the filter."""

    data: list[User]
    page: int
    per_page: int
    total: int
    total_pages: int


@user_routes.add("GET", "/users", needs="read:users", in_contract=True)
async def list_users(call: Call, query: ListUsers) -> UserPage:
    """List the users, newest first."""
    at = query.moment(call.engine.clock)
    if at is None:
        page = await call.read(users.page, query.page, query.per_page, role=query.role)
        data: list[Any] = page.items
    else:
        page, data = await call.read_long(past.user_page, query.page, query.per_page, at, role=query.role)
    return UserPage(data, page.page, page.per_page, page.total, page.total_pages)


@user_routes.add("POST", "/users", status=201, in_contract=True)
async def create_user(call: Call, body: CreateUser) -> User:
    """Create a user."""
    return await call.write(
        users.create, users.NewUser(body.name, body.email, body.role or "member"), call.idempotency_key
    )


@user_routes.add("GET", "/users/<id>", needs="read:users", in_contract=True)
async def get_user(call: Call, id: str, query: LookingBack) -> User | dict[str, Any]:
    """Get one user."""
    return await query.read_one(call, users.get, past.user, id)


@user_routes.add("DELETE", "/users/<id>", role="admin", in_contract=True, changes=users.get)
async def deactivate_user(call: Call, id: str) -> User:
    """Deactivate a user."""
    return await call.write(users.deactivate, id)


@user_routes.add("POST", "/users/<id>/restore", role="admin", changes=users.get)
async def restore_user(call: Call, id: str) -> User:
    """Restore a user within 30 days of the deactivation."""
    return await call.write(users.restore, id, call.idempotency_key)


# Orders


order_routes = Routes("orders", "/api")


# An item may contain any fields. `orders` checks only the two fields from which it computes the total.
Item = Annotated[
    dict[str, Any],
    Field(
        json_schema_extra={
            "properties": {
                "quantity": {"type": "integer", "minimum": 1, "maximum": MAX_AMOUNT},
                "unit_amount": {"type": "integer", "minimum": 0, "maximum": MAX_AMOUNT},
            }
        }
    ),
]


class PlaceOrder(Body):
    user_id: Annotated[str, Field(json_schema_extra={"pattern": id_pattern("usr")})]
    items: Annotated[list[Item], Field(min_length=1, max_length=orders.ITEMS_MAX)]


class ListOrders(GenericList, LookingBack):
    status: Literal["open", "paid", "shipped"] | None = None


@order_routes.add("GET", "/orders", in_contract=True, tagged=True)
async def list_orders(call: Call, query: ListOrders) -> Page[Order] | Page[dict[str, Any]] | StreamedAnswer:
    """List the orders, newest first."""
    return await query.read_in_parts(call, orders.page, past.order_page, query.page(), status=query.status)


@order_routes.add("GET", "/users/<id>/orders", tagged=True)
async def list_orders_of_user(call: Call, id: str, query: GenericList) -> Page[Order] | StreamedAnswer:
    """List the orders of one user, newest first."""
    return await in_parts(lambda page: call.read(orders.of_user, page, id), query.page())


@order_routes.add("POST", "/orders", status=201, in_contract=True)
async def place_order(call: Call, body: PlaceOrder) -> Order:
    """Place an order for a user."""
    return await call.write(orders.create, orders.NewOrder(body.user_id, body.items), call.idempotency_key)


@order_routes.add("GET", "/orders/<id>")
async def get_order(call: Call, id: str, query: LookingBack) -> Order | dict[str, Any]:
    """Get one order."""
    return await query.read_one(call, orders.get, past.order, id)


@order_routes.add("POST", "/orders/<id>/pay", changes=orders.get)
async def pay_order(call: Call, id: str) -> Order:
    """Mark an open order as paid."""
    return await call.write(orders.pay, id, call.idempotency_key)


@order_routes.add("POST", "/orders/<id>/ship", changes=orders.get)
async def ship_order(call: Call, id: str) -> Order:
    """Mark a paid order as shipped."""
    return await call.write(orders.ship, id, call.idempotency_key)
