"""docs/decisions.md#events-recorded: what is recorded of each change."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from ledger_engine.events.outbox import body_of
from ledger_engine.store.engine import open_snapshot
from tests.contract.conftest import Project, Server
from tests.contract.rules import holds
from tests.stored_events import EVERY_EVENT


class Outbox:
    """The messages recorded for one project, as anybody finds them in the database."""

    def __init__(self, server: Server, project: Project) -> None:
        self._database = server.database
        self._project = project.id

    def messages(self) -> list[Any]:
        with open_snapshot(self._database, 1) as snapshot:
            rows = snapshot.start(lambda unit: unit.execute(EVERY_EVENT)).result()
        return [json.loads(body_of(row)) for row in rows if row["project"] == self._project]


@pytest.fixture
def outbox(server: Server, project: Project) -> Outbox:
    return Outbox(server, project)


@holds("events-recorded")
def test_each_change_records_its_event_with_the_object_as_it_was(api: httpx.Client, outbox: Outbox) -> None:
    expected: list[tuple[str, Any]] = []

    def do(kind: str, method: str, path: str, body: Any = None) -> Any:
        answer = api.request(method, path, json=body)
        assert answer.is_success, answer.text
        expected.append((kind, answer.json()))
        return answer.json()

    account = do("account.created", "POST", "/v1/accounts", {"name": "Till", "currency": "EUR"})["id"]
    posting = {"account": account, "amount": 1, "type": "credit"}
    do("transaction.created", "POST", "/v1/transactions", posting)
    invoice = {"account": account, "customer": "C", "amount": 5}
    path = f"/v1/invoices/{do('invoice.created', 'POST', '/v1/invoices', invoice)['id']}"
    do("invoice.updated", "PATCH", path, {"customer": "D"})
    do("invoice.opened", "POST", path + "/finalize")
    other = f"/v1/invoices/{do('invoice.created', 'POST', '/v1/invoices', invoice)['id']}"
    do("invoice.opened", "POST", other + "/finalize")
    do("invoice.voided", "DELETE", other)
    user = do("user.created", "POST", "/api/users", {"name": "Ada", "email": "ada@example.com"})["id"]
    placed = do("order.created", "POST", "/api/orders", {"user_id": user, "items": [{}]})
    do("order.paid", "POST", f"/api/orders/{placed['id']}/pay")
    do("order.shipped", "POST", f"/api/orders/{placed['id']}/ship")
    do("user.deactivated", "DELETE", f"/api/users/{user}")
    do("user.restored", "POST", f"/api/users/{user}/restore")
    messages = outbox.messages()
    assert [(message["type"], message["data"]["object"]) for message in messages] == expected
    for message in messages:
        assert list(message) == ["id", "object", "type", "created", "livemode", "data"]
        assert message["id"].startswith("evt_")
        assert (message["object"], message["livemode"]) == ("event", False)


@holds("events-recorded", "invoices-pay")
def test_a_payment_records_the_transaction_and_the_invoice(api: httpx.Client, outbox: Outbox) -> None:
    account = api.post("/v1/accounts", json={"name": "Till", "currency": "EUR"}).json()["id"]
    invoice = api.post("/v1/invoices", json={"account": account, "customer": "C", "amount": 5}).json()["id"]
    api.post(f"/v1/invoices/{invoice}/finalize")
    paid = api.post(f"/v1/invoices/{invoice}/pay").json()
    sent = {message["type"]: message["data"]["object"] for message in outbox.messages()[-2:]}
    assert set(sent) == {"transaction.created", "invoice.paid"}
    assert sent["invoice.paid"] == paid
    assert sent["transaction.created"]["id"] == paid["transaction"]


@holds("events-recorded", "invoices-patch", "directory-deactivate-twice")
def test_a_request_that_changes_nothing_or_fails_records_no_event(api: httpx.Client, outbox: Outbox) -> None:
    account = api.post("/v1/accounts", json={"name": "Till", "currency": "EUR"}).json()["id"]
    invoice = api.post("/v1/invoices", json={"account": account, "customer": "C", "amount": 5}).json()["id"]
    user = api.post("/api/users", json={"name": "Ada", "email": "ada@example.com"}).json()["id"]
    api.delete(f"/api/users/{user}")
    recorded = outbox.messages()
    assert api.patch(f"/v1/invoices/{invoice}", json={}).status_code == 200
    assert api.delete(f"/api/users/{user}").status_code == 200
    assert api.post("/v1/accounts", json={"name": "Till"}).status_code == 400
    assert api.delete(f"/v1/invoices/{invoice}").status_code == 409
    posting = {"account": account, "amount": 1, "type": "credit"}
    api.post("/v1/transactions/batch", json={"transactions": [posting, {**posting, "amount": 0}]})
    assert outbox.messages() == recorded
