"""The application for other ASGI servers; the contract's tests run on some (`--served-by`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_engine.cli.serve import settings_from_environment
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.settings import BadSettings
from ledger_engine.server import Ready, application
from ledger_engine.store.sqlite.lock import ServingLock
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


def test_a_demo_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGER_DEMO", "1")
    with pytest.raises(BadSettings, match="--demo is for `ledger-engine serve`"):
        application(settings_from_environment(), bool)
