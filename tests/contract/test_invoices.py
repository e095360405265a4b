"""docs/interface.md#invoice, #states-and-transitions; docs/decisions.md#invoices."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import httpx
import pytest

from tests.contract.conftest import ids_of, open_account, refusal, without_missing
from tests.contract.rules import holds

LINE = {"description": "Beans", "quantity": 3, "unit_amount": 1500}


def draft(api: httpx.Client, account: str, **fields: Any) -> Any:
    body = {"account": account, "customer": "Café Nord", "amount": 4500, **fields}
    answer = api.post("/v1/invoices", json=without_missing(body))
    assert answer.status_code == 201, answer.text
    return answer.json()


def opened(api: httpx.Client, account: str) -> Any:
    return api.post(f"/v1/invoices/{draft(api, account)['id']}/finalize").json()


@holds("post-invoices", "invoices-create", "invoices-record", "invoice-states")
def test_a_created_invoice_is_a_draft_with_these_fields(api: httpx.Client, account: str) -> None:
    invoice = draft(api, account, amount=..., lines=[LINE], due_date="2026-12-20", metadata={"po": "7"})
    assert invoice.pop("id").startswith("inv_")
    assert invoice.pop("created").endswith("Z")
    assert invoice == {
        "object": "invoice",
        "account": account,
        "customer": "Café Nord",
        "currency": "EUR",
        "amount": 4500,
        "lines": [LINE],
        "due_date": "2026-12-20",
        "description": None,
        "metadata": {"po": "7"},
        "status": "draft",
        "number": None,
        "transaction": None,
        "opened_at": None,
        "paid_at": None,
        "voided_at": None,
        "livemode": False,
    }


@holds("invoices-create")
@pytest.mark.parametrize(
    ("fields", "status", "code", "param"),
    [
        ({"account": ...}, 400, "missing_field", "account"),
        ({"customer": ...}, 400, "missing_field", "customer"),
        ({"account": None}, 400, "invalid_value", "account"),
        ({"customer": None}, 400, "invalid_value", "customer"),
        ({"customer": ""}, 400, "invalid_value", "customer"),
        ({"customer": "c" * 256}, 400, "invalid_value", "customer"),
        ({"account": "acc_none"}, 404, "not_found", "account"),
        ({"amount": 0}, 400, "invalid_value", "amount"),
        ({"amount": 1.0}, 400, "invalid_value", "amount"),
        ({"amount": True}, 400, "invalid_value", "amount"),
        ({"amount": 2**53}, 400, "invalid_value", "amount"),
        ({"lines": [LINE]}, 400, "invalid_value", "lines"),
        ({"amount": ..., "lines": []}, 400, "invalid_value", "lines"),
        ({"amount": ..., "lines": [LINE] * 101}, 400, "invalid_value", "lines"),
        ({"amount": ..., "lines": [LINE, {**LINE, "quantity": 0}]}, 400, "invalid_value", "lines.1.quantity"),
        (
            {"amount": ..., "lines": [{**LINE, "unit_amount": -1}]},
            400,
            "invalid_value",
            "lines.0.unit_amount",
        ),
        ({"amount": ..., "lines": [{**LINE, "unit_amount": 0}]}, 400, "invalid_value", "lines"),
        ({"amount": ..., "lines": [{**LINE, "quantity": 1.5}]}, 400, "invalid_value", "lines.0.quantity"),
        ({"amount": ..., "lines": [{**LINE, "tax": 1}]}, 400, "unknown_field", "lines.0.tax"),
        ({"amount": ..., "lines": [{"quantity": 1}]}, 400, "missing_field", "lines.0.description"),
        ({"amount": ..., "lines": ["Beans"]}, 400, "invalid_value", "lines.0"),
        ({"due_date": "2026-02-30"}, 400, "invalid_value", "due_date"),
        ({"due_date": 20260230}, 400, "invalid_value", "due_date"),
        ({"due_date": "2026-12-20T00:00:00Z"}, 400, "invalid_value", "due_date"),
        ({"description": "d" * 501}, 400, "invalid_value", "description"),
        ({"metadata": {str(number): "v" for number in range(21)}}, 400, "invalid_value", "metadata"),
        ({"metadata": {"a": 1}}, 400, "invalid_value", "metadata.a"),
        *[
            ({field: "x"}, 400, "unknown_field", field)
            for field in ("currency", "status", "number", "transaction", "livemode", "project")
        ],
    ],
)
def test_another_invoice_is_refused_to_create_and_to_change_to(
    api: httpx.Client, account: str, fields: dict[str, Any], status: int, code: str, param: str
) -> None:
    sent = without_missing({"account": account, "customer": "Café Nord", "amount": 4500, **fields})
    assert refusal(api.post("/v1/invoices", json=sent)) == (status, code, param)
    assert api.get("/v1/invoices").json()["data"] == []
    if code == "missing_field" and "." not in param:  # a change may leave it out
        return
    invoice = draft(api, account, amount=..., lines=[LINE])
    if "lines" in fields and ... in fields.values():
        sent["amount"] = None
    assert refusal(api.patch(f"/v1/invoices/{invoice['id']}", json=sent)) == (status, code, param)
    assert api.get("/v1/invoices").json()["data"] == [invoice]


@holds("invoices-create", "invoices-patch")
def test_an_invoice_has_an_amount_or_lines(api: httpx.Client, account: str) -> None:
    answer = api.post("/v1/invoices", json={"account": account, "customer": "Café Nord"})
    assert refusal(answer) == (400, "missing_field", "amount")
    path = f"/v1/invoices/{draft(api, account)['id']}"
    for change in ({"amount": None}, {"amount": None, "lines": None}):
        assert refusal(api.patch(path, json=change)) == (400, "missing_field", "amount")


@holds("invoices-create")
def test_null_is_as_if_it_were_left_out(api: httpx.Client, account: str) -> None:
    made = draft(api, account, lines=None, due_date=None, description=None, metadata=None)
    assert (made["lines"], made["due_date"], made["description"], made["metadata"]) == (None, None, None, {})


@holds("invoices-patch")
def test_null_clears_and_metadata_is_replaced_and_nothing_changes_nothing(
    api: httpx.Client, account: str
) -> None:
    invoice = draft(
        api, account, description="November", due_date="2026-12-20", metadata={"po": "7", "x": "y"}
    )
    path = f"/v1/invoices/{invoice['id']}"
    assert api.patch(path, json={}).json() == invoice
    dollars = open_account(api, "USD")
    for change, effect in [
        ({"description": None, "due_date": None, "metadata": {"po": "8"}}, {}),
        ({"metadata": None}, {"metadata": {}}),
        ({"lines": None}, {}),
        ({"account": dollars}, {"currency": "USD"}),
    ]:
        invoice = {**invoice, **change, **effect}
        answer = api.patch(path, json=change)
        assert (answer.status_code, answer.json()) == (200, invoice)
    assert api.get(path).json() == invoice


@holds("invoices-patch", "invoices-create")
def test_amount_and_lines_take_each_others_place(api: httpx.Client, account: str) -> None:
    path = f"/v1/invoices/{draft(api, account)['id']}"
    for change, amount, lines in [
        ({"amount": None, "lines": [LINE, LINE]}, 9000, [LINE, LINE]),
        ({"amount": None}, 9000, [LINE, LINE]),
        ({"amount": 7}, 7, None),
        ({"lines": [LINE]}, 4500, [LINE]),
    ]:
        changed = api.patch(path, json=change).json()
        assert (changed["amount"], changed["lines"]) == (amount, lines)


@holds("invoice-patch-draft-only", "invoices-final")
@pytest.mark.parametrize("state", ["open", "paid", "void"])
def test_only_a_draft_can_be_changed(api: httpx.Client, account: str, state: str) -> None:
    invoice = opened(api, account)
    path = f"/v1/invoices/{invoice['id']}"
    if state == "paid":
        api.post(path + "/pay")
    if state == "void":
        api.delete(path)
    assert refusal(api.post(path + "/finalize")) == (409, "invoice_not_draft", None)
    assert refusal(api.patch(path, json={"customer": "Café Süd"})) == (409, "invoice_not_draft", None)
    assert api.get(path).json()["customer"] == "Café Nord"


@holds("invoices-finalize", "invoices-number", "invoice-states")
def test_finalizing_opens_a_draft_and_numbers_it(api: httpx.Client, account: str) -> None:
    drafts = [draft(api, account) for _ in range(3)]
    numbers = []
    for invoice in reversed(drafts):
        answer = api.post(f"/v1/invoices/{invoice['id']}/finalize")
        assert answer.status_code == 200
        assert answer.json()["status"] == "open"
        assert answer.json()["opened_at"].endswith("Z")
        numbers.append(answer.json()["number"])
    assert numbers == ["INV-000001", "INV-000002", "INV-000003"]
    again = api.post(f"/v1/invoices/{drafts[0]['id']}/finalize")
    assert refusal(again) == (409, "invoice_not_draft", None)
    assert api.post(f"/v1/invoices/{draft(api, account)['id']}/finalize").json()["number"] == "INV-000004"


@holds("invoices-pay", "invoice-states")
def test_paying_an_open_invoice_credits_its_account(api: httpx.Client, account: str) -> None:
    invoice = opened(api, account)
    paid = api.post(f"/v1/invoices/{invoice['id']}/pay")
    assert (paid.status_code, paid.json()["status"]) == (200, "paid")
    assert paid.json()["paid_at"].endswith("Z")
    assert api.get(f"/v1/invoices/{invoice['id']}").json() == paid.json()
    payment = api.get(f"/v1/transactions/{paid.json()['transaction']}").json()
    assert (payment["account"], payment["amount"], payment["type"]) == (account, 4500, "credit")
    assert api.get(f"/v1/accounts/{account}").json()["balance"] == 4500


@holds("invoices-pay-race")
def test_twelve_pays_at_once_pay_once(api: httpx.Client, account: str) -> None:
    path = f"/v1/invoices/{opened(api, account)['id']}/pay"

    def pay(number: int) -> httpx.Response:
        return api.post(path, headers={"Idempotency-Key": f"key-{number}"})

    with ThreadPoolExecutor(12) as callers:
        answers = [*callers.map(pay, range(12))]
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 11
    assert {refusal(each)[1] for each in answers if each.status_code == 409} == {"invoice_not_open"}
    assert api.get(f"/v1/accounts/{account}").json()["balance"] == 4500
    assert len(api.get("/v1/transactions").json()["data"]) == 1


@holds("invoices-final", "errors-409")
def test_only_an_open_invoice_can_be_voided_or_paid(api: httpx.Client, account: str) -> None:
    paid, void = opened(api, account), opened(api, account)
    api.post(f"/v1/invoices/{paid['id']}/pay")
    api.delete(f"/v1/invoices/{void['id']}")
    for invoice in (draft(api, account), paid, void):
        path = f"/v1/invoices/{invoice['id']}"
        before = api.get(path).json()
        assert refusal(api.delete(path)) == (409, "invoice_not_open", None)
        assert refusal(api.post(path + "/pay")) == (409, "invoice_not_open", None)
        assert api.get(path).json() == before


@holds("invoices-list")
def test_invoices_are_listed_by_status_and_account(api: httpx.Client, account: str) -> None:
    other = open_account(api)
    first, second, third = draft(api, account), opened(api, account), draft(api, other)

    found = partial(ids_of, api, "/v1/invoices")
    assert found() == [third["id"], second["id"], first["id"]]
    assert found(status="draft") == [third["id"], first["id"]]
    assert found(status="draft", account=account) == [first["id"]]
    assert found(status="void") == []
    assert api.get("/v1/invoices", params={"status": "late"}).status_code == 400
