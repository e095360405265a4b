"""The routes of invoices."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from tests.ledger_engine.manual_clock import ManualClock

Run = Callable[..., Awaitable[Any]]
NOWHERE = "inv_00000000000000000000000000"


def refusal(answer: httpx.Response) -> tuple[int, str, str | None]:
    """Status, code and param of an error of the ledger surface."""
    error = answer.json()["error"]
    return answer.status_code, error["code"], error["param"]


@pytest.fixture
async def sales(api: httpx.AsyncClient) -> str:
    answer = await api.post("/v1/accounts", json={"name": "Sales", "currency": "EUR"})
    return str(answer.json()["id"])


@pytest.fixture
def in_status(api: httpx.AsyncClient, sales: str) -> Run:
    """Make an invoice in the status."""

    async def make(status: str = "draft", **more: Any) -> dict[str, Any]:
        body = {"account": sales, "customer": "Café Nord", "amount": 900} | more
        answer = await api.post("/v1/invoices", json=body)
        assert answer.status_code == 201, answer.text
        id = answer.json()["id"]
        if status != "draft":
            answer = await api.post(f"/v1/invoices/{id}/finalize")
        if status == "paid":
            answer = await api.post(f"/v1/invoices/{id}/pay")
        if status == "void":
            answer = await api.delete(f"/v1/invoices/{id}")
        assert answer.json()["status"] == status
        return dict(answer.json())

    return make


async def test_an_invoice_goes_from_draft_over_open_to_paid(
    api: httpx.AsyncClient, sales: str, clock: ManualClock
) -> None:
    line = {"description": "Beans", "quantity": 3, "unit_amount": 300}
    body = {"account": sales, "customer": "Café Nord", "lines": [line], "due_date": "2026-10-21"}
    answer = await api.post("/v1/invoices", json=body)
    assert answer.status_code == 201
    draft = answer.json()
    assert draft == {
        "id": draft["id"],
        "object": "invoice",
        "account": sales,
        "customer": "Café Nord",
        "currency": "EUR",
        "amount": 900,
        "lines": [line],
        "due_date": "2026-10-21",
        "description": None,
        "metadata": {},
        "status": "draft",
        "number": None,
        "transaction": None,
        "opened_at": None,
        "paid_at": None,
        "voided_at": None,
        "created": "2026-09-21T14:13:20.000Z",
        "livemode": False,
    }
    assert draft["id"].startswith("inv_")

    clock.advance(1000)
    answer = await api.post(f"/v1/invoices/{draft['id']}/finalize")
    opened = draft | {"status": "open", "number": "INV-000001", "opened_at": "2026-09-21T14:13:21.000Z"}
    assert (answer.status_code, answer.json()) == (200, opened)

    clock.advance(1000)
    answer = await api.post(f"/v1/invoices/{draft['id']}/pay")
    paid = opened | {"status": "paid", "paid_at": "2026-09-21T14:13:22.000Z"}
    assert (answer.status_code, answer.json() | {"transaction": None}) == (200, paid)
    payment = (await api.get(f"/v1/transactions/{answer.json()['transaction']}")).json()
    assert (payment["account"], payment["amount"], payment["type"]) == (sales, 900, "credit")
    assert (await api.get(f"/v1/accounts/{sales}")).json()["balance"] == 900
    assert (await api.get(f"/v1/invoices/{draft['id']}")).json() == answer.json()


async def test_voiding_an_open_invoice_answers_it_and_keeps_it(
    api: httpx.AsyncClient, in_status: Run, clock: ManualClock
) -> None:
    opened = await in_status("open")
    clock.advance(1000)
    answer = await api.delete(f"/v1/invoices/{opened['id']}")
    voided = opened | {"status": "void", "voided_at": "2026-09-21T14:13:21.000Z"}
    assert (answer.status_code, answer.json()) == (200, voided)
    assert (await api.get(f"/v1/invoices/{opened['id']}")).json() == voided


@pytest.mark.parametrize("field", ["account", "customer", "amount"])
async def test_a_missing_field_is_named(api: httpx.AsyncClient, sales: str, field: str) -> None:
    body = {"account": sales, "customer": "Café Nord", "amount": 900}
    del body[field]
    assert refusal(await api.post("/v1/invoices", json=body)) == (400, "missing_field", field)


LINE = {"description": "Beans", "quantity": 1, "unit_amount": 100}


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"account": "acc_x"}, (404, "not_found", "account")),
        ({"account": None}, (400, "invalid_value", "account")),
        ({"customer": ""}, (400, "invalid_value", "customer")),
        ({"customer": None}, (400, "invalid_value", "customer")),
        ({"amount": 0}, (400, "invalid_value", "amount")),
        ({"amount": 1.0}, (400, "invalid_value", "amount")),
        ({"amount": True}, (400, "invalid_value", "amount")),
        ({"amount": 2**53}, (400, "invalid_value", "amount")),
        ({"lines": [LINE]}, (400, "invalid_value", "lines")),
        ({"amount": None, "lines": []}, (400, "invalid_value", "lines")),
        ({"amount": None, "lines": [LINE] * 101}, (400, "invalid_value", "lines")),
        ({"amount": None, "lines": [LINE | {"unit_amount": 0}]}, (400, "invalid_value", "lines")),
        (
            {"amount": None, "lines": [LINE, LINE | {"quantity": 0}]},
            (400, "invalid_value", "lines.1.quantity"),
        ),
        ({"amount": None, "lines": [LINE | {"quantity": 1.5}]}, (400, "invalid_value", "lines.0.quantity")),
        (
            {"amount": None, "lines": [LINE | {"unit_amount": -1}]},
            (400, "invalid_value", "lines.0.unit_amount"),
        ),
        ({"amount": None, "lines": [LINE | {"amount": 5}]}, (400, "unknown_field", "lines.0.amount")),
        ({"amount": None, "lines": [{"quantity": 1}]}, (400, "missing_field", "lines.0.description")),
        ({"amount": None, "lines": ["Beans"]}, (400, "invalid_value", "lines.0")),
        ({"due_date": "2026-02-30"}, (400, "invalid_value", "due_date")),
        ({"due_date": 20260230}, (400, "invalid_value", "due_date")),
        ({"description": "x" * 501}, (400, "invalid_value", "description")),
        ({"metadata": {"a": 1}}, (400, "invalid_value", "metadata.a")),
        ({"currency": "EUR"}, (400, "unknown_field", "currency")),
        ({"status": "paid"}, (400, "unknown_field", "status")),
        ({"number": "INV-000001"}, (400, "unknown_field", "number")),
        ({"transaction": "txn_x"}, (400, "unknown_field", "transaction")),
        ({"livemode": True}, (400, "unknown_field", "livemode")),
        ({"project": "prj_x"}, (400, "unknown_field", "project")),
    ],
)
async def test_a_wrong_field_is_named_on_create_and_on_change(
    api: httpx.AsyncClient,
    sales: str,
    in_status: Run,
    wrong: dict[str, Any],
    expected: tuple[int, str, str],
) -> None:
    body = {"account": sales, "customer": "Café Nord", "amount": 900} | wrong
    assert refusal(await api.post("/v1/invoices", json=body)) == expected
    draft = await in_status()
    assert refusal(await api.patch(f"/v1/invoices/{draft['id']}", json=body)) == expected
    assert (await api.get("/v1/invoices")).json()["data"] == [draft]


async def test_an_optional_field_may_be_null_from_the_start(api: httpx.AsyncClient, sales: str) -> None:
    nothing = {"lines": None, "due_date": None, "description": None, "metadata": None}
    body = {"account": sales, "customer": "C", "amount": 1} | nothing
    made = (await api.post("/v1/invoices", json=body)).json()
    assert {field: made[field] for field in nothing} == nothing | {"metadata": {}}


async def test_a_patch_changes_only_the_fields_sent(api: httpx.AsyncClient, in_status: Run) -> None:
    draft = await in_status(description="October", due_date="2026-10-21", metadata={"a": "1"})
    path = f"/v1/invoices/{draft['id']}"
    for change, effect in [
        ({"customer": "Café Süd"}, {}),
        ({"metadata": {"b": "2"}}, {}),
        ({"metadata": None}, {"metadata": {}}),
        ({"due_date": None}, {}),
        ({"description": None}, {}),
        ({"lines": [LINE]}, {"amount": 100}),
        ({"amount": 7}, {"lines": None}),
        ({"lines": [LINE], "amount": None}, {"amount": 100}),
        ({}, {}),
    ]:
        answer = await api.patch(path, json=change)
        draft |= change | effect
        assert (answer.status_code, answer.json()) == (200, draft)
    assert (await api.get(path)).json() == draft


async def test_a_patch_to_another_account_changes_the_currency(
    api: httpx.AsyncClient, in_status: Run
) -> None:
    draft = await in_status()
    dollars = (await api.post("/v1/accounts", json={"name": "Dollars", "currency": "USD"})).json()["id"]
    answer = await api.patch(f"/v1/invoices/{draft['id']}", json={"account": dollars})
    assert answer.json() == draft | {"account": dollars, "currency": "USD"}


@pytest.mark.parametrize("change", [{"amount": None}, {"amount": None, "lines": None}])
async def test_an_invoice_is_never_left_without_an_amount(
    api: httpx.AsyncClient, in_status: Run, change: dict[str, None]
) -> None:
    draft = await in_status()
    answer = await api.patch(f"/v1/invoices/{draft['id']}", json=change)
    assert refusal(answer) == (400, "missing_field", "amount")


@pytest.mark.parametrize(
    ("status", "method", "step", "code"),
    [
        ("open", "PATCH", "", "invoice_not_draft"),
        ("paid", "PATCH", "", "invoice_not_draft"),
        ("void", "PATCH", "", "invoice_not_draft"),
        ("open", "POST", "/finalize", "invoice_not_draft"),
        ("paid", "POST", "/finalize", "invoice_not_draft"),
        ("void", "POST", "/finalize", "invoice_not_draft"),
        ("draft", "POST", "/pay", "invoice_not_open"),
        ("paid", "POST", "/pay", "invoice_not_open"),
        ("void", "POST", "/pay", "invoice_not_open"),
        ("draft", "DELETE", "", "invoice_not_open"),
        ("paid", "DELETE", "", "invoice_not_open"),
        ("void", "DELETE", "", "invoice_not_open"),
    ],
)
async def test_what_the_state_forbids_is_409(
    api: httpx.AsyncClient, in_status: Run, status: str, method: str, step: str, code: str
) -> None:
    invoice = await in_status(status)
    path = f"/v1/invoices/{invoice['id']}"
    content = {"customer": "New"} if method == "PATCH" else None
    answer = await api.request(method, path + step, json=content)
    assert refusal(answer) == (409, code, None)
    assert answer.json()["error"]["type"] == "conflict"
    assert (await api.get(path)).json() == invoice


async def requests_on(api: httpx.AsyncClient, id: str) -> list[tuple[str, httpx.Response]]:
    """Return the answer to each request that an invoice allows."""
    path = f"/v1/invoices/{id}"
    return [
        ("read", await api.get(path)),
        ("write", await api.patch(path, json={"customer": "New"})),
        ("write", await api.post(f"{path}/finalize")),
        ("write", await api.post(f"{path}/pay")),
        ("write", await api.delete(path)),
    ]


async def test_an_unknown_invoice_is_404(api: httpx.AsyncClient) -> None:
    for id in (NOWHERE, "x", "%00"):
        for _, answer in await requests_on(api, id):
            assert refusal(answer) == (404, "not_found", None)


async def test_another_projects_or_modes_invoice_is_answered_as_none(
    api: httpx.AsyncClient, stranger_api: httpx.AsyncClient, in_status: Run, sales: str
) -> None:
    for status in ("draft", "open"):
        invoice = await in_status(status)
        for _, answer in await requests_on(stranger_api, invoice["id"]):
            assert refusal(answer) == (404, "not_found", None)
        assert (await api.get(f"/v1/invoices/{invoice['id']}")).json() == invoice
    for query in ({}, {"account": sales}, {"status": "open"}):
        assert (await stranger_api.get("/v1/invoices", params=query)).json()["data"] == []
    answer = await stranger_api.get("/v1/invoices", params={"starting_after": invoice["id"]})
    assert refusal(answer) == (400, "invalid_cursor", "starting_after")
    body = {"account": sales, "customer": "C", "amount": 1}
    assert refusal(await stranger_api.post("/v1/invoices", json=body)) == (404, "not_found", "account")
    theirs = (await stranger_api.post("/v1/accounts", json={"name": "S", "currency": "EUR"})).json()["id"]
    draft = (await stranger_api.post("/v1/invoices", json=body | {"account": theirs})).json()["id"]
    answer = await stranger_api.patch(f"/v1/invoices/{draft}", json={"account": sales})
    assert refusal(answer) == (404, "not_found", "account")


async def test_a_restricted_key_does_what_its_scopes_grant(
    api: httpx.AsyncClient, api_with: Run, in_status: Run, sales: str
) -> None:
    invoice = await in_status()
    body = {"account": sales, "customer": "C", "amount": 1}
    rights = {"read": "read:projects", "write": "write:projects"}
    for right, scope in rights.items():
        restricted = await api_with(scopes=[scope])
        answers = [
            *await requests_on(restricted, invoice["id"]),
            ("read", await restricted.get("/v1/invoices")),
            ("write", await restricted.post("/v1/invoices", json=body)),
        ]
        for needed, answer in answers:
            if needed == right:
                assert answer.status_code != 403
            else:
                assert refusal(answer) == (403, "missing_scope", None)


async def test_the_list_is_filtered_by_status_and_account(api: httpx.AsyncClient, in_status: Run) -> None:
    made = [await in_status(status) for status in ("draft", "open", "paid", "void", "open")][::-1]
    account = made[0]["account"]
    for status in ("draft", "open", "paid", "void"):
        wanted = [invoice for invoice in made if invoice["status"] == status]
        for query in ({"status": status}, {"status": status, "account": account}):
            assert (await api.get("/v1/invoices", params=query)).json()["data"] == wanted
    page = (await api.get("/v1/invoices", params={"limit": 2, "starting_after": made[1]["id"]})).json()
    assert page == {"data": made[2:4], "has_more": True, "next_cursor": made[3]["id"]}
    back = (await api.get("/v1/invoices", params={"ending_before": made[2]["id"]})).json()
    assert back == {"data": made[:2], "has_more": False, "next_cursor": None}
    nobody = {"account": "acc_00000000000000000000000000"}
    assert (await api.get("/v1/invoices", params=nobody)).json()["data"] == []
    assert refusal(await api.get("/v1/invoices?status=due")) == (400, "invalid_value", "status")
    assert refusal(await api.get("/v1/invoices?customer=C")) == (400, "unknown_field", "customer")


async def test_a_key_makes_one_invoice_or_one_step(api: httpx.AsyncClient, sales: str) -> None:
    body = {"account": sales, "customer": "C", "amount": 1}
    duplicate = (409, "duplicate_idempotency_key", "Idempotency-Key")
    draft = (await api.post("/v1/invoices", json=body, headers={"Idempotency-Key": "a"})).json()
    path = f"/v1/invoices/{draft['id']}"
    steps = [("/v1/invoices", "a"), (f"{path}/finalize", "b"), (f"{path}/pay", "c")]
    for url, key in steps:
        content = body if url == "/v1/invoices" else None
        first = await api.post(url, json=content, headers={"Idempotency-Key": key})
        again = await api.post(url, json=content, headers={"Idempotency-Key": key})
        assert (first.is_success, refusal(again)) == (key != "a", duplicate)
        assert again.headers["Idempotency-Original"] == draft["id"]
    assert len((await api.get("/v1/invoices")).json()["data"]) == 1


async def test_twelve_parallel_pays_of_an_invoice_are_one(
    api: httpx.AsyncClient, in_status: Run, sales: str
) -> None:
    invoice = await in_status("open")
    path = f"/v1/invoices/{invoice['id']}/pay"
    headers = [{"Idempotency-Key": f"key-{number}"} for number in range(12)]
    answers = await asyncio.gather(*(api.post(path, headers=each) for each in headers))
    assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 11}
    assert {refusal(a)[1] for a in answers if a.status_code == 409} == {"invoice_not_open"}
    assert (await api.get(f"/v1/accounts/{sales}")).json()["balance"] == 900
    assert len((await api.get("/v1/transactions")).json()["data"]) == 1


@pytest.mark.parametrize(
    ("made_of", "change"),
    [
        ({}, {"lines": None}),
        (
            {"amount": None, "lines": [{"description": "Beans", "quantity": 3, "unit_amount": 300}]},
            {"amount": None},
        ),
    ],
)
async def test_to_clear_what_is_clear_already_changes_nothing(
    api: httpx.AsyncClient, in_status: Run, made_of: dict[str, Any], change: dict[str, None]
) -> None:
    draft = await in_status(**made_of)
    answer = await api.patch(f"/v1/invoices/{draft['id']}", json=change)
    assert (answer.status_code, answer.json()) == (200, draft)
