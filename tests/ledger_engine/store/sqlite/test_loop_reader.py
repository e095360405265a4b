"""Short works are read in the event loop's thread, where that keeps nobody waiting."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from functools import partial

import pytest

from ledger_engine.core.errors import NotFound
from ledger_engine.store import ShortWork, Unit
from ledger_engine.store.engine import Engine
from ledger_engine.store.sqlite import loop_reader
from ledger_engine.store.sqlite.file import DatabaseFile
from tests.ledger_engine.store.conftest import note

pytestmark = pytest.mark.sqlite

LONG = (
    "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 100000) SELECT max(n) FROM n"
)


class Watch:
    """A clock that only its owner moves, in place of `perf_counter`."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Works take no time unless a test says so: a busy machine makes none of them slow."""
    watch = Watch()
    monkeypatch.setattr(loop_reader, "perf_counter", watch)
    return watch


def thread_of(unit: Unit) -> str:
    unit.execute("SELECT 1")
    return threading.current_thread().name


def texts(unit: Unit) -> list[str]:
    return [row["text"] for row in unit.execute("SELECT text FROM notes")]


async def test_a_short_work_runs_in_the_thread_of_the_event_loop(notes: Engine) -> None:
    assert await notes.read(ShortWork(thread_of)) == threading.current_thread().name
    assert (await notes.read(thread_of)).startswith("ledger-reader-")


async def test_an_error_of_the_work_is_raised_and_the_next_one_runs_as_ever(notes: Engine) -> None:
    def fails(unit: Unit) -> None:
        raise NotFound("note", "a")

    with pytest.raises(NotFound, match="No such note: 'a'"):
        await notes.read(ShortWork(fails))
    assert await notes.read(ShortWork(thread_of)) == threading.current_thread().name


async def test_a_statement_that_fails_is_run_again_in_a_thread_and_the_next_one_runs_as_ever(
    notes: Engine,
) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such table: nowhere"):
        await notes.read(ShortWork(lambda unit: unit.execute("SELECT * FROM nowhere")))
    assert await notes.read(ShortWork(thread_of)) == threading.current_thread().name


async def test_works_of_one_turn_share_a_snapshot_and_those_of_the_next_have_a_new_one(
    notes: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = 0
    begin = DatabaseFile.begin_to_read

    def count(*arguments: object) -> None:
        nonlocal begun
        begun += 1
        begin(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(DatabaseFile, "begin_to_read", count)
    assert await asyncio.gather(*[notes.read(ShortWork(texts)) for _ in range(5)]) == [[]] * 5
    assert begun == 1
    await asyncio.sleep(0)
    await notes.read(ShortWork(texts))
    assert begun == 2


async def test_whoever_has_written_reads_it(notes: Engine) -> None:
    async def write_and_read(name: str) -> None:
        for number in range(20):
            written = await notes.write(note(f"{name}{number}"))
            assert written in await notes.read(ShortWork(texts))

    await asyncio.gather(*[write_and_read(name) for name in "abcdefgh"])


async def test_a_work_with_too_many_steps_is_run_again_in_a_thread(notes: Engine) -> None:
    threads: list[str] = []

    def long(unit: Unit) -> int:
        threads.append(threading.current_thread().name)
        return int(unit.execute(LONG)[0][0])

    assert await notes.read(ShortWork(long)) == 100_000
    assert threads[0] == threading.current_thread().name
    assert threads[1].startswith("ledger-reader-")


async def test_where_reading_is_slow_hardly_one_work_in_a_hundred_runs_in_the_loop(
    notes: Engine, watch: Watch
) -> None:
    here = 0

    def slow(unit: Unit) -> None:
        nonlocal here
        if threading.current_thread() is threading.main_thread():
            here += 1
            watch.now += 0.005

    for _ in range(2000):
        await notes.read(ShortWork(slow))
    assert here <= 20


async def test_a_slow_work_now_and_then_leaves_most_works_in_the_loop(notes: Engine, watch: Watch) -> None:
    here = 0

    def work(unit: Unit, number: int) -> None:
        nonlocal here
        if threading.current_thread() is threading.main_thread():
            here += 1
            watch.now += 0.005 if number % 200 == 0 else 0.0001

    for number in range(2000):
        await notes.read(ShortWork(partial(work, number=number)))
    assert here > 1500


async def test_while_all_connections_are_closed_short_works_run_in_threads(notes: Engine) -> None:
    """As they are to get over a lock that was not released; a thread opens its own again."""
    reader = notes._database._readers._of_loop  # type: ignore[attr-defined]
    await notes.read(ShortWork(thread_of))
    assert reader._connection is not None
    await asyncio.sleep(0)
    with reader.closed(60):
        assert reader._connection is None
        assert (await notes.read(ShortWork(thread_of))).startswith("ledger-reader-")
    assert await notes.read(ShortWork(thread_of)) == threading.current_thread().name
