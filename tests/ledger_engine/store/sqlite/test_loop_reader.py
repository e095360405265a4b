"""Short works run in the event loop's thread if nobody has to wait for them."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from functools import partial
from typing import ClassVar

import pytest

from ledger_engine.core.errors import NotFound
from ledger_engine.core.tenant import Tenant
from ledger_engine.store import GroupCache, Unit
from ledger_engine.store.engine import Engine
from ledger_engine.store.sqlite import loop_reader
from ledger_engine.store.sqlite.file import DatabaseFile
from tests.ledger_engine.store.conftest import note

pytestmark = pytest.mark.sqlite

LONG = (
    "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 100000) SELECT max(n) FROM n"
)


class Watch:
    """A clock that only its owner moves, in place of `perf_counter`, and the thread's reads from the disk."""

    now = 0.0
    disk_reads = 0

    def __call__(self) -> float:
        return self.now

    def wait(self) -> None:
        """Let 5 ms pass, for the disk."""
        self.now += 0.005
        self.disk_reads += 1


@pytest.fixture(autouse=True)
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Works take no time unless a test says so: a busy machine makes none of them slow."""
    watch = Watch()
    monkeypatch.setattr(loop_reader, "perf_counter", watch)
    monkeypatch.setattr(loop_reader, "_count_disk_reads", lambda: watch.disk_reads)
    return watch


class Count:
    """The number of notes (`CachedValues`)."""

    tables: ClassVar = frozenset({"notes"})
    made: ClassVar[list[int]] = []  # each number that was read

    def __init__(self, cache: GroupCache, tenant: Tenant) -> None:
        self.made.append(len(cache.execute("SELECT 1 FROM notes", {})))

    def write(self) -> None:
        raise AssertionError("it is only read")


def thread_of(unit: Unit) -> str:
    unit.execute("SELECT 1")
    return threading.current_thread().name


def texts(unit: Unit) -> list[str]:
    return [row["text"] for row in unit.execute("SELECT text FROM notes")]


async def test_a_short_work_runs_in_the_thread_of_the_event_loop(notes: Engine) -> None:
    assert await notes.read_short(thread_of) == threading.current_thread().name
    assert (await notes.read(thread_of)).startswith("ledger-reader-")


async def test_an_error_of_a_work_is_raised_and_the_next_work_runs_in_the_loop(notes: Engine) -> None:
    def fails(unit: Unit) -> None:
        raise NotFound("note", "a")

    with pytest.raises(NotFound, match="No such note: 'a'"):
        await notes.read_short(fails)
    assert await notes.read_short(thread_of) == threading.current_thread().name


async def test_a_work_whose_statement_fails_runs_again_in_a_thread_and_the_next_work_runs_in_the_loop(
    notes: Engine,
) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such table: nowhere"):
        await notes.read_short(lambda unit: unit.execute("SELECT * FROM nowhere"))
    assert await notes.read_short(thread_of) == threading.current_thread().name


async def test_works_of_one_turn_share_a_snapshot_and_works_of_the_next_turn_share_a_new_one(
    notes: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = 0
    begin = DatabaseFile.begin_to_read

    def count(*arguments: object) -> None:
        nonlocal begun
        begun += 1
        begin(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(DatabaseFile, "begin_to_read", count)
    assert await asyncio.gather(*[notes.read_short(texts) for _ in range(5)]) == [[]] * 5
    assert begun == 1
    await asyncio.sleep(0)
    await notes.read_short(texts)
    assert begun == 2


async def test_a_writer_reads_its_own_change(notes: Engine) -> None:
    async def write_and_read(name: str) -> None:
        for number in range(20):
            written = await notes.write(note(f"{name}{number}"))
            assert written in await notes.read_short(texts)

    await asyncio.gather(*[write_and_read(name) for name in "abcdefgh"])


async def test_a_work_with_too_many_steps_is_run_again_in_a_thread(notes: Engine) -> None:
    threads: list[str] = []

    def long(unit: Unit) -> int:
        threads.append(threading.current_thread().name)
        return int(unit.execute(LONG)[0][0])

    assert await notes.read_short(long) == 100_000
    assert threads[0] == threading.current_thread().name
    assert threads[1].startswith("ledger-reader-")


async def test_if_reading_is_slow_hardly_one_work_in_a_hundred_runs_in_the_loop(
    notes: Engine, watch: Watch
) -> None:
    here = 0

    def slow(unit: Unit) -> None:
        nonlocal here
        if threading.current_thread() is threading.main_thread():
            here += 1
            watch.wait()

    for _ in range(2000):
        await notes.read_short(slow)
    assert here <= 20


async def test_a_slow_work_now_and_then_leaves_most_works_in_the_loop(notes: Engine, watch: Watch) -> None:
    here = 0

    def work(unit: Unit, number: int) -> None:
        nonlocal here
        if threading.current_thread() is threading.main_thread():
            here += 1
            watch.now += 0.0001
            if number % 200 == 0:
                watch.wait()

    for number in range(2000):
        await notes.read_short(partial(work, number=number))
    assert here > 1500


async def test_on_a_machine_that_is_busy_elsewhere_all_works_stay_in_the_loop(
    notes: Engine, watch: Watch
) -> None:
    def work(unit: Unit) -> str:
        watch.now += 0.005  # without a read from the disk: others had the processor or the interpreter
        return thread_of(unit)

    for _ in range(50):
        assert await notes.read_short(work) == threading.current_thread().name


async def test_a_cached_value_is_read_once_until_somebody_writes(notes: Engine) -> None:
    tenant = Tenant("prj_a", livemode=False)
    for number in range(3):
        for _ in range(3):
            await notes.read_short(lambda unit: unit.cached(Count, tenant))
            await asyncio.sleep(0)
        await notes.write(note(f"note {number}"))
    assert Count.made == [0, 1, 2]
