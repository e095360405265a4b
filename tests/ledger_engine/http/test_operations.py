"""What is declared of a route is done for it."""

from __future__ import annotations

from dataclasses import fields

import httpx
import pytest

from ledger_engine.access import credentials
from ledger_engine.events import outbox
from ledger_engine.http.operations import Operation
from ledger_engine.store import Work
from ledger_engine.store.engine import Engine
from ledger_engine.store.threaded import ReadingThreads
from tests.ledger_engine.exercises import OPERATIONS

SECRETS = {"access_token", "refresh_token", "secret", "key", "api_key"}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_an_answer_with_a_secret_is_declared_as_one(operation: Operation) -> None:
    shown = fields(operation.answer) if operation.answer is not None else ()
    assert operation.secret == bool({field.name for field in shown} & SECRETS)


async def test_only_what_reads_a_few_rows_by_an_index_is_short(
    api: httpx.AsyncClient, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []

    def note(_: object, work: Work[object]) -> None:
        if getattr(work, "func", None) not in (outbox.newest_event, credentials.find):  # for every operation
            found.append(path)

    readers: type[ReadingThreads] = type(engine._database._readers)  # type: ignore[attr-defined]
    monkeypatch.setattr(readers, "run_at_once", note)
    made = await api.post("/v1/accounts", json={"name": "Till", "currency": "EUR"})
    account = f"/v1/accounts/{made.json()['id']}"
    short = [account, f"{account}/balance", "/v1/accounts", "/v1/transactions?limit=100"]
    others = [
        f"{account}/balance?at=2026-11-20T00:00:00Z",
        f"{account}/statement?from=2026-11-20T00:00:00Z&to=2026-11-21T00:00:00Z",
        "/v1/accounts?limit=21",
        "/v1/events",
        "/v1/requests?status=400",
        "/api/users",
    ]
    for path in (*short, *others):
        answer = await api.get(path)
        assert answer.status_code == 200, answer.text
    assert found == short
