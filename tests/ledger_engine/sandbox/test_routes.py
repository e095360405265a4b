"""The test helpers over HTTP: documented where they are, and nowhere else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from quart import Quart

from ledger_engine.events import outbox
from ledger_engine.http.openapi.texts import EXAMPLES
from ledger_engine.sandbox.routes import routes
from tests import auditing
from tests.contract.documented import Documented
from tests.helped_server import ROOT, HelpedServer, Owned
from tests.ledger_engine.conftest import MakeKey
from tests.ledger_engine.in_process import client_of


async def test_a_server_without_them_answers_as_to_any_unknown_path(app: Quart, make_key: MakeKey) -> None:
    async with client_of(app, await make_key(role="owner")) as api:
        for operation in routes.operations:
            ours = await api.request(operation.method, operation.path)
            unknown = await api.request(operation.method, "/v1/nothing")
            assert ours.status_code == 404
            assert ours.json()["error"]["type"] == unknown.json()["error"]["type"]
        paths = (await api.get("/openapi.json")).json()["paths"]
    assert not [path for path in paths if path.startswith(ROOT)]


@pytest.mark.slow
def test_each_helper_answers_as_the_document_says(server: HelpedServer, own: Owned) -> None:
    documented = Documented(server.client().get("/openapi.json").json())
    own.api.event_hooks = {"response": [documented.check]}

    def do(method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        answer = own.api.request(method, f"{ROOT}/{path}", json=body)
        assert answer.is_success, answer.text
        return answer.json()

    do("GET", "clock")
    do("POST", "clock", EXAMPLES["bodies"]["SetClock"])
    do("POST", "snapshots", EXAMPLES["bodies"]["TakeSnapshot"])
    do("GET", "snapshots")
    do("POST", "events", EXAMPLES["bodies"]["TriggerEvent"])
    do("POST", "snapshots/before-payment/restore")
    do("DELETE", "snapshots/before-payment")
    fault = do("POST", "faults", EXAMPLES["bodies"]["SetFault"])
    do("GET", "faults")
    do("DELETE", f"faults/{fault['id']}")
    do("DELETE", "faults")
    do("POST", "reset")
    assert {operation.name for operation in routes.operations} <= documented.seen


@pytest.mark.parametrize("type", outbox.KINDS)
def test_an_event_truly_happens(server: HelpedServer, own: Owned, type: str) -> None:
    made = own.helper("events", type=type)
    assert made["event"]["type"] == type
    assert own.api.get(f"/v1/events/{made['event']['id']}").json() == made["event"]
    about = made["event"]["data"]["object"]
    if type != "account.created":
        assert about["object"] == type.partition(".")[0]
    assert about in made["objects"]
    for each in made["objects"]:
        surface = "/api" if each["object"] in ("user", "order") else "/v1"
        assert own.api.get(f"{surface}/{each['object']}s/{each['id']}").json() == each
    assert server.wait(server.engine.read(auditing.verify)).fault is None


def test_an_event_happens_again_but_not_with_the_same_key(own: Owned) -> None:
    again = [own.helper("events", type="user.created")["event"]["id"] for _ in range(2)]
    assert len(set(again)) == 2
    with_key = [
        own.api.post(f"{ROOT}/events", json={"type": "user.created"}, headers={"Idempotency-Key": "one"})
        for _ in range(2)
    ]
    assert [each.status_code for each in with_key] == [200, 409]
    assert own.api.get("/api/users").json()["total"] == 3
    unknown = own.api.post(f"{ROOT}/events", json={"type": "invoice.eaten"})
    assert (unknown.status_code, unknown.json()["error"]["param"]) == (400, "type")


@pytest.mark.parametrize("path", ["clock", "faults", "snapshots"])
def test_a_key_is_taken_once(own: Owned, path: str) -> None:
    bodies = {
        "clock": {"advance": 1},
        "faults": {"action": {"status": 500}, "match": {"path": "/v1/x"}},
        "snapshots": {"name": "keyed"},
    }
    content = json.dumps(bodies[path])
    first, second = (
        own.api.post(f"{ROOT}/{path}", content=content, headers={"Idempotency-Key": "k"}) for _ in range(2)
    )
    assert first.is_success
    assert second.status_code == 409


def test_a_restricted_key_of_an_owner_only_reads(server: HelpedServer, own: Owned) -> None:
    made = own.made("/v1/api_keys", role="owner", scopes=["read:projects"])
    reader = server.client(made["key"])
    assert reader.get(f"{ROOT}/clock").status_code == 200
    refused = reader.post(f"{ROOT}/reset")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "missing_scope")
