"""docs/interface.md#directory; docs/decisions.md#directory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.contract.clockwork import Clockwork
from tests.contract.conftest import without_missing
from tests.contract.rules import holds

DAY_S = 86_400


def create(api: httpx.Client, name: str = "Ada", **fields: Any) -> Any:
    body = {"name": name, "email": f"{name.lower()}@example.com", **fields}
    answer = api.post("/api/users", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def refusal(answer: httpx.Response) -> tuple[int, str]:
    body = answer.json()
    assert set(body) == {"error", "message"}
    assert body["message"]
    return answer.status_code, body["error"]


@holds("post-api-users", "user-body", "directory-user")
def test_a_created_user_is_an_active_member(api: httpx.Client) -> None:
    user = create(api)
    assert user.pop("id").startswith("usr_")
    assert user.pop("created").endswith("Z")
    assert user == {
        "object": "user",
        "name": "Ada",
        "email": "ada@example.com",
        "role": "member",
        "status": "active",
        "deactivated_at": None,
        "livemode": False,
    }
    assert create(api, "Grace", role="admin")["role"] == "admin"
    assert create(api, "Joan", role=None)["role"] == "member"


@holds("post-api-users", "user-body")
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"name": ...}, "missing_field"),
        ({"email": ...}, "missing_field"),
        ({"name": ""}, "invalid_value"),
        ({"email": "ada"}, "invalid_value"),
        ({"name": 5}, "invalid_value"),
        ({"email": "ada@"}, "invalid_value"),
        ({"email": None}, "invalid_value"),
        ({"email": "x" * 300 + "@example.com"}, "invalid_value"),
        ({"role": "root"}, "invalid_value"),
        *[({field: "x"}, "unknown_field") for field in ("status", "project", "livemode", "password")],
    ],
)
def test_another_user_is_refused(api: httpx.Client, fields: dict[str, Any], code: str) -> None:
    body = {"name": "Ada", "email": "ada@example.com", "role": "member", **fields}
    answer = api.post("/api/users", json=without_missing(body))
    assert refusal(answer) == (400, code)
    assert api.get("/api/users").json()["total"] == 0


@holds("directory-user", "error-codes")
def test_an_email_belongs_to_one_active_user_whatever_its_case(api: httpx.Client) -> None:
    first = create(api)
    answer = api.post("/api/users", json={"name": "Other", "email": "ADA@Example.com"})
    assert refusal(answer) == (409, "email_taken")
    api.delete(f"/api/users/{first['id']}")
    assert create(api, email="ADA@Example.com")["email"] == "ADA@Example.com"
    assert refusal(api.post(f"/api/users/{first['id']}/restore")) == (409, "email_taken")


@holds("get-api-users", "pages-users", "lists-users")
def test_users_are_listed_by_number_of_page(api: httpx.Client) -> None:
    users = [create(api, f"User{number}", role="admin" if number == 3 else "member") for number in range(5)]
    page = api.get("/api/users", params={"page": 2, "per_page": 2}).json()
    assert page == {"data": [users[2], users[1]], "page": 2, "per_page": 2, "total": 5, "total_pages": 3}
    assert api.get("/api/users").json()["per_page"] == 20
    admins = api.get("/api/users", params={"role": "admin"}).json()
    assert (admins["data"], admins["total"]) == ([users[3]], 1)
    beyond = api.get("/api/users", params={"page": 9}).json()
    assert beyond == {"data": [], "page": 9, "per_page": 20, "total": 5, "total_pages": 1}
    assert api.get("/api/users", params={"role": "owner"}).json()["total_pages"] == 0


@holds("get-api-users", "pages-users", "conventions-query")
def test_another_page_of_users_is_refused(api: httpx.Client) -> None:
    for bad in (
        *("page=0", "page=-1", "page=1.0", "page=", "page=99999999999999999999", "page=1&page=2"),
        *("per_page=0", "per_page=101", "per_page=1_0", "role=root"),
    ):
        assert refusal(api.get(f"/api/users?{bad}")) == (400, "invalid_value"), bad
    for unknown in ("cursor=x", "limit=5", "status=active"):
        assert refusal(api.get(f"/api/users?{unknown}")) == (400, "unknown_field"), unknown


@holds("delete-api-users-id", "user-deactivate", "directory-deactivate-twice")
def test_deleting_a_user_deactivates_it_and_twice_likewise(api: httpx.Client) -> None:
    user = create(api)
    gone = api.delete(f"/api/users/{user['id']}")
    assert (gone.status_code, gone.json()["status"]) == (200, "deactivated")
    assert gone.json()["deactivated_at"].endswith("Z")
    again = api.delete(f"/api/users/{user['id']}")
    assert (again.status_code, again.json()) == (200, gone.json())
    assert api.get(f"/api/users/{user['id']}").json() == gone.json()


@holds("directory-restore", "quotas-recoverable")
def test_a_user_can_be_restored_for_30_days_and_is_erased_then(clockwork: Clockwork) -> None:
    api = clockwork.client(clockwork.key(clockwork.project()))
    ada, bob = create(api, "Ada"), create(api, "Bob")
    for user in (ada, bob):
        api.delete(f"/api/users/{user['id']}")
    clockwork.advance(30 * DAY_S - 1)
    restored = api.post(f"/api/users/{ada['id']}/restore")
    assert (restored.status_code, restored.json()) == (200, ada)
    clockwork.advance(2)
    assert refusal(api.post(f"/api/users/{bob['id']}/restore")) == (409, "not_recoverable")
    kept = api.get(f"/api/users/{bob['id']}").json()
    assert kept["id"] == bob["id"]


@holds("post-api-orders", "order-body", "directory-order", "order-status")
def test_a_placed_order_is_open_and_keeps_its_items(api: httpx.Client) -> None:
    user = create(api)
    items = [
        {"name": "beans", "quantity": 2, "unit_amount": 1890, "gift": True},
        {"name": "card"},
        {"unit_amount": 5},
    ]
    answer = api.post("/api/orders", json={"user_id": user["id"], "items": items})
    assert answer.status_code == 201
    order = answer.json()
    assert order.pop("id").startswith("ord_")
    assert order.pop("created").endswith("Z")
    assert order == {
        "object": "order",
        "user_id": user["id"],
        "items": items,
        "total": 3785,
        "status": "open",
        "paid_at": None,
        "shipped_at": None,
        "livemode": False,
    }


@holds("order-body", "directory-order")
@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"user_id": ...}, 400, "missing_field"),
        ({"items": ...}, 400, "missing_field"),
        ({"user_id": "usr_none"}, 404, "not_found"),
        ({"user_id": None}, 400, "invalid_value"),
        *[({"items": items}, 400, "invalid_value") for items in ({}, None, [{}, None])],
        *[({"items": [{"quantity": quantity}]}, 400, "invalid_value") for quantity in (1e2, True, "1", None)],
        ({"items": [{"unit_amount": 2**53 - 1, "quantity": 2}]}, 400, "invalid_value"),
        ({"items": []}, 400, "invalid_value"),
        ({"items": [{}] * 101}, 400, "invalid_value"),
        ({"items": ["beans"]}, 400, "invalid_value"),
        ({"items": [{"quantity": 0}]}, 400, "invalid_value"),
        ({"items": [{"quantity": 1.0}]}, 400, "invalid_value"),
        ({"items": [{"unit_amount": -1}]}, 400, "invalid_value"),
        ({"items": [{"unit_amount": 2**53}]}, 400, "invalid_value"),
        *[({field: "x"}, 400, "unknown_field") for field in ("total", "status", "livemode")],
    ],
)
def test_another_order_is_refused(api: httpx.Client, fields: dict[str, Any], status: int, code: str) -> None:
    body = {"user_id": create(api)["id"], "items": [{}], **fields}
    answer = api.post("/api/orders", json=without_missing(body))
    assert refusal(answer) == (status, code)
    assert api.get("/api/orders").json()["data"] == []


@holds("directory-order")
def test_items_are_kept_by_value_in_their_order(api: httpx.Client) -> None:
    user = create(api)["id"]
    body = f'{{"user_id": "{user}", "items": [{{"weight": 1e2, "b": 1, "a": 0.10}}]}}'
    answer = api.post("/api/orders", content=body)
    assert answer.status_code == 201
    assert '"items":[{"weight":100.0,"b":1,"a":0.1}]' in answer.text


@holds("order-body", "directory-order")
@pytest.mark.parametrize(
    "item",
    [
        *['{"price": 12345678901234567890.12}', '{"weight": NaN}', '{"sku": "a", "sku": "b"}'],
        *['{"sku": "\\u0000"}', '{"sku": "\\ud800"}', '{"deep": ' + "[" * 40 + "]" * 40 + "}"],
    ],
)
def test_an_item_that_is_not_exact_json_is_refused(api: httpx.Client, item: str) -> None:
    body = f'{{"user_id": "{create(api)["id"]}", "items": [{item}]}}'
    assert refusal(api.post("/api/orders", content=body)) == (400, "invalid_json")


@holds("directory-order", "error-codes")
def test_a_deactivated_user_orders_nothing(api: httpx.Client) -> None:
    user = create(api)
    api.delete(f"/api/users/{user['id']}")
    answer = api.post("/api/orders", json={"user_id": user["id"], "items": [{}]})
    assert refusal(answer) == (409, "user_deactivated")


@holds("get-api-orders", "order-status", "directory-order-moves", "error-codes")
def test_an_order_goes_from_open_to_paid_to_shipped(api: httpx.Client) -> None:
    body = {"user_id": create(api)["id"], "items": [{}]}
    paths = [f"/api/orders/{api.post('/api/orders', json=body).json()['id']}" for _ in range(3)]
    assert refusal(api.post(paths[0] + "/ship")) == (409, "order_not_paid")
    for path in paths[:2]:
        assert api.post(path + "/pay").json()["status"] == "paid"
    assert refusal(api.post(paths[0] + "/pay")) == (409, "order_not_open")
    paid = api.get(paths[0]).json()
    assert paid["paid_at"].endswith("Z")
    shipped = api.post(paths[0] + "/ship")
    assert shipped.status_code == 200
    assert shipped.json()["shipped_at"].endswith("Z")
    assert shipped.json() == {**paid, "status": "shipped", "shipped_at": shipped.json()["shipped_at"]}
    assert api.get(paths[0]).json() == shipped.json()
    for step, code in (("/pay", "order_not_open"), ("/ship", "order_not_paid")):
        assert refusal(api.post(paths[0] + step)) == (409, code)
    for status, path in zip(("shipped", "paid", "open"), paths, strict=True):
        listed = api.get("/api/orders", params={"status": status}).json()
        assert [f"/api/orders/{order['id']}" for order in listed["data"]] == [path]
    for status in ("lost", ""):
        assert refusal(api.get("/api/orders", params={"status": status})) == (400, "invalid_value")
    both = {"status": "open", "limit": 1}
    newer, older = [api.post("/api/orders", json=body).json()["id"] for _ in range(2)][::-1]
    first = api.get("/api/orders", params=both).json()
    assert ([order["id"] for order in first["data"]], first["next_cursor"]) == ([newer], newer)
    second = api.get("/api/orders", params={**both, "cursor": newer}).json()
    assert ([order["id"] for order in second["data"]], second["has_more"]) == ([older], True)


@holds("directory-order-moves")
@pytest.mark.parametrize("step", ["pay", "ship"])
def test_of_twelve_at_once_one_moves_an_order(api: httpx.Client, step: str) -> None:
    placed = api.post("/api/orders", json={"user_id": create(api)["id"], "items": [{}]}).json()
    path = f"/api/orders/{placed['id']}"
    if step == "ship":
        api.post(f"{path}/pay")
    with ThreadPoolExecutor(12) as callers:
        statuses = sorted(callers.map(lambda _: api.post(f"{path}/{step}").status_code, range(12)))
    assert statuses == [200] + [409] * 11


@holds("get-api-health")
def test_the_health_check_looks_at_no_credential(anyone: httpx.Client) -> None:
    for header in ("Bearer nonsense", "nonsense", ""):
        assert anyone.get("/api/health", headers={"Authorization": header}).json()["ok"] is True


@holds("directory-health", "directory-ready")
def test_a_health_check_is_never_refused_for_its_rate(clockwork: Clockwork) -> None:
    anyone = clockwork.client()
    answers = [anyone.get(path) for path in ("/api/health", "/api/health/ready") for _ in range(70)]
    assert {answer.status_code for answer in answers} == {200}
    for name in ("X-RateLimit-Limit", "X-RateLimit-Remaining"):
        assert {answer.headers[name] for answer in answers} == {"60"}
    assert anyone.get("/api/users").status_code == 401
    pro = clockwork.client(clockwork.key(clockwork.project("pro")))
    assert pro.get("/api/health").headers["X-RateLimit-Remaining"] == "600"


@holds("directory-modes", "projects-modes")
def test_users_and_orders_obey_the_mode(api: httpx.Client, live: httpx.Client) -> None:
    user = create(api)
    assert live.get(f"/api/users/{user['id']}").status_code == 404
    assert live.get("/api/users").json()["total"] == 0
    assert live.post("/api/orders", json={"user_id": user["id"], "items": [{}]}).status_code == 404
    assert create(live)["livemode"] is True
