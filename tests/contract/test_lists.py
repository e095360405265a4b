"""docs/interface.md#pagination, #list-envelope; docs/decisions.md#lists."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.contract.conftest import MakeProject, code_of, open_account, refusal
from tests.contract.rules import holds

LEDGER_LISTS = ["/v1/accounts", "/v1/transactions", "/v1/invoices"]
GENERIC_LISTS = ["/api/orders", "/v1/api_keys", "/v1/projects"]
BAD_LIMITS = [
    "0",
    "101",
    "-1",
    "1.0",
    "",
    "ten",
    "1_0",
    "05",
    "%2B5",
    "%205",
    "1e1",
    "5&limit=5",
    "٣",
    "9" * 30,
]


def fill(api: httpx.Client, count: int) -> None:
    """As many objects in each list; the project's first key and the project itself count too."""
    accounts = [{"name": str(number), "currency": "EUR"} for number in range(count)]
    ids = [api.post("/v1/accounts", json=body).json()["id"] for body in accounts]
    user = api.post("/api/users", json={"name": "Ada", "email": "ada@example.com"}).json()["id"]
    posting = {"account": ids[0], "amount": 1, "type": "credit"}
    api.post("/v1/transactions/batch", json={"transactions": [posting] * count})
    for number in range(count):
        api.post("/v1/invoices", json={"account": ids[0], "customer": "C", "amount": 1})
        api.post("/api/orders", json={"user_id": user, "items": [{}]})
        if number:
            api.post("/v1/api_keys", json={})
            api.post("/v1/projects", json={"name": "Harbour"})


@pytest.fixture(scope="module")
def filled(make_project: MakeProject) -> httpx.Client:
    api = make_project().api
    fill(api, 23)
    return api


@holds("lists-next-cursor")
def test_a_loop_that_deletes_what_it_lists_leaves_nothing(make_project: MakeProject) -> None:
    api = make_project().api
    path = "/v1/webhook_endpoints"
    made = [api.post(path, json={"url": "http://127.0.0.1:9/"}).json()["id"] for _ in range(7)]
    deleted: list[str] = []
    query: dict[str, Any] = {"limit": 3}
    while True:
        page = api.get(path, params=query).json()
        for endpoint in page["data"]:
            deleted.append(api.delete(f"{path}/{endpoint['id']}").json()["id"])
        if not page["has_more"]:
            break
        query["cursor"] = page["next_cursor"]
    assert deleted == made[::-1]
    assert api.get(path).json()["data"] == []


def ids(page: Any) -> list[str]:
    return [item["id"] for item in page["data"]]


@holds(
    "lists-cursors",
    "pages-limit",
    "pages-starting-after",
    "pages-generic",
    "list-fields",
    "lists-next-cursor",
    "lists-generic",
)
def test_every_list_is_read_page_by_page_newest_first(filled: httpx.Client) -> None:
    for path in LEDGER_LISTS + GENERIC_LISTS:
        cursor = "starting_after" if path in LEDGER_LISTS else "cursor"
        first = filled.get(path).json()
        assert set(first) == {"data", "has_more", "next_cursor"}, path
        assert (len(first["data"]), first["has_more"]) == (20, True), path
        assert first["next_cursor"] == first["data"][-1]["id"], path
        rest = filled.get(path, params={cursor: first["next_cursor"]}).json()
        assert (len(rest["data"]), rest["has_more"], rest["next_cursor"]) == (3, False, None), path
        together = ids(first) + ids(rest)
        assert together == sorted(set(together), reverse=True), path
        assert ids(filled.get(path, params={"limit": 100}).json()) == together, path
        assert len(filled.get(path, params={"limit": 1}).json()["data"]) == 1, path
        exact = filled.get(path, params={"limit": 23}).json()
        assert (exact["has_more"], exact["next_cursor"]) == (False, None), path


@holds("pages-limit", "pages-generic", "conventions-query")
@pytest.mark.parametrize("path", LEDGER_LISTS + GENERIC_LISTS)
def test_a_bad_limit_is_refused_and_not_clamped(api: httpx.Client, path: str) -> None:
    for limit in BAD_LIMITS:
        answer = api.get(f"{path}?limit={limit}")
        assert code_of(answer) == (400, "invalid_value"), limit
        assert "limit" in answer.text, limit


@holds("pages-limit")
def test_a_page_has_up_to_100_objects(api: httpx.Client) -> None:
    account = api.post("/v1/accounts", json={"name": "Till", "currency": "EUR"}).json()["id"]
    posting = {"account": account, "amount": 1, "type": "credit"}
    api.post("/v1/transactions/batch", json={"transactions": [posting] * 101})
    page = api.get("/v1/transactions", params={"limit": 100}).json()
    assert (len(page["data"]), page["has_more"]) == (100, True)


@holds("lists-next-cursor", "error-codes", "error-foreign")
def test_a_cursor_is_of_this_list_project_and_mode(
    filled: httpx.Client, live: httpx.Client, make_project: MakeProject
) -> None:
    stranger = make_project().api
    for path in LEDGER_LISTS + GENERIC_LISTS:
        cursor = "starting_after" if path in LEDGER_LISTS else "cursor"
        known = ids(filled.get(path).json())[0]
        foreign = "/v1/accounts" if path != "/v1/accounts" else "/v1/transactions"
        of_another_list = ids(filled.get(foreign).json())[0]
        callers = [(filled, "nonsense"), (filled, ""), (filled, of_another_list)]
        callers += [(stranger, known)] if path != "/v1/projects" else []
        for client, value in callers:
            answer = client.get(path, params={cursor: value})
            assert code_of(answer) == (400, "invalid_cursor"), (path, value)


@holds("lists-while-writing")
def test_reading_on_while_others_write_gives_every_earlier_object_once(api: httpx.Client) -> None:
    path = "/v1/accounts"
    before = [open_account(api) for _ in range(10)][::-1]
    seen: list[str] = []
    page: Any = {"has_more": True, "next_cursor": None}
    while page["has_more"]:
        after = {"starting_after": page["next_cursor"]} if page["next_cursor"] else {}
        page = api.get(path, params={"limit": 4, **after}).json()
        seen += ids(page)
        api.post(path, json={"name": "newer", "currency": "EUR"})
    assert seen == before


@holds("lists-ending-before")
@pytest.mark.parametrize("path", LEDGER_LISTS)
def test_scrolling_back_gives_the_page_just_newer(filled: httpx.Client, path: str) -> None:
    everything = ids(filled.get(path, params={"limit": 100}).json())
    page = filled.get(path, params={"limit": 5, "ending_before": everything[10]}).json()
    assert ids(page) == everything[5:10]
    assert page["has_more"] is True
    newest = filled.get(path, params={"limit": 10, "ending_before": everything[10]}).json()
    assert (ids(newest), newest["has_more"]) == (everything[:10], False)
    assert filled.get(path, params={"ending_before": everything[0]}).json()["data"] == []
    both = {"ending_before": everything[0], "starting_after": everything[1]}
    for query, code in ((both, "invalid_value"), ({"ending_before": ""}, "invalid_cursor")):
        answer = filled.get(path, params=query)
        assert refusal(answer) == (400, code, "ending_before")


@holds("conventions-query", "error-codes")
@pytest.mark.parametrize(
    "path", [*LEDGER_LISTS, *GENERIC_LISTS, "/api/users", "/v1/accounts/acc_x", "/api/health", "/v1/whoami"]
)
def test_an_unknown_parameter_is_refused(api: httpx.Client, path: str) -> None:
    answer = api.get(path, params={"acount": "x"})
    assert code_of(answer) == (400, "unknown_field")


@holds("conventions-query", "errors-400")
@pytest.mark.parametrize("query", ["account=%ff", "account=%00", "%00=1", "type=%C3%28", "account=%ED%A0%80"])
def test_a_query_that_is_no_text_is_400(api: httpx.Client, query: str) -> None:
    assert api.get(f"/v1/transactions?{query}").status_code == 400
