"""Looking back over HTTP: objects and lists as they were, and what changed between two moments."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.contract.rules import holds
from tests.ledger_engine.waiting import wait_until

FUTURE = "2999-01-01T00:00:00Z"


@pytest.fixture
def make(api: httpx.Client) -> Callable[..., Any]:
    """Return a function that makes something, in a millisecond of its own."""

    def do(method: str, path: str, body: Any = None) -> Any:
        began = datetime.now(UTC)
        wait_until(lambda: datetime.now(UTC) - began > timedelta(milliseconds=2))
        answer = api.request(method, path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    return do


@pytest.fixture
def story(make: Callable[..., Any]) -> dict[str, Any]:
    """Return what was made, then changed."""
    account = make("POST", "/v1/accounts", {"name": "Till", "currency": "EUR"})
    invoice = make("POST", "/v1/invoices", {"account": account["id"], "customer": "C", "amount": 700})
    user = make("POST", "/api/users", {"name": "Ada", "email": "ada@example.com"})
    order = make("POST", "/api/orders", {"user_id": user["id"], "items": [{"quantity": 1}]})
    first = {"account": account["id"], "amount": 5, "type": "credit"}
    posted = make("POST", "/v1/transactions", first)
    changes = [
        make("POST", f"/v1/invoices/{invoice['id']}/finalize"),
        make("POST", f"/v1/invoices/{invoice['id']}/pay"),
        make("POST", f"/api/orders/{order['id']}/pay"),
        make("DELETE", f"/api/users/{user['id']}"),
    ]
    return {
        "at": posted["created"],
        "account": {**account, "balance": 5},
        "invoice": invoice,
        "user": user,
        "order": order,
        "posted": posted,
        "changed": changes,
    }


PATHS = {
    "account": "/v1/accounts",
    "invoice": "/v1/invoices",
    "user": "/api/users",
    "order": "/api/orders",
}


@holds("past-at")
def test_objects_and_lists_are_as_they_were_then(api: httpx.Client, story: dict[str, Any]) -> None:
    for kind, path in PATHS.items():
        then = {"at": story["at"]}
        assert api.get(f"{path}/{story[kind]['id']}", params=then).json() == story[kind]
        assert api.get(path, params=then).json()["data"] == [story[kind]]
        before = {"at": "2020-01-01"}
        assert api.get(f"{path}/{story[kind]['id']}", params=before).status_code == 404
        assert api.get(path, params=before).json()["data"] == []
        for target in (path, f"{path}/{story[kind]['id']}"):
            refused = api.get(target, params={"at": FUTURE})
            assert refused.status_code == 400
            assert "at must not be in the future." in refused.text
    assert api.get("/v1/transactions", params={"at": story["at"]}).json()["data"] == [story["posted"]]
    assert len(api.get("/v1/transactions").json()["data"]) == 2


@holds("past-at")
def test_events_and_requests_are_listed_until_then(api: httpx.Client, story: dict[str, Any]) -> None:
    then = {"at": story["at"]}
    events = api.get("/v1/events", params=then).json()["data"]
    assert events[0]["data"]["object"] == story["posted"]
    assert [each["type"] for each in events] == [
        "transaction.created",
        "order.created",
        "user.created",
        "invoice.created",
        "account.created",
    ]
    assert len(api.get("/v1/events").json()["data"]) > len(events)
    for about, types in (
        (story["invoice"]["id"], ["invoice.created"]),
        (story["posted"]["id"], ["transaction.created"]),
        (story["changed"][1]["transaction"], []),
    ):
        found = api.get("/v1/events", params={"object": about, **then}).json()["data"]
        assert [each["type"] for each in found] == types
    wait_until(lambda: len(api.get("/v1/requests", params={"method": "DELETE"}).json()["data"]) == 1)
    for filters in ({}, {"method": "POST"}, {"path": "/v1"}):
        found = api.get("/v1/requests", params={**filters, **then}).json()["data"]
        assert found
        assert all(each["created"] <= story["at"] for each in found)
    assert api.get("/v1/requests", params={"method": "DELETE", **then}).json()["data"] == []
    for path in ("/v1/events", "/v1/requests"):
        assert api.get(path, params={"at": FUTURE}).status_code == 400


@holds("past-filters")
def test_a_filter_by_state_means_the_state_then(api: httpx.Client, story: dict[str, Any]) -> None:
    for path, status, kind in (
        ("/v1/invoices", "draft", "invoice"),
        ("/v1/invoices", "paid", None),
        ("/api/orders", "open", "order"),
        ("/api/orders", "paid", None),
    ):
        found = api.get(path, params={"at": story["at"], "status": status}).json()["data"]
        assert found == ([] if kind is None else [story[kind]])


@holds("past-diff")
def test_a_difference_has_both_states_and_counts(api: httpx.Client, story: dict[str, Any]) -> None:
    last = story["changed"][-1]["deactivated_at"]
    found = api.get("/v1/diff", params={"from": story["at"], "to": last}).json()
    assert found["summary"] == {"postings": 1, "accounts": 1, "invoices": 1, "users": 1, "orders": 1}
    assert (found["has_more"], found["next_cursor"]) == (False, None)
    assert [change["kind"] for change in found["data"]] == list(PATHS)
    for change in found["data"]:
        now = api.get(f"{PATHS[change['kind']]}/{change['id']}").json()
        assert (change["object"], change["before"], change["after"]) == ("change", story[change["kind"]], now)
        assert change["postings"] == (1 if change["kind"] == "account" else None)
    one, cursor = [], {}
    for _ in PATHS:
        page = api.get("/v1/diff", params={"from": story["at"], "to": last, "limit": 1, **cursor}).json()
        assert page["summary"] == found["summary"]
        one += page["data"]
        cursor = {"cursor": page["next_cursor"]}
    assert one == found["data"]
    new = api.get("/v1/diff", params={"from": "2020-01-01", "to": last}).json()["data"]
    assert {change["before"] for change in new} == {None}


@holds("past-diff")
def test_a_difference_needs_two_moments_in_their_order(api: httpx.Client) -> None:
    for params, name in (
        ({"to": "2020-01-01"}, "from"),
        ({"from": "2020-01-01"}, "to"),
        ({"from": "2020-01-02", "to": "2020-01-01"}, "from"),
        ({"from": "2020-01-01", "to": FUTURE}, "to"),
        ({"from": "2020-01-01", "to": "2020-01-01", "cursor": "x"}, "cursor"),
    ):
        answer = api.get("/v1/diff", params=params)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, name)
