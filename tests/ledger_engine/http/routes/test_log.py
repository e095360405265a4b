"""The log over HTTP: C2SP's paths and media types, for whoever has a key of the book."""

from __future__ import annotations

import httpx
import pytest

from ledger_engine.core.tenant import Tenant
from ledger_engine.events.webhooks.sealing import Seal
from ledger_engine.log.checkpoints import Checkpoint, Proof
from ledger_engine.log.sealer import Sealer
from ledger_engine.store.engine import Engine
from tests.contract.rules import holds
from tests.ledger_engine.conftest import Run

TEXT = "text/plain; charset=utf-8"


@pytest.fixture
async def transaction(api: httpx.AsyncClient) -> str:
    account = (await api.post("/v1/accounts", json={"name": "Till", "currency": "EUR"})).json()["id"]
    body = {"account": account, "amount": 5, "type": "credit"}
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


async def test_before_it_is_sealed_it_is_409(api: httpx.AsyncClient, transaction: str) -> None:
    for path in ("/v1/log/checkpoint", f"/v1/transactions/{transaction}/proof"):
        answer = await api.get(path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "not_sealed_yet")


async def test_what_is_not_there_is_404(
    api: httpx.AsyncClient, api_with: Run, stranger: Tenant, engine: Engine, transaction: str
) -> None:
    stranger_api = await api_with(livemode=stranger.livemode, of=stranger.project)
    await Sealer(engine, Seal(None)).seal()
    account = (await api.get("/v1/accounts")).json()["data"][0]["id"]
    for id in ("txn_none", account, "evt_none"):
        assert (await api.get(f"/v1/transactions/{id}/proof")).status_code == 404
    assert (await api.get("/v1/events/evt_none/proof")).status_code == 404
    assert (await stranger_api.get(f"/v1/transactions/{transaction}/proof")).status_code == 404
    assert (await stranger_api.get("/v1/log/checkpoint")).status_code == 409
