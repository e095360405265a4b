"""Several threads see one state of a file, whatever others write meanwhile."""

from __future__ import annotations

import multiprocessing
import sqlite3
import threading
from concurrent.futures import wait
from contextlib import closing, suppress
from multiprocessing.synchronize import Event
from operator import methodcaller
from pathlib import Path

import pytest

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.store import Unit
from ledger_engine.store.sqlite import snapshot
from ledger_engine.store.sqlite.snapshot import ConnectionReader, open_snapshot
from tests.made_once import put_empty_ledger


def newest(unit: Unit) -> int:
    return int(unit.execute("SELECT reached FROM kept_time")[0]["reached"])


def endless(unit: Unit) -> None:
    unit.execute("WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n")


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return put_empty_ledger(tmp_path / "ledger.db")


@pytest.mark.slow
@pytest.mark.process
def test_all_see_one_state_beside_a_writer(ledger: Path) -> None:
    context = multiprocessing.get_context("fork")
    written = context.Event()
    writer = context.Process(target=write_for_ever, args=(ledger, written), daemon=True)
    writer.start()
    try:
        written.wait()
        for _ in range(20):
            with open_snapshot(ledger, 3) as opened:
                seen = [opened.start(newest) for _ in range(12)]
                assert len({each.result() for each in seen}) == 1
    finally:
        writer.kill()
        writer.join()


def write_for_ever(ledger: Path, written: Event) -> None:
    with closing(sqlite3.connect(ledger, isolation_level=None, timeout=30)) as connection:
        while True:
            connection.execute("UPDATE kept_time SET reached = reached + 1")
            written.set()


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

    def begin(unit: Unit) -> None:
        begun.set()
        endless(unit)

    with suppress(KeyboardInterrupt), open_snapshot(ledger, 2) as opened:
        work = opened.start(begin)
        begun.wait()
        raise KeyboardInterrupt
    assert isinstance(work.exception(timeout=0), sqlite3.OperationalError)


def test_a_file_that_is_no_ledger_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection, connection:
        connection.execute("CREATE TABLE notes (text)")
    refused = pytest.raises(StorageUnavailable, match=r"tables of another program \(notes\)")
    with refused, open_snapshot(other, 2):
        pass


def test_the_rows_that_works_have_read_are_reported_and_an_error_is_raised_at_their_start(
    ledger: Path,
) -> None:
    read: list[int] = []
    with open_snapshot(ledger, 2, read.append) as opened:
        done = [opened.start(methodcaller("note_read", rows)) for rows in (7, 35)]
        wait(done)
        assert sorted(read) == [7, 35]
        with pytest.raises(sqlite3.OperationalError, match="no such table: none"):
            opened.start(methodcaller("execute", "SELECT 1 FROM none")).result()
        assert opened.start(newest).result() == 0


def test_if_others_always_write_in_between_one_reader_sees_one_state(
    ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = ConnectionReader.begin
    with closing(sqlite3.connect(ledger)) as other:

        def write_then_begin(reader: ConnectionReader) -> None:
            with other:
                other.execute("UPDATE kept_time SET reached = reached + 1")
            begin(reader)

        monkeypatch.setattr(ConnectionReader, "begin", write_then_begin)
        monkeypatch.setattr(snapshot, "_TRIES", 3)
        with open_snapshot(ledger, 3) as opened:
            assert len(opened._readers) == 1
            before = opened.start(newest).result()
            with other:
                other.execute("UPDATE kept_time SET reached = reached + 1")
            assert opened.start(newest).result() == before > 0


def test_an_error_of_a_work_names_the_file(ledger: Path) -> None:
    with (
        pytest.raises(StorageUnavailable, match=r"ledger\.db: no such table: none"),
        open_snapshot(ledger, 1) as opened,
    ):
        opened.start(methodcaller("execute", "SELECT 1 FROM none")).result()


def test_a_reader_that_was_interrupted_begins_no_other_work(ledger: Path) -> None:
    with closing(ConnectionReader(ledger, lambda rows: None)) as reader:
        reader.begin()
        reader.interrupt()
        with pytest.raises(StorageUnavailable, match="it is being closed"):
            reader.run(newest)
