"""Without the locks, PostgreSQL keeps two servers from writing one book at the same time.

These tests take the locks away. Two works each remove one of two marks, unless the other mark is gone. Works
that run one after the other leave one mark.
"""

from __future__ import annotations

import asyncio
import threading

import psycopg
import pytest

from ledger_engine.store import BookKey, Unit
from ledger_engine.store.postgres import locks, requirements
from ledger_engine.store.postgres.database import PostgresDatabase
from ledger_engine.store.postgres.rendering import SqlStatement, rendered
from tests.ledger_engine.conftest import START
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.store.postgres.conftest import Serve

pytestmark = pytest.mark.process
BOOK = ("prj_1", False)
PATIENCE_S = 60


@pytest.fixture(params=["as PostgreSQL is set up", "rows apart"])
def serializable(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the transactions of books are serializable, as if the database had been set up for it."""
    if request.param == "rows apart":
        tell_rows_apart(monkeypatch)
    return str(request.param) == "rows apart"


@pytest.fixture
def marks(beside: psycopg.Connection) -> psycopg.Connection:
    beside.execute("CREATE TABLE notes (id TEXT PRIMARY KEY)")
    beside.execute("INSERT INTO notes VALUES ('first'), ('second')")
    return beside


class Removal:
    """A work that removes its mark if both are there, at first only when the other one has read too."""

    def __init__(self, mark: str, both_have_read: threading.Barrier, book: BookKey | None = BOOK) -> None:
        self.book = book
        self.runs = 0
        self._mark = mark
        self._both_have_read = both_have_read

    def __call__(self, unit: Unit) -> int:
        self.runs += 1
        found = unit.execute("SELECT id FROM notes WHERE id IN ('first', 'second')")
        if self.runs == 1:
            self._both_have_read.wait(PATIENCE_S)
        if len(found) == 2:
            unit.execute("DELETE FROM notes WHERE id = :mark", {"mark": self._mark})
        return len(found)


def tell_rows_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_ROWS_OF_PAGE", "_ROWS_OF_TABLE", "_ROWS_OF_ALL"):
        monkeypatch.setattr(requirements, name, -1000)


def take_locks_away(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_LOCK_LEDGER", "_SHARE_LEDGER"):
        monkeypatch.setattr(locks, name, rendered("SELECT 1"))
    monkeypatch.setattr(locks, "_LOCK_BOOK", rendered("SELECT :lock::bigint"))
    all_free = b"concat_ws(',', '0', array_to_string(($1::bigint[])[1:$2], ','))"
    said = b"SELECT set_config('ledger.locked', " + all_free + b", false)"
    monkeypatch.setattr(locks, "_LOCK_FREE", SqlStatement(said, (), False, True))


async def removed(servers: list[PostgresDatabase], works: list[Removal]) -> list[int]:
    """Run a work at each server at the same time, and return how many marks each one found at last."""
    for each in servers:  # so that both are connected, and have no doubts left to settle
        await each.write(_nothing)
    return list(await asyncio.gather(*(each.write(work) for each, work in zip(servers, works, strict=True))))


def _nothing(unit: Unit) -> None:
    unit.execute("SELECT 1 AS one")


async def test_two_groups_of_one_book_cannot_both_commit_without_the_lock(
    serializable: bool, serve: Serve, marks: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_locks_away(monkeypatch)
    servers = [serve(ManualClock(START)) for _ in range(2)]
    barrier = threading.Barrier(2)
    works = [Removal(mark, barrier) for mark in ("first", "second")]
    assert sorted(await removed(servers, works)) == [1, 2]
    assert sorted(work.runs for work in works) == [1, 2]
    assert sum(each.counts.retries for each in servers) == 1
    assert len(marks.execute("SELECT id FROM notes").fetchall()) == 1


async def test_if_rows_are_told_apart_a_work_of_the_whole_ledger_cannot_commit_without_the_lock(
    serve: Serve, marks: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell_rows_apart(monkeypatch)
    take_locks_away(monkeypatch)
    servers = [serve(ManualClock(START)) for _ in range(2)]
    barrier = threading.Barrier(2)
    works = [Removal("first", barrier), Removal("second", barrier, book=None)]
    assert sorted(await removed(servers, works)) == [1, 2]
    assert len(marks.execute("SELECT id FROM notes").fetchall()) == 1


async def test_a_server_that_loses_its_lock_before_the_commit_begins_again_after_the_next(
    serializable: bool, serve: Serve, marks: psycopg.Connection
) -> None:
    loser, other = (serve(ManualClock(START)) for _ in range(2))
    loop = asyncio.get_running_loop()
    runs: list[int] = []

    def remove(unit: Unit, mark: str) -> int:
        found = unit.execute("SELECT id FROM notes WHERE id IN ('first', 'second')")
        if len(found) == 2:
            unit.execute("DELETE FROM notes WHERE id = :mark", {"mark": mark})
        return len(found)

    class Losing:
        book = BOOK

        def __call__(self, unit: Unit) -> int:
            (own,) = unit.execute("SELECT pg_backend_pid() AS pid")
            runs.append(remove(unit, "first"))
            if len(runs) == 1:
                marks.execute("SELECT pg_terminate_backend(%s, %s)", [own["pid"], PATIENCE_S * 1000])
                asyncio.run_coroutine_threadsafe(other.write(Other()), loop).result(PATIENCE_S)
            return runs[-1]

    class Other:
        book = BOOK

        def __call__(self, unit: Unit) -> int:
            return remove(unit, "second")

    assert await loser.write(Losing()) == 1
    assert runs == [2, 1]
    assert marks.execute("SELECT id FROM notes").fetchall() == [("first",)]
