"""The request log over HTTP, and the transparency log: C2SP's paths and media types."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from ledger_engine.access import projects
from ledger_engine.core.tenant import Tenant
from ledger_engine.events.request_log import RequestRecorder
from ledger_engine.events.webhooks.signing import Seal
from ledger_engine.http.app import create_app
from ledger_engine.ledger import accounts
from ledger_engine.log.checkpoints import Checkpoint, Proof
from ledger_engine.log.sealer import Sealer
from ledger_engine.store import pages
from ledger_engine.store.engine import Engine
from tests.contract.conftest import refusal
from tests.contract.rules import holds
from tests.ledger_engine.conftest import MakeKey, Run
from tests.ledger_engine.in_process import client_of

# The request log


class Recorded:
    """An application whose requests are recorded, a client of it, and the log once it is written."""

    def __init__(self, engine: Engine, key: str) -> None:
        self._engine = engine
        self._recorder = RequestRecorder(engine)
        self.key = key
        self.client = self.client_with(key)

    def client_with(self, key: str | None) -> httpx.AsyncClient:
        return client_of(create_app(self._engine, recorder=self._recorder), key)

    async def write(self) -> None:
        """Write what was recorded."""
        self._recorder.start()
        await self._recorder.stop()

    async def account(self) -> str:
        """Return an account that a request makes."""
        made = await self.client.post("/v1/accounts", json={"name": "Till", "currency": "EUR"})
        return str(made.json()["id"])

    async def log(self, **filters: str) -> list[dict[str, Any]]:
        """Return the entries, newest first."""
        await self.write()
        answer = await self.client.get("/v1/requests", params=filters)
        assert answer.status_code == 200, answer.text
        entries: list[dict[str, Any]] = answer.json()["data"]
        return entries


@pytest.fixture
async def recorded(engine: Engine, make_key: MakeKey) -> AsyncIterator[Recorded]:
    made = Recorded(engine, await make_key())
    yield made
    await made.client.aclose()


async def test_the_events_of_a_request_are_listed(recorded: Recorded) -> None:
    account = await recorded.account()
    items = [{"account": account, "amount": amount, "type": "credit"} for amount in (1, 2, 3)]
    await recorded.client.post("/v1/transactions/batch", json={"transactions": items})
    batch, _account = await recorded.log()
    path = f"/v1/requests/{batch['id']}/events"
    first = (await recorded.client.get(path, params={"limit": "2"})).json()
    rest = (await recorded.client.get(path, params={"cursor": first["next_cursor"]})).json()
    events = first["data"] + rest["data"]
    assert [event["data"]["object"]["amount"] for event in events] == [3, 2, 1]
    assert {event["request"] for event in events} == {batch["id"]}
    assert (first["has_more"], rest["has_more"]) == (True, False)
    for cursor in ("evt_none", account):
        assert (await recorded.client.get(path, params={"cursor": cursor})).status_code == 400
    assert (await recorded.client.get("/v1/requests/req_none/events")).status_code == 404


async def test_bodies_are_for_those_who_may_read_everything(recorded: Recorded, api_with: Run) -> None:
    await recorded.client.post("/api/users", json={"name": "Ada", "email": "ada@example.com"})
    (entry,) = await recorded.log()
    assert "ada@example.com" in entry["request_body"]
    for scopes in (["read:projects"], ["read:projects", "read:users"], ["read:projects", "admin:billing"]):
        client = await api_with(scopes=scopes)
        listed = (await client.get("/v1/requests", params={"method": "POST"})).json()["data"]
        shown = (await client.get(f"/v1/requests/{entry['id']}")).json()
        for each in (*listed, shown):
            assert (each["path"], each["request_body"], each["response_body"]) == ("/api/users", None, None)
    everything = await api_with(role="owner", scopes=["read:projects", "read:users", "admin:billing"])
    shown = (await everything.get(f"/v1/requests/{entry['id']}")).json()
    assert shown["request_body"] == entry["request_body"]


async def test_refusals_are_logged_with_their_code(recorded: Recorded) -> None:
    refusals: list[tuple[str, str, dict[str, Any], int, str]] = [
        ("POST", "/v1/accounts", {"json": {"name": "Till"}}, 400, "missing_field"),
        ("GET", "/v1/accounts/acc_none", {}, 404, "not_found"),
        ("GET", "/v1/nowhere", {}, 404, "not_found"),
        ("PUT", "/v1/accounts", {}, 405, "method_not_allowed"),
        ("POST", "/api/users", {"json": {"name": "Ada"}}, 400, "missing_field"),
        ("GET", "/v1/accounts?limit=" + "9" * 9000, {}, 414, "uri_too_long"),
        ("POST", "/docs", {"content": b"x" * 2_000_000}, 413, "payload_too_large"),
        ("PUT", "/docs", {}, 405, "method_not_allowed"),
    ]
    for method, path, sent, *_ in refusals:
        await recorded.client.request(method, path, **sent)
    logged = [(entry["method"], entry["status"], entry["error_code"]) for entry in await recorded.log()]
    assert logged[::-1] == [(method, status, code) for method, _, _, status, code in refusals]


async def test_the_code_of_an_error_longer_than_what_is_kept_is_logged(recorded: Recorded) -> None:
    batch = {"transactions": [{"account": await recorded.account(), "amount": 1, "type": "credit"}] * 1000}
    for _ in range(2):
        answer = await recorded.client.post(
            "/v1/transactions/batch", json=batch, headers={"Idempotency-Key": "b"}
        )
    assert answer.status_code == 409
    (entry,) = await recorded.log(status="409")
    assert entry["error_code"] == "duplicate_idempotency_key"


async def test_a_request_over_the_rate_is_logged(engine: Engine, make_key: MakeKey) -> None:
    new = projects.NewProject("Stall", "enterprise", rate_limit=2, burst=100)
    project = await engine.write(lambda unit: projects.create(unit, new))
    limited = Recorded(engine, await make_key(of=project.id))
    statuses = [(await limited.client.get("/v1/accounts")).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    await limited.write()
    await limited.client.aclose()
    rows = await engine.read(lambda unit: unit.execute("SELECT status, error_code FROM requests ORDER BY id"))
    assert [(row["status"], row["error_code"]) for row in rows] == [
        (200, None),
        (200, None),
        (429, "rate_limited"),
    ]


async def test_a_search_looks_at_so_many_entries_for_a_page_and_then_goes_on(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "LOOKED_AT_MAX", 4)
    for number in range(11):
        await recorded.client.get("/v1/accounts" if number % 5 == 0 else "/v1/whoami")
    everything = [entry["id"] for entry in await recorded.log()]
    wanted: list[str] = []
    looked_at: list[tuple[int, str | None]] = []
    query = {"path": "/v1/accounts", "limit": "1"}
    while True:
        page = (await recorded.client.get("/v1/requests", params=query)).json()
        wanted += [entry["id"] for entry in page["data"]]
        looked_at.append((len(page["data"]), page["next_cursor"]))
        assert page["has_more"] == (page["next_cursor"] is not None)
        if not page["has_more"]:
            break
        query["cursor"] = page["next_cursor"]
    assert wanted == [everything[0], everything[5], everything[10]]
    assert looked_at == [(1, everything[3]), (1, everything[7]), (1, None)]
    assert [entry["id"] for entry in await recorded.log(status="404")] == []


async def test_a_path_finds_itself_and_what_is_below_it_and_a_status_is_one(recorded: Recorded) -> None:
    for path in ("/v1/accounts", "/v1/accounts/acc_1", "/v1/accounts/acc_1/statement", "/v1/accounts2"):
        await recorded.client.get(path)
    await recorded.client.get("/v1/acc%unts")

    async def paths(path: str) -> list[str]:
        return [entry["path"] for entry in await recorded.log(path=path)]

    below = ["/v1/accounts/acc_1/statement", "/v1/accounts/acc_1"]
    assert await paths("/v1/accounts") == [*below, "/v1/accounts"]
    assert await paths("/v1/accounts/") == below
    assert await paths("/v1/accounts/acc_1") == below
    assert await paths("/v1/acc") == []
    assert await paths("/v1/acc%") == []
    assert len(await paths("/")) == 5
    for status in ("99", "two"):
        answer = await recorded.client.get("/v1/requests", params={"status": status})
        assert refusal(answer) == (400, "invalid_value", "status")


async def test_without_a_good_credential_nothing_is_logged(recorded: Recorded) -> None:
    """There is no project whose log it would be."""
    async with recorded.client_with(None) as nobody, recorded.client_with("sk_test_" + "x" * 32) as wrong:
        assert (await nobody.get("/v1/accounts")).status_code == 401
        assert (await wrong.get("/v1/accounts")).status_code == 401
        assert (await nobody.get("/api/health")).status_code == 200
    assert await recorded.log() == []


async def test_a_failure_of_ours_is_logged_as_a_500(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(accounts, "page", fail)
    assert (await recorded.client.get("/v1/accounts")).status_code == 500
    (entry,) = await recorded.log()
    assert (entry["status"], entry["error_code"]) == (500, "internal_error")


# The transparency log


TEXT = "text/plain; charset=utf-8"


@pytest.fixture
async def transaction(api: httpx.AsyncClient, till: str) -> str:
    body = {"account": till, "amount": 5, "type": "credit"}
    return str((await api.post("/v1/transactions", json=body)).json()["id"])


@holds("proof-paths")
async def test_a_checkpoint_and_proofs_are_text_that_nobody_keeps(
    api: httpx.AsyncClient, engine: Engine, tenant: Tenant, transaction: str
) -> None:
    await Sealer(engine, Seal(None), "ledger.example").seal()
    answer = await api.get("/v1/log/checkpoint")
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, TEXT)
    assert answer.headers["Cache-Control"] == "no-store"
    checkpoint = Checkpoint.parse(answer.text)
    assert (checkpoint.origin, checkpoint.size) == (f"ledger.example/{tenant.project}/test", 2)
    events = (await api.get("/v1/events", params={"object": transaction})).json()["data"]
    for path in (f"/v1/transactions/{transaction}/proof", f"/v1/events/{events[0]['id']}/proof"):
        answer = await api.get(path)
        assert (answer.status_code, answer.headers["Content-Type"]) == (200, TEXT)
        proof = Proof.parse(answer.text)
        assert (proof.index, str(proof.checkpoint.note)) == (1, str(checkpoint.note))


async def test_tiles_are_bytes_that_never_change(
    api: httpx.AsyncClient, engine: Engine, transaction: str
) -> None:
    await Sealer(engine, Seal(None)).seal()
    answer = await api.get("/v1/log/tile/0/000.p/2")
    assert (len(answer.content), answer.headers["Content-Type"]) == (64, "application/octet-stream")
    assert answer.headers["Cache-Control"] == "private, max-age=31536000, immutable"
    assert transaction.encode() in (await api.get("/v1/log/tile/entries/000.p/2")).content
    for missing in ("0/000", "0/0", "entries/000.p/3", "1/000", "x"):
        answer = await api.get(f"/v1/log/tile/{missing}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
