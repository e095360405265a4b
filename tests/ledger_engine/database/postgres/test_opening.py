"""What is said when a PostgreSQL database cannot be opened."""

from __future__ import annotations

import importlib.util

import pytest

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.settings import BadSettings, ServeSettings, named
from ledger_engine.database.engine import open_engine, open_snapshot

NOWHERE = "postgresql://ledger:secret@127.0.0.1:1/ledger"


def test_a_missing_driver_is_told_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for opened in (lambda: open_engine(NOWHERE), lambda: open_snapshot(NOWHERE, 1)):
        with pytest.raises(StorageUnavailable, match=r"pip install 'ledger-engine\[postgres\]'"):
            opened()


def test_a_server_that_is_not_there_is_named_without_the_password() -> None:
    with pytest.raises(StorageUnavailable, match="Connection refused") as refused:
        open_engine(NOWHERE)
    assert "secret" not in refused.value.message
    assert named(NOWHERE) == "postgresql://ledger@127.0.0.1:1/ledger"
    assert named("postgresql:///ledger?password=secret&host=/tmp") == "postgresql:///ledger?host=/tmp"


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"workers": 2}, "start several servers"), ({"test_helpers": True}, "--test-helpers works on a SQLite")],
)
def test_what_needs_a_file_is_refused(settings: dict[str, int], message: str) -> None:
    with pytest.raises(BadSettings, match=message):
        ServeSettings(NOWHERE, **settings).check()  # type: ignore[arg-type]
