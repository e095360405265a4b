"""Reads that take many steps: how many a project may have under way, and what they keep."""

from __future__ import annotations

from contextlib import AsyncExitStack

import httpx
import pytest

from ledger_engine.core.tenant import Tenant
from ledger_engine.http import operations
from ledger_engine.ledger import statements
from ledger_engine.limits import Semaphore
from ledger_engine.store.engine import Engine
from tests.contract.rules import holds

LONG = [
    "/v1/accounts/{till}/statement",
    "/v1/diff?from=2020-01-01&to=2020-01-02",
    "/v1/accounts?at=2020-01-01",
    "/v1/requests",
    "/v1/log/tile/0/000",
]


@pytest.fixture
def of_project(monkeypatch: pytest.MonkeyPatch, tenant: Tenant) -> Semaphore:
    """Return the semaphore of the project's long reads, of which it may have two."""
    monkeypatch.setattr(operations, "LONG_READS_OF_ONE_MAX", 2)
    return Semaphore(f"long_reads/{tenant.project}", 2)


@holds("rate-limits-long")
@pytest.mark.parametrize("path", LONG)
async def test_a_project_with_too_many_long_reads_is_told_to_wait(
    api: httpx.AsyncClient, engine: Engine, till: str, of_project: Semaphore, path: str
) -> None:
    semaphores = engine.shared_state.semaphores
    async with AsyncExitStack() as others:
        for _ in range(2):
            await others.enter_async_context(semaphores.hold(of_project))
        refused = await api.get(path.format(till=till))
        short = await api.get(f"/v1/accounts/{till}")
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
    assert refused.json()["error"] == "rate_limited"
    assert short.status_code == 200
    assert (await api.get(path.format(till=till))).status_code in (200, 404)


async def test_a_statement_gives_its_place_back_when_it_ends(
    api: httpx.AsyncClient,
    engine: Engine,
    till: str,
    of_project: Semaphore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(statements, "LINES_AT_ONCE", 2)
    for amount in (1, 2, 3):
        await api.post("/v1/transactions", json={"account": till, "amount": amount, "type": "credit"})
    for _ in range(3):
        lines = (await api.get(f"/v1/accounts/{till}/statement")).json()["lines"]
        assert [line["amount"] for line in lines] == [1, 2, 3]
        head = await api.head(f"/v1/accounts/{till}/statement")
        assert head.status_code == 200
    assert engine.shared_state.semaphores.acquired(of_project.name) == 0
