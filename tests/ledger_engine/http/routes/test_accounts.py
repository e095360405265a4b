"""The routes of accounts, and what all ledger lists and bodies have in common."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from tests.ledger_engine.manual_clock import ManualClock

Run = Callable[..., Awaitable[Any]]
TILL = {"name": "Till", "currency": "EUR"}


def refusal(answer: httpx.Response) -> tuple[int, str, str, str | None]:
    """Status, type, code and param of an error of the ledger surface."""
    assert set(answer.json()) == {"error"}
    error = answer.json()["error"]
    of_second_use = {"same_request"} if error["code"] == "duplicate_idempotency_key" else set()
    assert set(error) == {"type", "code", "message", "param"} | of_second_use
    assert error["message"]
    return answer.status_code, error["type"], error["code"], error["param"]


async def test_a_new_account_holds_nothing(api: httpx.AsyncClient) -> None:
    answer = await api.post("/v1/accounts", json={"name": "Till", "currency": "eur"})
    assert answer.status_code == 201
    account = answer.json()
    assert account == {
        "id": account["id"],
        "object": "account",
        "name": "Till",
        "currency": "EUR",
        "balance": 0,
        "created": "2026-09-21T14:13:20.000Z",
        "livemode": False,
        "metadata": {},
    }
    assert account["id"].startswith("acc_")
    again = await api.get(f"/v1/accounts/{account['id']}")
    assert (again.status_code, again.json()) == (200, account)


async def test_a_live_key_makes_a_live_account(api_with: Run) -> None:
    live = await api_with(livemode=True)
    assert (await live.post("/v1/accounts", json=TILL)).json()["livemode"] is True


async def test_a_missing_currency_is_named(api: httpx.AsyncClient) -> None:
    answer = await api.post("/v1/accounts", json={"name": "Till"})
    assert refusal(answer) == (400, "invalid_request", "missing_field", "currency")


@pytest.mark.parametrize(
    "field", ["balance", "livemode", "project", "status", "role", "id", "created", "Name"]
)
async def test_a_field_that_is_not_the_callers_to_set_is_refused(api: httpx.AsyncClient, field: str) -> None:
    answer = await api.post("/v1/accounts", json={**TILL, field: 1})
    assert refusal(answer) == (400, "invalid_request", "unknown_field", field)
    assert (await api.get("/v1/accounts")).json()["data"] == []


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"name": None}, "name"),
        ({"name": ""}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"name": 5}, "name"),
        ({"name": ["Till"]}, "name"),
        ({"currency": "EURO"}, "currency"),
        ({"currency": 978}, "currency"),
        ({"metadata": []}, "metadata"),
        ({"metadata": {"a": 1}}, "metadata.a"),
        ({"metadata": {"a": {"b": "c"}}}, "metadata.a"),
        ({"metadata": {str(n): "" for n in range(21)}}, "metadata"),
        ({"metadata": {"a": "x" * 1025}}, "metadata.a"),
    ],
)
async def test_a_wrong_value_is_named(api: httpx.AsyncClient, wrong: dict[str, Any], param: str) -> None:
    answer = await api.post("/v1/accounts", json={**TILL, **wrong})
    assert refusal(answer) == (400, "invalid_request", "invalid_value", param)


async def test_an_unknown_account_is_404(api: httpx.AsyncClient) -> None:
    for path in ("acc_00000000000000000000000000", "x", "%00", "%F0%9F%92%A5", "a" * 500):
        for rest in ("", "/balance", "/statement"):
            answer = await api.get(f"/v1/accounts/{path}{rest}")
            assert refusal(answer) == (404, "not_found", "not_found", None)


async def test_another_projects_or_modes_account_is_answered_as_none(
    api: httpx.AsyncClient, stranger_api: httpx.AsyncClient
) -> None:
    id = (await api.post("/v1/accounts", json=TILL)).json()["id"]
    for rest in ("", "/balance", "/statement"):
        answer = await stranger_api.get(f"/v1/accounts/{id}{rest}")
        none = await stranger_api.get(f"/v1/accounts/acc_00000000000000000000000000{rest}")
        assert refusal(answer) == refusal(none) == (404, "not_found", "not_found", None)
    assert (await stranger_api.get("/v1/accounts")).json()["data"] == []
    answer = await stranger_api.get("/v1/accounts", params={"starting_after": id})
    assert refusal(answer) == (400, "invalid_request", "invalid_cursor", "starting_after")


@pytest.mark.parametrize(
    ("scopes", "reads", "writes"),
    [
        (["read:projects"], 200, 403),
        (["write:projects"], 403, 201),
        (["read:users", "admin:billing"], 403, 403),
        (["read:projects", "write:projects"], 200, 201),
    ],
)
async def test_a_restricted_key_does_what_its_scopes_grant(
    api: httpx.AsyncClient, api_with: Run, scopes: list[str], reads: int, writes: int
) -> None:
    id = (await api.post("/v1/accounts", json=TILL)).json()["id"]
    restricted = await api_with(scopes=scopes)
    for path in ("", f"/{id}", f"/{id}/balance", f"/{id}/statement"):
        assert (await restricted.get(f"/v1/accounts{path}")).status_code == reads
    answer = await restricted.post("/v1/accounts", json=TILL)
    assert answer.status_code == writes
    if writes == 403:
        assert refusal(answer) == (403, "permission_error", "missing_scope", None)


# Lists


async def test_a_list_goes_page_by_page_in_the_envelope(api: httpx.AsyncClient) -> None:
    made = [(await api.post("/v1/accounts", json=TILL)).json() for _ in range(5)][::-1]
    first = (await api.get("/v1/accounts", params={"limit": 3})).json()
    assert first == {"data": made[:3], "has_more": True, "next_cursor": made[2]["id"]}
    last = (await api.get("/v1/accounts", params={"limit": 3, "starting_after": first["next_cursor"]})).json()
    assert last == {"data": made[3:], "has_more": False, "next_cursor": None}
    back = (await api.get("/v1/accounts", params={"limit": 3, "ending_before": made[4]["id"]})).json()
    assert back == {"data": made[1:4], "has_more": True, "next_cursor": made[1]["id"]}


async def test_a_page_has_20_objects_by_default_and_at_most_100(api: httpx.AsyncClient) -> None:
    for _ in range(101):
        await api.post("/v1/accounts", json=TILL)
    assert len((await api.get("/v1/accounts")).json()["data"]) == 20
    assert len((await api.get("/v1/accounts", params={"limit": 100})).json()["data"]) == 100
    assert len((await api.get("/v1/accounts", params={"limit": 1})).json()["data"]) == 1


@pytest.mark.parametrize(
    "limit", ["0", "101", "-1", "1.5", "5.0", "1_0", "05", "+5", " 5", "", "x", "５", "1e1", "9" * 30]
)
async def test_a_bad_limit_is_refused_and_never_clamped(api: httpx.AsyncClient, limit: str) -> None:
    answer = await api.get("/v1/accounts", params={"limit": limit})
    assert refusal(answer) == (400, "invalid_request", "invalid_value", "limit")


@pytest.mark.parametrize(
    ("query", "code", "param"),
    [
        ("limits=5", "unknown_field", "limits"),
        ("cursor=acc_x", "unknown_field", "cursor"),
        ("limit=5&limit=6", "invalid_value", "limit"),
        ("starting_after=acc_x", "invalid_cursor", "starting_after"),
        ("ending_before=", "invalid_cursor", "ending_before"),
        ("starting_after=acc_x&ending_before=acc_y", "invalid_value", "ending_before"),
    ],
)
async def test_a_query_that_is_not_understood_is_refused(
    api: httpx.AsyncClient, query: str, code: str, param: str
) -> None:
    answer = await api.get(f"/v1/accounts?{query}")
    assert refusal(answer) == (400, "invalid_request", code, param)


async def test_an_unexpected_query_is_refused(api: httpx.AsyncClient) -> None:
    id = (await api.post("/v1/accounts", json=TILL)).json()["id"]
    answer = await api.get(f"/v1/accounts/{id}?limit=5")
    assert refusal(answer) == (400, "invalid_request", "unknown_field", "limit")


# Balance at a time


async def test_the_balance_is_given_for_a_time_and_by_default_for_now(
    api: httpx.AsyncClient, clock: ManualClock
) -> None:
    id = (await api.post("/v1/accounts", json=TILL)).json()["id"]
    clock.advance(1000)
    await api.post("/v1/transactions", json={"account": id, "amount": 5, "type": "credit"})
    clock.advance(1000)
    now = await api.get(f"/v1/accounts/{id}/balance")
    assert now.json() == {"balance": 5, "currency": "EUR", "at": "2026-09-21T14:13:22.000Z"}
    for at, shown, balance in [
        ("2026-09-21T14:13:20.999Z", "2026-09-21T14:13:20.999Z", 0),
        ("2026-09-21T14:13:21Z", "2026-09-21T14:13:21.000Z", 5),
        ("2026-09-21T16:13:21+02:00", "2026-09-21T14:13:21.000Z", 5),
        ("2026-09-21", "2026-09-21T00:00:00.000Z", 0),
        ("2026-09-22", "2026-09-22T00:00:00.000Z", 5),
    ]:
        answer = await api.get(f"/v1/accounts/{id}/balance", params={"at": at})
        assert answer.json() == {"balance": balance, "currency": "EUR", "at": shown}


@pytest.mark.parametrize(
    "at",
    [
        "",
        "now",
        "2026-13-01",
        "2026-02-30T00:00:00Z",
        "1790000000",
        "2026-09-21T25:00Z",
        "2026092",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
    ],
)
async def test_a_bad_time_is_refused(api: httpx.AsyncClient, at: str) -> None:
    id = (await api.post("/v1/accounts", json=TILL)).json()["id"]
    answer = await api.get(f"/v1/accounts/{id}/balance", params={"at": at})
    assert refusal(answer) == (400, "invalid_request", "invalid_value", "at")


# Idempotency keys


async def test_fifty_parallel_creates_with_one_key_are_one_201_and_49_conflicts(
    api: httpx.AsyncClient,
) -> None:
    headers = {"Idempotency-Key": "key-1"}
    answers = await asyncio.gather(*(api.post("/v1/accounts", json=TILL, headers=headers) for _ in range(50)))
    assert Counter(answer.status_code for answer in answers) == {201: 1, 409: 49}
    [account] = (await api.get("/v1/accounts")).json()["data"]
    for answer in answers:
        if answer.status_code == 201:
            assert answer.json() == account
        else:
            assert refusal(answer) == (409, "conflict", "duplicate_idempotency_key", "Idempotency-Key")
            assert answer.headers["Idempotency-Original"] == account["id"]
            assert account["id"] in answer.json()["error"]["message"]


async def test_a_key_is_used_up_also_for_another_body_and_another_create(api: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": "key-1"}
    account = (await api.post("/v1/accounts", json=TILL, headers=headers)).json()
    other = await api.post("/v1/accounts", json={"name": "Other", "currency": "USD"}, headers=headers)
    posting = {"account": account["id"], "amount": 1, "type": "credit"}
    posted = await api.post("/v1/transactions", json=posting, headers=headers)
    user = {"name": "Ada", "email": "ada@example.com"}
    created = await api.post("/api/users", json=user, headers=headers)
    for answer in (other, posted, created):
        assert answer.status_code == 409
        assert answer.headers["Idempotency-Original"] == account["id"]


async def test_a_request_that_failed_takes_no_key(api: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": "key-1"}
    assert (await api.post("/v1/accounts", json={"name": "Till"}, headers=headers)).status_code == 400
    assert (await api.post("/v1/accounts", json=TILL, headers=headers)).status_code == 201


@pytest.mark.parametrize("key", ["", "x" * 256, "tab\there", "\x7f", "caf\u00e9".encode()])
async def test_a_key_is_1_to_255_printable_ascii_characters(api: httpx.AsyncClient, key: str | bytes) -> None:
    raw = key if isinstance(key, bytes) else key.encode()
    answer = await api.post("/v1/accounts", json=TILL, headers=[(b"Idempotency-Key", raw)])
    assert refusal(answer) == (400, "invalid_request", "invalid_value", "Idempotency-Key")
    longest = await api.post("/v1/accounts", json=TILL, headers={"Idempotency-Key": "~ " + "x" * 253})
    assert longest.status_code == 201


async def test_a_project_over_its_quota_gets_an_error_that_says_so(
    api: httpx.AsyncClient, engine: Any, project: Any
) -> None:
    sql = "UPDATE projects SET plan = 'free', rate_limit = NULL, burst = NULL"
    await engine.write(lambda unit: (unit.execute(sql), unit.announce("credentials")))
    assert (await api.post("/v1/accounts", json=TILL)).status_code == 201
    await engine.write(lambda unit: unit.execute("UPDATE counters SET stored_objects = 10000"))
    answer = await api.post("/v1/accounts", json=TILL)
    assert refusal(answer) == (403, "permission_error", "quota_exceeded", None)
    assert len((await api.get("/v1/accounts")).json()["data"]) == 1


async def test_metadata_of_null_is_as_if_it_were_left_out(api: httpx.AsyncClient) -> None:
    answer = await api.post("/v1/accounts", json={"name": "Till", "currency": "EUR", "metadata": None})
    assert (answer.status_code, answer.json()["metadata"]) == (201, {})


async def test_a_balance_at_a_date_is_that_of_its_first_moment(
    api: httpx.AsyncClient, clock: ManualClock
) -> None:
    id = (await api.post("/v1/accounts", json={"name": "Till", "currency": "EUR"})).json()["id"]
    await api.post("/v1/transactions", json={"account": id, "amount": 5, "type": "credit"})
    day = (await api.get(f"/v1/accounts/{id}")).json()["created"][:10]
    clock.advance(86_400_000)
    held = (await api.get(f"/v1/accounts/{id}/balance", params={"at": day})).json()
    assert (held["balance"], held["at"]) == (0, f"{day}T00:00:00.000Z")
    stated = (await api.get(f"/v1/accounts/{id}/statement", params={"to": day})).json()
    assert stated["closing_balance"] == 5
