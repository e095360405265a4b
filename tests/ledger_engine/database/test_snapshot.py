"""Several threads see one state of a file, whatever others write meanwhile."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing, suppress
from pathlib import Path

import pytest

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.database import Unit
from ledger_engine.database.snapshot import open_snapshot
from tests.made_once import put_empty_ledger


def newest(unit: Unit) -> int:
    return int(unit.execute("SELECT reached FROM kept_time")[0]["reached"])


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return put_empty_ledger(tmp_path / "ledger.db")


@pytest.mark.slow
def test_all_threads_see_one_state_beside_a_writer(ledger: Path) -> None:
    written, ended = threading.Event(), threading.Event()

    def write() -> None:
        with closing(sqlite3.connect(ledger, isolation_level=None, timeout=30)) as connection:
            while not ended.is_set():
                connection.execute("UPDATE kept_time SET reached = reached + 1")
                written.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        written.wait()
        for _ in range(20):
            with open_snapshot(ledger, 3) as opened:
                seen = [opened.start(newest) for _ in range(12)]
                assert len({each.result() for each in seen}) == 1
    finally:
        ended.set()
        writer.join()


def test_a_commit_while_they_begin_is_noticed(ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second connection begins after a commit that the first does not see; so all begin again."""
    begun: list[int] = []

    class Connection(sqlite3.Connection):
        def execute(self, sql: str, *given: object) -> sqlite3.Cursor:  # type: ignore[override]
            if sql == "BEGIN":
                begun.append(1)
                if len(begun) == 2:
                    with closing(sqlite3.connect(ledger)) as other, other:
                        other.execute("UPDATE kept_time SET reached = reached + 1")
            return super().execute(sql, *given)

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **{**k, "factory": Connection}))
    with open_snapshot(ledger, 2) as both:
        seen = {both.start(newest).result() for _ in range(8)}
    assert len(seen) == 1
    assert len(begun) == 4


def test_a_long_work_ends_when_the_snapshot_is_left_by_an_error(ledger: Path) -> None:
    begun = threading.Event()

    def endless(unit: Unit) -> None:
        begun.set()
        unit.execute(
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) AS rows FROM n"
        )

    with suppress(KeyboardInterrupt), open_snapshot(ledger, 2) as opened:
        work = opened.start(endless)
        begun.wait()
        raise KeyboardInterrupt
    assert isinstance(work.exception(timeout=0), sqlite3.OperationalError)


def test_a_file_that_is_no_ledger_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection, connection:
        connection.execute("CREATE TABLE notes (text)")
    with pytest.raises(StorageUnavailable, match="not a ledger"), open_snapshot(tmp_path / "other.db", 2):
        pass
