"""Routes of orders, on the directory surface."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from ledger_engine.http.bodies import Body
from ledger_engine.http.lists import GenericList, LookingBack
from ledger_engine.http.operations import Call, Routes
from ledger_engine.ledger import orders, past
from ledger_engine.ledger.orders import Order
from ledger_engine.store.pages import Page

routes = Routes("orders", "/api")


class PlaceOrder(Body):
    user_id: str
    items: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=orders.ITEMS_MAX)]


class ListOrders(GenericList, LookingBack):
    status: Literal["open", "paid", "shipped"] | None = None


@routes.add("GET", "/orders", needs="read:projects", in_contract=True, tagged=True)
async def list_orders(call: Call, query: ListOrders) -> Page[Order] | Page[dict[str, Any]]:
    """List the orders, newest first."""
    at = query.moment(call.engine.clock)
    if at is not None:
        return await call.read(past.order_page, query.page(), at, status=query.status)
    return await call.read_page(orders.page, query.page(), status=query.status)


@routes.add("GET", "/users/<id>/orders", needs="read:projects", tagged=True)
async def list_orders_of_user(call: Call, id: str, query: GenericList) -> Page[Order]:
    """List the orders of one user, newest first."""
    return await call.read(orders.of_user, query.page(), id)


@routes.add("POST", "/orders", needs="write:projects", status=201, in_contract=True)
async def place_order(call: Call, body: PlaceOrder) -> Order:
    """Place an order for a user."""
    return await call.write(orders.create, orders.NewOrder(body.user_id, body.items), call.idempotency_key)


@routes.add("GET", "/orders/<id>", needs="read:projects", tagged=True)
async def get_order(call: Call, id: str, query: LookingBack) -> Order | dict[str, Any]:
    """Get one order."""
    at = query.moment(call.engine.clock)
    if at is not None:
        return await call.read(past.order, id, at)
    return await call.read_short(orders.get, id)


@routes.add("POST", "/orders/<id>/pay", needs="write:projects")
async def pay_order(call: Call, id: str) -> Order:
    """Mark an open order as paid."""
    return await call.write(orders.pay, id, call.idempotency_key)


@routes.add("POST", "/orders/<id>/ship", needs="write:projects")
async def ship_order(call: Call, id: str) -> Order:
    """Mark a paid order as shipped."""
    return await call.write(orders.ship, id, call.idempotency_key)
