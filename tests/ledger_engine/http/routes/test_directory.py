"""GET /api/health (docs/interface.md#directory; docs/decisions.md#directory)."""

from __future__ import annotations

import resource
from pathlib import Path

import httpx
import pytest

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.store.engine import Engine
from tests.ledger_engine.waiting import looked_until


@pytest.mark.sqlite
async def test_lost_storage_is_reported_until_it_is_back(
    anyone: httpx.AsyncClient, engine: Engine, tmp_path: Path
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = (tmp_path / "ledger.db-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        refused = await anyone.post("/v1/accounts", json={})
        assert refused.status_code == 401
        assert (await anyone.get("/api/health")).status_code == 200  # nobody has tried to write
        answer = await anyone.get("/api/health/ready")
        assert (answer.status_code, answer.json()["ok"]) == (503, False)
        assert answer.json()["error"] == "storage_unavailable"
        with pytest.raises(Exception, match="not available"):
            await engine.write(lambda unit: unit.execute("CREATE TABLE more (text TEXT)"))
        for _ in range(3):
            answer = await anyone.get("/api/health")
            told = {name: answer.json()[name] for name in ("ok", "error", "version")}
            assert told == {"ok": False, "error": "storage_unavailable", "version": "1.4.2"}
            assert answer.status_code == 503
            assert "X-RateLimit-Reset" in answer.headers
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    # Nobody writes in between: asking is enough to find out that all is well again.
    assert (await anyone.get("/api/health")).status_code == 200
    await looked_until(lambda: anyone.get("/api/health/ready"), lambda answer: answer.status_code == 200)


async def test_a_server_is_ready_while_a_commit_succeeds_which_is_tried_once_a_second(
    anyone: httpx.AsyncClient, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger_engine.store.engine.WRITE_TRIED_EVERY_S", 1000)
    commits: list[int] = []
    engine.observe_commits(lambda works, _: commits.append(works))
    for _ in range(5):
        answer = await anyone.get("/api/health/ready")
        assert (answer.status_code, answer.json()) == (200, {"ok": True})
    assert commits == [1]


async def test_a_closed_engine_is_not_healthy(anyone: httpx.AsyncClient, engine: Engine) -> None:
    await engine.close()
    answer = await anyone.get("/api/health")
    assert (answer.status_code, answer.json()["ok"]) == (503, False)


@pytest.mark.parametrize(("path", "check"), [("", "check"), ("/ready", "check_writable")])
async def test_the_health_of_a_full_disk_speaks_of_no_change_that_was_asked_for(
    anyone: httpx.AsyncClient, engine: Engine, monkeypatch: pytest.MonkeyPatch, path: str, check: str
) -> None:
    async def fail() -> None:
        raise StorageUnavailable("the disk is full", unknown=True)

    monkeypatch.setattr(engine, check, fail)
    answer = await anyone.get(f"/api/health{path}")
    assert answer.status_code == 503
    assert "the disk is full" in answer.json()["message"]
    assert "not known" not in answer.json()["message"]
