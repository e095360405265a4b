"""The application for other ASGI servers; the contract's tests run on some (`--served-by`)."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from ledger_engine.cli.serve import settings_from_environment
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.settings import BadSettings
from ledger_engine.server import Ready, application
from ledger_engine.store.sqlite.lock import ServingLock
from tests.ledger_engine.waiting import PATIENCE_S
from tests.made_once import put_empty_ledger

pytestmark = pytest.mark.sqlite


async def test_its_lifespan_opens_and_closes_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = put_empty_ledger(tmp_path / "ledger.db")
    monkeypatch.setenv("LEDGER_DATABASE", str(database))
    monkeypatch.setenv("LEDGER_HOST", "0.0.0.0")  # the other server's own, so that it needs no TLS here
    announced: list[Ready] = []

    def announce(ready: Ready) -> bool:
        announced.append(ready)
        return True

    app = application(settings_from_environment(), announce)
    async with app.test_app() as running:
        with pytest.raises(StorageUnavailable, match="is served by another process"):
            ServingLock(database)
        (ready,) = announced
        headers = {"Authorization": f"Bearer {ready.key}"}
        answer = await running.test_client().get("/v1/accounts", headers=headers)
        assert (answer.status_code, ready.url) == (200, None)
    ServingLock(database).release()


@pytest.mark.process
def test_a_server_without_lifespan_events_answers_503_and_logs_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        words = ("--fd", str(listener.fileno()), "--lifespan", "off", "--log-level", "warning")
        database = tmp_path / "ledger.db"
        process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", *words, "ledger_engine.asgi:app"],
            env={**os.environ, "LEDGER_DATABASE": str(database)},
            pass_fds=[listener.fileno()],
            stderr=subprocess.PIPE,
            text=True,
        )
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with httpx.Client(base_url=url, trust_env=False, timeout=PATIENCE_S) as client:
            account = client.post("/v1/accounts", json={"name": "Till"})
            health = client.get("/api/health")
        process.terminate()
        _, said = process.communicate(timeout=PATIENCE_S)
    message = (
        "The storage is not available: this ASGI server does not send the lifespan events that open the"
        " ledger. Nothing was changed."
    )
    error = {"type": "api_error", "code": "storage_unavailable", "message": message, "param": None}
    assert (account.status_code, account.json()) == (503, {"error": error})
    assert (health.status_code, health.json()) == (503, {"error": error["code"], "message": message})
    (line,) = [line for line in said.splitlines() if "lifespan" in line]
    assert line.endswith(
        "ERROR ledger_engine.server: this ASGI server does not send the lifespan events that open the ledger:"
        " turn them on, or run `ledger-engine serve`"
    )
    assert not database.exists()


def test_a_demo_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGER_DEMO", "1")
    with pytest.raises(BadSettings, match="--demo is for `ledger-engine serve`"):
        application(settings_from_environment(), bool)
