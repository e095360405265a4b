"""The routes of transactions: postings, transfers, batches, reversals and the list."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from ledger_engine.core.money import MAX_AMOUNT
from tests.contract.rules import holds
from tests.ledger_engine.manual_clock import ManualClock

Run = Callable[..., Awaitable[Any]]
NOWHERE = "acc_00000000000000000000000000"


def refusal(answer: httpx.Response) -> tuple[int, str, str | None]:
    """Status, code and param of an error of the ledger surface."""
    error = answer.json()["error"]
    return answer.status_code, error["code"], error["param"]


async def make_account(api: httpx.AsyncClient, currency: str = "EUR") -> str:
    answer = await api.post("/v1/accounts", json={"name": "Till", "currency": currency})
    return str(answer.json()["id"])


@pytest.fixture
async def till(api: httpx.AsyncClient) -> str:
    return await make_account(api)


@pytest.fixture
async def safe(api: httpx.AsyncClient) -> str:
    return await make_account(api)


@pytest.fixture
def post(api: httpx.AsyncClient) -> Run:
    """Post a transaction that must succeed."""

    async def make(account: str, amount: int, type: str = "credit", **more: Any) -> dict[str, Any]:
        body = {"account": account, "amount": amount, "type": type, **more}
        answer = await api.post("/v1/transactions", json=body)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    return make


@pytest.fixture
def balance(api: httpx.AsyncClient) -> Run:
    async def of(account: str) -> int:
        return int((await api.get(f"/v1/accounts/{account}")).json()["balance"])

    return of


async def test_a_posted_transaction_is_answered_whole_and_found_again(
    api: httpx.AsyncClient, till: str, post: Run
) -> None:
    posted = await post(till, 500, description="Float")
    assert posted == {
        "id": posted["id"],
        "object": "transaction",
        "account": till,
        "amount": 500,
        "type": "credit",
        "description": "Float",
        "balance_after": 500,
        "created": "2026-09-21T14:13:20.000Z",
        "livemode": False,
        "destination": None,
        "transfer": None,
        "reverses": None,
    }
    assert posted["id"].startswith("txn_")
    again = await api.get(f"/v1/transactions/{posted['id']}")
    assert (again.status_code, again.json()) == (200, posted)


@pytest.mark.parametrize(
    "amount",
    [
        "true",
        "1.5",
        "1.0",
        "1e400",
        "1e2",
        "NaN",
        "Infinity",
        "9223372036854775808",
        "9007199254740992",
        "-1",
        "0",
        '"1"',
        "null",
        "[1]",
        "{}",
        "1" * 5000,
    ],
)
async def test_an_amount_that_is_no_positive_integer_in_range_is_400(
    api: httpx.AsyncClient, till: str, balance: Run, amount: str
) -> None:
    body = f'{{"account": "{till}", "type": "credit", "amount": {amount}}}'
    answer = await api.post("/v1/transactions", content=body.encode())
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] in ("invalid_value", "invalid_json")
    assert await balance(till) == 0


@pytest.mark.parametrize("field", ["account", "amount", "type"])
async def test_a_missing_field_is_named(api: httpx.AsyncClient, till: str, field: str) -> None:
    body = {"account": till, "amount": 1, "type": "credit"}
    del body[field]
    assert refusal(await api.post("/v1/transactions", json=body)) == (400, "missing_field", field)


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"type": "Credit"}, (400, "invalid_value", "type")),
        ({"type": None}, (400, "invalid_value", "type")),
        ({"account": 5}, (400, "invalid_value", "account")),
        ({"account": NOWHERE}, (404, "not_found", "account")),
        ({"account": ""}, (404, "not_found", "account")),
        ({"destination": NOWHERE}, (404, "not_found", "destination")),
        ({"destination": ""}, (404, "not_found", "destination")),
        ({"description": "x" * 501}, (400, "invalid_value", "description")),
        ({"description": 5}, (400, "invalid_value", "description")),
        ({"balance_after": 5}, (400, "unknown_field", "balance_after")),
        ({"transfer": "txn_x"}, (400, "unknown_field", "transfer")),
        ({"reverses": "txn_x"}, (400, "unknown_field", "reverses")),
        ({"livemode": True}, (400, "unknown_field", "livemode")),
        ({"created": "2020-01-01"}, (400, "unknown_field", "created")),
    ],
)
async def test_a_wrong_field_is_named_and_nothing_is_posted(
    api: httpx.AsyncClient,
    till: str,
    balance: Run,
    wrong: dict[str, Any],
    expected: tuple[int, str, str],
) -> None:
    body = {"account": till, "amount": 1, "type": "credit", **wrong}
    assert refusal(await api.post("/v1/transactions", json=body)) == expected
    assert await balance(till) == 0
    assert (await api.get("/v1/transactions")).json()["data"] == []


async def test_the_largest_balance_is_reached_and_not_passed(
    api: httpx.AsyncClient, till: str, post: Run
) -> None:
    assert (await post(till, MAX_AMOUNT))["balance_after"] == MAX_AMOUNT
    answer = await api.post("/v1/transactions", json={"account": till, "amount": 1, "type": "credit"})
    assert refusal(answer) == (400, "balance_out_of_range", "amount")


async def test_a_project_that_refuses_overdraft_says_so(
    api: httpx.AsyncClient, till: str, engine: Any, balance: Run
) -> None:
    await engine.write(
        lambda unit: (
            unit.execute("UPDATE projects SET overdraft = 'refuse'"),
            unit.announce("credentials"),
        )
    )
    answer = await api.post("/v1/transactions", json={"account": till, "amount": 1, "type": "debit"})
    assert refusal(answer) == (400, "insufficient_funds", "amount")
    assert await balance(till) == 0


# Transfers, batches, reversals


@pytest.mark.parametrize(("type", "change"), [("debit", -30), ("credit", 30)])
async def test_a_transfer_moves_the_amount_between_two_accounts(
    api: httpx.AsyncClient, till: str, safe: str, post: Run, balance: Run, type: str, change: int
) -> None:
    source = await post(till, 30, type, destination=safe)
    assert (source["account"], source["destination"]) == (till, safe)
    assert [await balance(till), await balance(safe)] == [change, -change]
    [other, same] = (await api.get("/v1/transactions")).json()["data"]
    assert same == source
    assert (other["account"], other["destination"], other["transfer"]) == (safe, till, source["transfer"])
    assert {other["type"], source["type"]} == {"credit", "debit"}


async def test_a_transfer_between_currencies_or_to_itself_is_refused(
    api: httpx.AsyncClient, till: str
) -> None:
    dollars = await make_account(api, "USD")
    body = {"account": till, "amount": 1, "type": "debit", "destination": dollars}
    answer = await api.post("/v1/transactions", json=body)
    assert refusal(answer) == (400, "currency_mismatch", "destination")
    answer = await api.post("/v1/transactions", json={**body, "destination": till})
    assert refusal(answer) == (400, "invalid_value", "destination")


async def test_a_batch_is_posted_whole(api: httpx.AsyncClient, till: str, balance: Run) -> None:
    items = [{"account": till, "amount": n, "type": "credit"} for n in (1, 2, 3)]
    answer = await api.post("/v1/transactions/batch", json={"transactions": items})
    assert answer.status_code == 201
    assert set(answer.json()) == {"data"}
    posted = answer.json()["data"]
    assert [item["balance_after"] for item in posted] == [1, 3, 6]
    assert (await api.get("/v1/transactions")).json()["data"] == posted[::-1]


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        ({"amount": 0}, (400, "invalid_value", "transactions.1.amount")),
        ({"amount": 1.0}, (400, "invalid_value", "transactions.1.amount")),
        ({"account": NOWHERE}, (404, "not_found", "transactions.1.account")),
        ({"destination": NOWHERE}, (404, "not_found", "transactions.1.destination")),
        ({"amount": MAX_AMOUNT}, (400, "balance_out_of_range", "transactions.1.amount")),
        ({"nonsense": 1}, (400, "unknown_field", "transactions.1.nonsense")),
    ],
)
async def test_a_batch_with_one_bad_item_names_it_and_posts_nothing(
    api: httpx.AsyncClient, till: str, balance: Run, bad: dict[str, Any], expected: tuple[int, str, str]
) -> None:
    good = {"account": till, "amount": 1, "type": "credit"}
    answer = await api.post("/v1/transactions/batch", json={"transactions": [good, good | bad]})
    assert refusal(answer) == expected
    assert await balance(till) == 0


async def test_a_batch_has_1_to_1000_items(api: httpx.AsyncClient, till: str, balance: Run) -> None:
    good = {"account": till, "amount": 1, "type": "credit"}
    for items in ([], [good] * 1001):
        answer = await api.post("/v1/transactions/batch", json={"transactions": items})
        assert refusal(answer) == (400, "invalid_value", "transactions")
    answer = await api.post("/v1/transactions/batch", json={})
    assert refusal(answer) == (400, "missing_field", "transactions")
    answer = await api.post("/v1/transactions/batch", json={"transactions": [good] * 1000})
    assert (answer.status_code, await balance(till)) == (201, 1000)


async def test_a_transaction_is_reversed_once(
    api: httpx.AsyncClient, till: str, post: Run, balance: Run
) -> None:
    first = await post(till, 30, description="Sale")
    answer = await api.post(f"/v1/transactions/{first['id']}/reverse")
    assert answer.status_code == 201
    undone = answer.json()
    assert (undone["type"], undone["amount"], undone["reverses"]) == ("debit", 30, first["id"])
    assert await balance(till) == 0
    again = await api.post(f"/v1/transactions/{first['id']}/reverse")
    assert again.status_code == 409
    assert again.json()["error"]["type"] == "conflict"
    assert await balance(till) == 0


async def test_a_reversal_takes_an_idempotency_key(
    api: httpx.AsyncClient, till: str, post: Run, balance: Run
) -> None:
    first = await post(till, 30)
    headers = {"Idempotency-Key": "key-1"}
    undone = await api.post(f"/v1/transactions/{first['id']}/reverse", headers=headers)
    again = await api.post(f"/v1/transactions/{first['id']}/reverse", headers=headers)
    assert refusal(again) == (409, "duplicate_idempotency_key", "Idempotency-Key")
    assert again.headers["Idempotency-Original"] == undone.json()["id"]


async def test_an_unknown_transaction_is_404(api: httpx.AsyncClient) -> None:
    nowhere = "/v1/transactions/txn_00000000000000000000000000"
    assert refusal(await api.get(nowhere)) == (404, "not_found", None)
    assert refusal(await api.post(f"{nowhere}/reverse")) == (404, "not_found", None)


async def test_another_projects_or_modes_objects_are_answered_as_none(
    api: httpx.AsyncClient, stranger_api: httpx.AsyncClient, till: str, post: Run, balance: Run
) -> None:
    posted = await post(till, 30)
    theirs = await make_account(stranger_api)
    mine = {"account": till, "amount": 1, "type": "debit"}
    not_found = (404, "not_found", None)
    path = f"/v1/transactions/{posted['id']}"
    assert refusal(await stranger_api.get(path)) == not_found
    assert refusal(await stranger_api.post(f"{path}/reverse")) == not_found
    answer = await stranger_api.post("/v1/transactions", json=mine)
    assert refusal(answer) == (404, "not_found", "account")
    answer = await stranger_api.post(
        "/v1/transactions", json={**mine, "account": theirs, "destination": till}
    )
    assert refusal(answer) == (404, "not_found", "destination")
    answer = await stranger_api.post("/v1/transactions/batch", json={"transactions": [mine]})
    assert refusal(answer) == (404, "not_found", "transactions.0.account")
    for query in ({}, {"account": till}, {"type": "credit"}):
        assert (await stranger_api.get("/v1/transactions", params=query)).json()["data"] == []
    answer = await stranger_api.get("/v1/transactions", params={"starting_after": posted["id"]})
    assert refusal(answer) == (400, "invalid_cursor", "starting_after")
    assert await balance(till) == 30


async def test_a_restricted_key_does_what_its_scopes_grant(
    api: httpx.AsyncClient, api_with: Run, till: str, post: Run
) -> None:
    posted = await post(till, 30)
    reader = await api_with(scopes=["read:projects"])
    writer = await api_with(scopes=["write:projects"])
    body = {"account": till, "amount": 1, "type": "credit"}
    requests = [
        ("POST", "/v1/transactions", body),
        ("POST", "/v1/transactions/batch", {"transactions": [body]}),
        ("POST", f"/v1/transactions/{posted['id']}/reverse", None),
    ]
    for method, path, content in requests:
        assert refusal(await reader.request(method, path, json=content)) == (403, "missing_scope", None)
        assert (await writer.request(method, path, json=content)).status_code == 201
    for path in ("/v1/transactions", f"/v1/transactions/{posted['id']}"):
        assert (await reader.get(path)).status_code == 200
        assert refusal(await writer.get(path)) == (403, "missing_scope", None)


# The list


async def test_the_list_is_filtered_by_account_and_type(
    api: httpx.AsyncClient, till: str, safe: str, post: Run
) -> None:
    made = [await post(till if n % 2 else safe, 1, "credit" if n % 4 < 2 else "debit") for n in range(8)]
    for query in ({}, {"account": till}, {"type": "debit"}, {"account": safe, "type": "credit"}):
        wanted = [t for t in made[::-1] if all(t[field] == value for field, value in query.items())]
        assert (await api.get("/v1/transactions", params=query)).json()["data"] == wanted
    assert (await api.get("/v1/transactions", params={"account": NOWHERE})).json() == {
        "data": [],
        "has_more": False,
        "next_cursor": None,
    }


@pytest.mark.parametrize(
    ("created_after", "seen"),
    [
        ("2026-09-21T14:13:19.999Z", 2),
        ("2026-09-21T14:13:20.000Z", 1),
        ("2026-09-21T14:13:20Z", 1),
        ("2026-09-21T14:13:20", 1),
        ("2026-09-21T16:13:20+02:00", 1),
        ("2026-09-21T14:13:20.001Z", 0),
        ("2026-09-21", 2),
        ("2026-09-22", 0),
        ("1969-01-01", 2),
    ],
)
async def test_created_after_is_strictly_after_a_date_or_time(
    api: httpx.AsyncClient, till: str, post: Run, clock: ManualClock, created_after: str, seen: int
) -> None:
    await post(till, 1)
    clock.advance(1)
    await post(till, 2)
    answer = await api.get("/v1/transactions", params={"created_after": created_after})
    assert [item["amount"] for item in answer.json()["data"]] == [2, 1][:seen]


@pytest.mark.parametrize(
    ("query", "code", "param"),
    [
        ("type=x", "invalid_value", "type"),
        ("type=", "invalid_value", "type"),
        ("created_after=yesterday", "invalid_value", "created_after"),
        ("created_after=", "invalid_value", "created_after"),
        ("created_after=2026-09-21T14:13:20 02:00", "invalid_value", "created_after"),
        ("created_before=2026-09-21", "unknown_field", "created_before"),
        ("starting_after=txn_x", "invalid_cursor", "starting_after"),
        ("limit=0", "invalid_value", "limit"),
    ],
)
async def test_a_query_that_is_not_understood_is_refused(
    api: httpx.AsyncClient, query: str, code: str, param: str
) -> None:
    assert refusal(await api.get(f"/v1/transactions?{query}")) == (400, code, param)


# Races


async def test_fifty_parallel_postings_with_one_key_are_one(
    api: httpx.AsyncClient, till: str, balance: Run
) -> None:
    body = {"account": till, "amount": 7, "type": "credit"}
    headers = {"Idempotency-Key": "key-1"}
    answers = await asyncio.gather(
        *(api.post("/v1/transactions", json=body, headers=headers) for _ in range(50))
    )
    assert Counter(answer.status_code for answer in answers) == {201: 1, 409: 49}
    [posted] = (await api.get("/v1/transactions")).json()["data"]
    originals = {a.headers["Idempotency-Original"] for a in answers if a.status_code == 409}
    assert originals == {posted["id"]}
    assert await balance(till) == 7


async def test_twelve_parallel_reversals_are_one(
    api: httpx.AsyncClient, till: str, post: Run, balance: Run
) -> None:
    first = await post(till, 30)
    path = f"/v1/transactions/{first['id']}/reverse"
    answers = await asyncio.gather(*(api.post(path) for _ in range(12)))
    assert Counter(answer.status_code for answer in answers) == {201: 1, 409: 11}
    assert await balance(till) == 0


@holds("transactions-related")
async def test_what_belongs_to_a_transaction_is_listed(api: httpx.AsyncClient) -> None:
    till, safe = [
        (await api.post("/v1/accounts", json={"name": name, "currency": "EUR"})).json()["id"]
        for name in ("Till", "Safe")
    ]
    body = {"account": till, "amount": 5, "type": "debit"}
    alone = (await api.post("/v1/transactions", json=body)).json()["id"]
    moved = (await api.post("/v1/transactions", json=body | {"destination": safe})).json()["id"]
    assert await related(api, alone) == []
    ((_type, other),) = await related(api, moved)
    undone = (await api.post(f"/v1/transactions/{moved}/reverse")).json()["id"]
    assert await related(api, moved) == [("credit", undone), ("credit", other)]
    assert ("debit", moved) in await related(api, undone)
    nowhere = "/v1/transactions/txn_00000000000000000000000000/related"
    assert (await api.get(nowhere)).status_code == 404


async def related(api: httpx.AsyncClient, id: str) -> list[tuple[str, str]]:
    """The type and id of each transaction that belongs to this one."""
    data = (await api.get(f"/v1/transactions/{id}/related")).json()["data"]
    return [(each["type"], each["id"]) for each in data]
