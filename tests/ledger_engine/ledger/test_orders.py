"""Orders in the engine: items kept as sent, their total, and the way from open to shipped."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from ledger_engine.core.errors import Conflict
from ledger_engine.core.money import MAX_AMOUNT
from ledger_engine.core.records import as_json
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import orders, users
from ledger_engine.ledger.orders import NewOrder, Order
from ledger_engine.ledger.users import NewUser, User
from ledger_engine.store.pages import PageRequest
from tests.ledger_engine.conftest import Run
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.refusals import read_through, refusal

BEANS = {"sku": "beans", "quantity": 3, "unit_amount": 250}


@pytest.fixture
async def ada(write: Run) -> User:
    return await write(users.create, NewUser("Ada", "ada@example.com"))


@pytest.fixture
async def order(write: Run, ada: User) -> Order:
    return await write(orders.create, NewOrder(ada.id, [BEANS]))


@pytest.fixture
def in_status(write: Run, ada: User) -> Run:
    """Make an order in the status."""

    async def make(status: str) -> Order:
        order = await write(orders.create, NewOrder(ada.id, [BEANS]))
        if status != "open":
            order = await write(orders.pay, order.id)
        if status == "shipped":
            order = await write(orders.ship, order.id)
        assert order.status == status
        return order

    return make


async def test_a_new_order_is_open(read: Run, ada: User, order: Order) -> None:
    assert (order.user_id, order.items, order.total) == (ada.id, [BEANS], 750)
    assert (order.status, order.paid_at, order.shipped_at, order.livemode) == ("open", None, None, False)
    assert await read(orders.get, order.id) == order


async def test_items_are_kept_as_they_were_sent(write: Run, read: Run, ada: User) -> None:
    items = [
        {"z": 1, "a": {"deep": [1, 2.5, None, True, "ü\u2028", {"quantity": "any"}]}},
        {},
        {"unit_amount": 0, "quantity": 1, "=cmd": "=1+1"},
        {"big": 10**40, "small": -0.5},
    ]
    made = await write(orders.create, NewOrder(ada.id, items))
    kept = (await read(orders.get, made.id)).items
    assert kept == made.items == items
    assert [list(item) for item in kept] == [list(item) for item in items]


@pytest.mark.parametrize(
    ("items", "total"),
    [
        ([{}], 0),
        ([{"quantity": 5}], 0),
        ([{"unit_amount": 7}], 7),
        ([{"quantity": 5, "unit_amount": 7}, {"unit_amount": 1}], 36),
        ([{"unit_amount": MAX_AMOUNT}], MAX_AMOUNT),
        ([{"unit_amount": 1}] * 100, 100),
    ],
)
async def test_the_total_is_what_the_items_add_up_to(
    write: Run, ada: User, items: list[dict[str, Any]], total: int
) -> None:
    assert (await write(orders.create, NewOrder(ada.id, items))).total == total


@pytest.mark.parametrize(
    ("items", "param"),
    [
        ([], "items"),
        ([{}] * 101, "items"),
        ([{}, {"quantity": 0}], "items.1.quantity"),
        ([{"quantity": -1}], "items.0.quantity"),
        ([{"quantity": 1.0}], "items.0.quantity"),
        ([{"quantity": "1"}], "items.0.quantity"),
        ([{"quantity": True}], "items.0.quantity"),
        ([{"quantity": None}], "items.0.quantity"),
        ([{"quantity": MAX_AMOUNT + 1}], "items.0.quantity"),
        ([{"unit_amount": -1}], "items.0.unit_amount"),
        ([{"unit_amount": 0.5}], "items.0.unit_amount"),
        ([{"unit_amount": False}], "items.0.unit_amount"),
        ([{"unit_amount": []}], "items.0.unit_amount"),
        ([{"unit_amount": MAX_AMOUNT}, {"unit_amount": 1}], "items"),
        ([{"weight": float("inf")}], "items"),
        ([{"deep": [{"weight": float("nan")}]}], "items"),
    ],
)
async def test_items_that_break_a_rule_are_refused(
    write: Run,
    read: Run,
    ada: User,
    recorded: Run,
    stored_objects: Run,
    items: list[dict[str, Any]],
    param: str,
) -> None:
    attempt = write(orders.create, NewOrder(ada.id, items), "key-1")
    assert await refusal(attempt) == ("invalid_value", param)
    assert (await read(orders.page, PageRequest())).items == []
    assert (await recorded("order.created"), await stored_objects()) == ([], 1)
    await write(orders.create, NewOrder(ada.id, [BEANS]), "key-1")


async def test_the_user_must_be_known_and_active(write: Run, ada: User, stranger: Tenant) -> None:
    assert await refusal(write(orders.create, NewOrder("usr_x", [BEANS]))) == ("not_found", "user_id")
    theirs = await write(users.create, NewUser("Eve", "eve@example.com"), by=stranger)
    assert await refusal(write(orders.create, NewOrder(theirs.id, [BEANS]))) == ("not_found", "user_id")
    await write(users.deactivate, ada.id)
    assert await refusal(write(orders.create, NewOrder(ada.id, [BEANS]))) == ("user_deactivated", "user_id")
    await write(users.restore, ada.id)
    await write(orders.create, NewOrder(ada.id, [BEANS]))


async def test_an_order_is_paid_and_then_shipped(
    write: Run, read: Run, order: Order, clock: ManualClock
) -> None:
    clock.advance(5)
    paid = await write(orders.pay, order.id)
    assert paid == replace(order, status="paid", paid_at=clock.now())
    clock.advance(5)
    shipped = await write(orders.ship, order.id)
    assert shipped == replace(paid, status="shipped", shipped_at=clock.now())
    assert await read(orders.get, order.id) == shipped


@pytest.mark.parametrize(
    ("action", "status", "code"),
    [
        (orders.pay, "paid", "order_not_open"),
        (orders.pay, "shipped", "order_not_open"),
        (orders.ship, "open", "order_not_paid"),
        (orders.ship, "shipped", "order_not_paid"),
    ],
)
async def test_a_move_its_state_forbids_is_a_conflict_and_changes_nothing(
    write: Run, read: Run, in_status: Run, recorded: Run, action: Any, status: str, code: str
) -> None:
    order = await in_status(status)
    before = await recorded()
    assert await refusal(write(action, order.id, "key-1")) == (code, None)
    assert await read(orders.get, order.id) == order
    assert await recorded() == before
    await write(orders.create, NewOrder(order.user_id, [BEANS]), "key-1")


async def test_each_step_is_an_event_with_the_order_as_it_was(
    write: Run, order: Order, recorded: Run
) -> None:
    paid = await write(orders.pay, order.id)
    shipped = await write(orders.ship, order.id)
    steps = [event for event in await recorded() if event["type"].startswith("order.")]
    assert [event["type"] for event in steps] == ["order.created", "order.paid", "order.shipped"]
    assert [event["data"]["object"] for event in steps] == [as_json(each) for each in (order, paid, shipped)]


@pytest.mark.parametrize(("action", "status"), [(orders.pay, "open"), (orders.ship, "paid")])
async def test_of_twelve_at_once_one_moves_it(
    write: Run, in_status: Run, recorded: Run, action: Any, status: str
) -> None:
    order = await in_status(status)
    before = len(await recorded())
    attempt = (write(action, order.id) for _ in range(12))
    answers = await asyncio.gather(*attempt, return_exceptions=True)
    assert Counter(type(answer) for answer in answers) == {Order: 1, Conflict: 11}
    assert len(await recorded()) == before + 1


@pytest.mark.parametrize("status", [None, "open", "paid", "shipped"])
async def test_orders_are_listed_by_status_page_by_page(
    read: Run, in_status: Run, status: str | None
) -> None:
    made = [await in_status(each) for each in ("open", "paid", "shipped", "open", "paid", "shipped", "open")]
    wanted = [order for order in made[::-1] if status in (None, order.status)]
    assert await read_through(partial(read, orders.page, status=status), cursor="cursor") == wanted


async def test_a_bad_status_is_refused(read: Run) -> None:
    assert await refusal(read(orders.page, PageRequest(), status="lost")) == ("invalid_value", "status")


async def test_another_projects_or_modes_order_does_not_exist(
    write: Run, read: Run, in_status: Run, stranger: Tenant
) -> None:
    for status in ("open", "paid"):
        order = await in_status(status)
        for action in (orders.get, orders.pay, orders.ship):
            assert await refusal(write(action, order.id, by=stranger)) == ("not_found", None)
        assert await read(orders.get, order.id) == order
        attempt = read(orders.page, PageRequest(after=order.id, cursor="cursor"), by=stranger)
        assert await refusal(attempt) == ("invalid_cursor", "cursor")
    assert (await read(orders.page, PageRequest(), by=stranger)).items == []


async def test_the_orders_of_a_user_are_theirs_alone(
    write: Run, read: Run, ada: User, order: Order, stranger: Tenant
) -> None:
    eve = await write(users.create, NewUser("Eve", "eve@example.com"))
    other = await write(orders.create, NewOrder(eve.id, [BEANS]))
    for user, placed in ((ada, order), (eve, other)):
        assert (await read(orders.of_user, PageRequest(), user.id)).items == [placed]
    for attempt in (
        read(orders.of_user, PageRequest(), "usr_none"),
        read(orders.of_user, PageRequest(), ada.id, by=stranger),
    ):
        assert (await refusal(attempt))[0] == "not_found"
