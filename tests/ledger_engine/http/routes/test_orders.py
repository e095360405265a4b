"""The routes of orders, on the directory surface."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from tests.ledger_engine.manual_clock import ManualClock

Run = Callable[..., Awaitable[Any]]
BEANS = {"sku": "beans", "quantity": 3, "unit_amount": 250}
NOWHERE = "/api/orders/ord_00000000000000000000000000"


def refusal(answer: httpx.Response) -> tuple[int, str]:
    """Status and code of an error of the directory surface."""
    error = answer.json()
    of_second_use = {"same_request"} if error["error"] == "duplicate_idempotency_key" else set()
    assert set(error) == {"error", "message"} | of_second_use
    return answer.status_code, error["error"]


@pytest.fixture
async def ada(api: httpx.AsyncClient) -> str:
    answer = await api.post("/api/users", json={"name": "Ada", "email": "ada@example.com"})
    return str(answer.json()["id"])


@pytest.fixture
def in_status(api: httpx.AsyncClient, ada: str) -> Run:
    """Make an order in the status."""

    async def make(status: str = "open") -> dict[str, Any]:
        answer = await api.post("/api/orders", json={"user_id": ada, "items": [BEANS]})
        path = f"/api/orders/{answer.json()['id']}"
        if status != "open":
            answer = await api.post(f"{path}/pay")
        if status == "shipped":
            answer = await api.post(f"{path}/ship")
        assert answer.json()["status"] == status
        return dict(answer.json())

    return make


async def test_an_order_goes_from_open_over_paid_to_shipped(
    api: httpx.AsyncClient, ada: str, clock: ManualClock
) -> None:
    answer = await api.post("/api/orders", json={"user_id": ada, "items": [BEANS, {"gift": True}]})
    assert answer.status_code == 201
    order = answer.json()
    assert order == {
        "id": order["id"],
        "object": "order",
        "user_id": ada,
        "items": [BEANS, {"gift": True}],
        "total": 750,
        "status": "open",
        "paid_at": None,
        "shipped_at": None,
        "created": "2026-09-21T14:13:20.000Z",
        "livemode": False,
    }
    assert order["id"].startswith("ord_")
    path = f"/api/orders/{order['id']}"
    clock.advance(1000)
    answer = await api.post(f"{path}/pay")
    order |= {"status": "paid", "paid_at": "2026-09-21T14:13:21.000Z"}
    assert (answer.status_code, answer.json()) == (200, order)
    clock.advance(1000)
    answer = await api.post(f"{path}/ship")
    order |= {"status": "shipped", "shipped_at": "2026-09-21T14:13:22.000Z"}
    assert (answer.status_code, answer.json()) == (200, order)
    answer = await api.get(path)
    assert (answer.status_code, answer.json()) == (200, order)


@pytest.mark.parametrize(
    ("items", "code"),
    [
        ("[]", "invalid_value"),
        ("{}", "invalid_value"),
        ("null", "invalid_value"),
        ('["beans"]', "invalid_value"),
        ("[{}, null]", "invalid_value"),
        ("[" + "{}," * 100 + "{}]", "invalid_value"),
        ('[{"quantity": 0}]', "invalid_value"),
        ('[{"quantity": 1.0}]', "invalid_value"),
        ('[{"quantity": 1e2}]', "invalid_value"),
        ('[{"quantity": true}]', "invalid_value"),
        ('[{"quantity": "1"}]', "invalid_value"),
        ('[{"quantity": null}]', "invalid_value"),
        ('[{"unit_amount": -1}]', "invalid_value"),
        ('[{"unit_amount": 9007199254740992}]', "invalid_value"),
        ('[{"unit_amount": 9007199254740991, "quantity": 2}]', "invalid_value"),
        ('[{"weight": 1e400}]', None),
        ('[{"price": 12345678901234567890.12}]', "invalid_json"),
        ('[{"weight": NaN}]', "invalid_json"),
        ('[{"sku": "a", "sku": "b"}]', "invalid_json"),
        ('[{"sku": "\\u0000"}]', "invalid_json"),
        ('[{"sku": "\\ud800"}]', "invalid_json"),
        ('[{"deep": ' + "[" * 40 + "]" * 40 + "}]", "invalid_json"),
    ],
)
async def test_items_that_break_a_rule_are_400_and_nothing_is_kept(
    api: httpx.AsyncClient, ada: str, items: str, code: str | None
) -> None:
    answer = await api.post("/api/orders", content=f'{{"user_id": "{ada}", "items": {items}}}'.encode())
    status, told = refusal(answer)
    assert (status, told) == (400, code or told)
    assert told in ("invalid_value", "invalid_json")
    assert (await api.get("/api/orders")).json()["data"] == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"user_id": None}, (400, "invalid_value")),
        ({"user_id": "usr_x"}, (404, "not_found")),
        ({"status": "paid"}, (400, "unknown_field")),
        ({"total": 1}, (400, "unknown_field")),
        ({"livemode": True}, (400, "unknown_field")),
    ],
)
async def test_a_wrong_field_is_refused(
    api: httpx.AsyncClient, ada: str, change: dict[str, Any], expected: tuple[int, str]
) -> None:
    body = {"user_id": ada, "items": [BEANS]} | change
    assert refusal(await api.post("/api/orders", json=body)) == expected


@pytest.mark.parametrize("field", ["user_id", "items"])
async def test_a_missing_field_is_refused(api: httpx.AsyncClient, ada: str, field: str) -> None:
    body = {"user_id": ada, "items": [BEANS]}
    del body[field]
    answer = await api.post("/api/orders", json=body)
    assert refusal(answer) == (400, "missing_field")
    assert field in answer.json()["message"]


async def test_a_deactivated_user_places_no_order(api: httpx.AsyncClient, ada: str) -> None:
    await api.delete(f"/api/users/{ada}")
    answer = await api.post("/api/orders", json={"user_id": ada, "items": [BEANS]})
    assert refusal(answer) == (409, "user_deactivated")


@pytest.mark.parametrize(
    ("status", "step", "code"),
    [
        ("paid", "pay", "order_not_open"),
        ("shipped", "pay", "order_not_open"),
        ("open", "ship", "order_not_paid"),
        ("shipped", "ship", "order_not_paid"),
    ],
)
async def test_what_the_state_forbids_is_409(
    api: httpx.AsyncClient, in_status: Run, status: str, step: str, code: str
) -> None:
    order = await in_status(status)
    assert refusal(await api.post(f"/api/orders/{order['id']}/{step}")) == (409, code)
    assert (await api.get(f"/api/orders/{order['id']}")).json() == order


async def test_an_unknown_order_is_404(api: httpx.AsyncClient) -> None:
    for answer in (
        await api.get(NOWHERE),
        await api.post(f"{NOWHERE}/pay"),
        await api.post(f"{NOWHERE}/ship"),
    ):
        assert refusal(answer) == (404, "not_found")


async def test_another_projects_or_modes_order_is_answered_as_none(
    api: httpx.AsyncClient, stranger_api: httpx.AsyncClient, in_status: Run, ada: str
) -> None:
    for status in ("open", "paid"):
        order = await in_status(status)
        path = f"/api/orders/{order['id']}"
        answers = [
            await stranger_api.get(path),
            await stranger_api.post(f"{path}/pay"),
            await stranger_api.post(f"{path}/ship"),
            await stranger_api.post("/api/orders", json={"user_id": ada, "items": [BEANS]}),
        ]
        for answer in answers:
            assert refusal(answer) == (404, "not_found")
        assert (await api.get(path)).json() == order
        cursor = await stranger_api.get("/api/orders", params={"cursor": order["id"]})
        assert refusal(cursor) == (400, "invalid_cursor")
    assert (await stranger_api.get("/api/orders")).json()["data"] == []


async def test_a_restricted_key_does_what_its_scopes_grant(
    api: httpx.AsyncClient, api_with: Run, in_status: Run, ada: str
) -> None:
    order = await in_status()
    path = f"/api/orders/{order['id']}"
    reader = await api_with(scopes=["read:projects"])
    writer = await api_with(scopes=["write:projects"])
    for url in ("/api/orders", path):
        assert (await reader.get(url)).status_code == 200
        assert refusal(await writer.get(url)) == (403, "missing_scope")
    steps = [
        ("/api/orders", {"user_id": ada, "items": [BEANS]}),
        (f"{path}/pay", None),
        (f"{path}/ship", None),
    ]
    for url, body in steps:
        assert refusal(await reader.post(url, json=body)) == (403, "missing_scope")
        assert (await writer.post(url, json=body)).is_success


async def test_orders_are_listed_by_status_with_a_cursor(api: httpx.AsyncClient, in_status: Run) -> None:
    made = [await in_status(status) for status in ("open", "paid", "open", "shipped", "open")][::-1]
    assert (await api.get("/api/orders")).json() == {"data": made, "has_more": False, "next_cursor": None}
    opened = [order for order in made if order["status"] == "open"]
    first = (await api.get("/api/orders", params={"status": "open", "limit": 2})).json()
    assert first == {"data": opened[:2], "has_more": True, "next_cursor": opened[1]["id"]}
    query = {"status": "open", "limit": 2, "cursor": first["next_cursor"]}
    assert (await api.get("/api/orders", params=query)).json() == {
        "data": opened[2:],
        "has_more": False,
        "next_cursor": None,
    }


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("status=lost", "invalid_value"),
        ("status=", "invalid_value"),
        ("limit=0", "invalid_value"),
        ("limit=101", "invalid_value"),
        ("cursor=ord_x", "invalid_cursor"),
        ("starting_after=ord_x", "unknown_field"),
        ("page=1", "unknown_field"),
    ],
)
async def test_a_query_that_is_not_understood_is_refused(
    api: httpx.AsyncClient, query: str, code: str
) -> None:
    assert refusal(await api.get(f"/api/orders?{query}")) == (400, code)


async def test_fifty_parallel_creates_with_one_key_are_one_201_and_49_conflicts(
    api: httpx.AsyncClient, ada: str
) -> None:
    headers = {"Idempotency-Key": "key-1"}
    body = {"user_id": ada, "items": [BEANS]}
    answers = await asyncio.gather(*(api.post("/api/orders", json=body, headers=headers) for _ in range(50)))
    assert Counter(answer.status_code for answer in answers) == {201: 1, 409: 49}
    [order] = (await api.get("/api/orders")).json()["data"]
    refused = [answer for answer in answers if answer.status_code == 409]
    assert {refusal(answer) for answer in refused} == {(409, "duplicate_idempotency_key")}
    assert {answer.headers["Idempotency-Original"] for answer in refused} == {order["id"]}


@pytest.mark.parametrize(("status", "step"), [("open", "pay"), ("paid", "ship")])
async def test_of_twelve_at_once_one_moves_an_order(
    api: httpx.AsyncClient, in_status: Run, status: str, step: str
) -> None:
    order = await in_status(status)
    path = f"/api/orders/{order['id']}/{step}"
    answers = await asyncio.gather(*(api.post(path) for _ in range(12)))
    assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 11}


async def test_items_are_kept_by_value_in_their_order(api: httpx.AsyncClient, ada: str) -> None:
    body = f'{{"user_id": "{ada}", "items": [{{"weight": 1e2, "b": 1, "a": 0.10}}]}}'
    answer = await api.post("/api/orders", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 201
    assert '"items":[{"weight":100.0,"b":1,"a":0.1}]' in answer.text
