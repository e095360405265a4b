"""The database interface on a real file: groups, savepoints, answers, announcements, queues, closing."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from ledger_engine.core.errors import InvalidRequest, LedgerError, StorageUnavailable
from ledger_engine.store import LongWork, Parameters, Row, Unit, Work
from ledger_engine.store.engine import Engine, open_engine
from ledger_engine.store.group_committer import CAUTIOUS_GROUPS
from ledger_engine.store.sqlite.unit import ROWS_AT_ONCE, SqliteUnit
from ledger_engine.store.threaded import WAITING_MAX
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.store.conftest import Hold, Seen, note, submit


def fails(unit: Unit) -> None:
    note("half done")(unit)
    unit.announce("half done")
    raise ValueError("in the middle")


async def test_works_that_wait_are_committed_together(notes: Engine, hold: Hold) -> None:
    commits: list[frozenset[str]] = []
    notes.listen(commits.append)
    async with hold():
        tasks = await submit(*(notes.write(note(name, topic=name)) for name in "abcde"))
    assert await asyncio.gather(*tasks) == list("abcde")
    assert commits == [frozenset("abcde")]


@pytest.mark.parametrize("waiting", [note("a"), fails])
async def test_a_long_work_is_answered_after_the_works_that_waited_for_it(
    notes: Engine, waiting: Work[str]
) -> None:
    started, release = threading.Event(), threading.Event()
    answered: list[str] = []

    def long(unit: Unit) -> None:
        started.set()
        release.wait()

    async def write(name: str, work: Work[Any]) -> None:
        with contextlib.suppress(ValueError):
            await notes.write(work)
        answered.append(name)

    tasks = await submit(write("long", LongWork(long)))
    await asyncio.to_thread(started.wait)
    tasks += await submit(write("waited", waiting), write("waited", note("b")))
    release.set()
    await asyncio.gather(*tasks)
    assert answered == ["waited", "waited", "long"]


async def test_a_failing_work_harms_no_other_of_its_group(notes: Engine, hold: Hold, seen: Seen) -> None:
    commits: list[frozenset[str]] = []
    notes.listen(commits.append)
    async with hold():
        tasks = await submit(
            notes.write(note("before", topic="before")),
            notes.write(fails),
            notes.write(note("after", topic="after")),
        )
    before, failed, after = await asyncio.gather(*tasks, return_exceptions=True)
    assert (before, after) == ("before", "after")
    assert isinstance(failed, ValueError)
    assert seen() == ["before", "after"]
    assert commits == [frozenset({"before", "after"})]


async def test_works_run_again_when_a_work_of_their_group_fails_and_then_not_for_a_while(
    notes: Engine, hold: Hold, seen: Seen
) -> None:
    runs: list[str] = []

    def counted(name: str) -> Work[str]:
        def work(unit: Unit) -> str:
            runs.append(name)
            return note(name)(unit)

        return work

    async def group(*names: str) -> list[str | BaseException]:
        async with hold():
            tasks = await submit(*(notes.write(counted(name)) for name in names), notes.write(fails))
        return await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(outcome) for outcome in await group("a", "b")] == [str, str, ValueError]
    assert runs == ["a", "b", "a", "b"]
    runs.clear()
    assert [type(outcome) for outcome in await group("c", "d")] == [str, str, ValueError]
    assert runs == ["c", "d"]
    assert seen() == ["a", "b", "c", "d"]
    for _ in range(CAUTIOUS_GROUPS):
        async with hold():
            tasks = await submit(notes.write(lambda unit: None), notes.write(lambda unit: None))
        await asyncio.gather(*tasks)
    runs.clear()
    assert [type(outcome) for outcome in await group("e")] == [str, ValueError]
    assert runs == ["e", "e"]


async def test_a_lone_work_that_fails_is_run_once(notes: Engine, seen: Seen) -> None:
    runs: list[int] = []

    def work(unit: Unit) -> None:
        runs.append(1)
        fails(unit)

    with pytest.raises(ValueError, match="in the middle"):
        await notes.write(work)
    assert (len(runs), seen()) == (1, [])


async def test_a_broken_constraint_undoes_its_own_work_alone(notes: Engine, hold: Hold, seen: Seen) -> None:
    def twice(unit: Unit) -> None:
        note("third")(unit)
        note("first")(unit)

    async with hold():
        tasks = await submit(notes.write(note("first")), notes.write(twice), notes.write(note("second")))
    outcome = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(outcome[1], sqlite3.IntegrityError)
    assert seen() == ["first", "second"]


async def test_rows_are_inserted_in_their_order_and_all_or_none(notes: Engine, seen: Seen) -> None:
    def work(unit: Unit, *texts: str) -> None:
        unit.insert_many("notes", ("text", "rowid"), [(text, 10 + at) for at, text in enumerate(texts)])

    with pytest.raises(sqlite3.IntegrityError):
        await notes.write(lambda unit: work(unit, "a", "b", "a"))
    assert seen() == []
    await notes.write(work)  # no row is no mistake
    await notes.write(lambda unit: work(unit, "b", "?", ":a", "a"))
    rows = await notes.read(lambda unit: unit.execute("SELECT rowid, text FROM notes ORDER BY rowid"))
    assert [tuple(row) for row in rows] == [(10, "b"), (11, "?"), (12, ":a"), (13, "a")]


async def test_rows_of_any_number_are_inserted_each_once(notes: Engine, seen: Seen) -> None:
    given = [str(number) for number in range(3 * ROWS_AT_ONCE - 1)]
    await notes.write(lambda unit: unit.insert_many("notes", ("text",), [(text,) for text in given]))
    assert seen() == given


async def test_a_work_sees_what_its_group_wrote_before_it(notes: Engine, hold: Hold) -> None:
    async with hold():
        tasks = await submit(
            notes.write(note("a")), notes.write(lambda unit: unit.first("SELECT count(*) FROM notes"))
        )
    _, counted = await asyncio.gather(*tasks)
    assert counted[0] == 1


async def test_an_answer_comes_only_after_the_commit(notes: Engine, hold: Hold, seen: Seen) -> None:
    ran, release = threading.Event(), threading.Event()

    def slow(_: Unit) -> None:
        ran.set()
        release.wait()

    async with hold():
        first, second = await submit(notes.write(note("first")), notes.write(slow))
    await asyncio.to_thread(ran.wait)
    # The first work of the group has run to its end; nobody may know of it yet.
    assert not first.done()
    assert seen() == []
    release.set()
    await asyncio.gather(first, second)
    assert seen() == ["first"]


async def test_listeners_hear_of_a_commit_once_others_can_see_it_and_before_its_answer(
    notes: Engine, seen: Seen
) -> None:
    announced: list[tuple[list[str], bool]] = []
    writing = asyncio.ensure_future(notes.write(note("a", topic="news")))
    notes.listen(lambda _: announced.append((seen(), writing.done())))
    await writing
    assert announced == [(["a"], False)]


async def test_a_failed_work_announces_nothing(notes: Engine) -> None:
    announced: list[frozenset[str]] = []
    notes.listen(announced.append)
    with pytest.raises(ValueError, match="in the middle"):
        await notes.write(fails)
    await notes.write(note("later", topic="later"))
    assert announced == [frozenset({"later"})]


async def test_a_reading_work_cannot_write(notes: Engine, seen: Seen) -> None:
    with pytest.raises((sqlite3.Error, LedgerError), match="cannot be written"):
        await notes.read(note("sneaked in"))
    assert seen() == []
    assert await notes.write(note("allowed")) == "allowed"


async def test_a_reading_work_sees_one_moment_of_the_ledger(notes: Engine) -> None:
    reading, go_on = threading.Event(), threading.Event()

    def count_twice(unit: Unit) -> tuple[int, int]:
        first = unit.execute("SELECT count(*) FROM notes")[0][0]
        reading.set()
        go_on.wait()
        return first, unit.execute("SELECT count(*) FROM notes")[0][0]

    counting = asyncio.create_task(notes.read(count_twice))
    await asyncio.to_thread(reading.wait)
    await notes.write(note("meanwhile"))
    go_on.set()
    assert await counting == (0, 0)


async def test_reads_go_on_while_the_writer_is_busy(notes: Engine, hold: Hold) -> None:
    async with hold():
        assert await notes.read(lambda unit: unit.execute("SELECT 1")[0][0]) == 1


@pytest.mark.parametrize("sql", ["SELECT nothing", "SELEC 1", "INSERT INTO notes (text) VALUES (:missing)"])
async def test_a_mistake_in_sql_is_not_called_a_loss_of_storage(notes: Engine, sql: str) -> None:
    for run in (notes.write, notes.read):
        with pytest.raises(sqlite3.Error):
            await run(lambda unit: unit.execute(sql))
    assert await notes.write(note("well")) == "well"


async def test_an_error_of_the_work_is_raised_unchanged(notes: Engine, seen: Seen) -> None:
    refusal = InvalidRequest("invalid_value", "No.", "name")

    def refuse(unit: Unit) -> None:
        note("refused")(unit)
        raise refusal

    for run in (notes.write, notes.read):
        with pytest.raises(LedgerError) as caught:
            await run(refuse) if run == notes.write else await run(lambda _: _raise(refusal))
        assert caught.value is refusal
    assert seen() == []


def _raise(error: Exception) -> None:
    raise error


async def test_a_caller_who_left_does_not_undo_the_work_nor_disturb_the_others(
    notes: Engine, hold: Hold, seen: Seen
) -> None:
    async with hold():
        leaving, staying = await submit(notes.write(note("left")), notes.write(note("stayed")))
        leaving.cancel()
    assert await staying == "stayed"
    assert seen() == ["left", "stayed"]


async def test_works_beyond_the_size_of_the_queue_are_refused_and_the_other_works_run(
    notes: Engine, hold: Hold
) -> None:
    async with hold():
        waiting = await submit(*(notes.write(note(str(number))) for number in range(WAITING_MAX)))
        with pytest.raises(StorageUnavailable, match="wait"):
            await asyncio.wait_for(notes.write(note("one too many")), timeout=60)
    assert len(await asyncio.gather(*waiting)) == WAITING_MAX
    assert await notes.write(note("again")) == "again"


async def test_closing_finishes_the_accepted_works(notes: Engine, hold: Hold, seen: Seen) -> None:
    names = [str(number) for number in range(300)]
    async with hold():
        tasks = await submit(*(notes.write(note(name)) for name in names))
        reading = await submit(notes.read(lambda unit: unit.execute("SELECT 1")[0][0]))
        closing = asyncio.create_task(notes.close())
        await asyncio.sleep(0)
    await closing
    assert await asyncio.gather(*tasks) == names
    assert await reading[0] == 1
    assert seen() == names


async def test_a_closed_database_refuses_works(notes: Engine) -> None:
    await notes.close()
    for run in (notes.write, notes.read):
        with pytest.raises(StorageUnavailable):
            await run(lambda unit: unit.execute("SELECT 1"))
    await notes.close()


async def test_closing_leaves_one_file(notes: Engine, tmp_path: Path) -> None:
    await notes.write(note("kept"))
    await notes.close()
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.db"]


async def test_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "own.db", serving=True)
    await engine.write(lambda unit: unit.execute("CREATE TABLE notes (text TEXT)"))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("own.db*")}
    await engine.close()
    assert modes == {"own.db": 0o600, "own.db-wal": 0o600, "own.db-shm": 0o600}


async def test_ids_and_moments_rise_through_a_group(engine: Engine, clock: ManualClock) -> None:
    def make(unit: Unit) -> tuple[int, str]:
        return unit.now, unit.new_id("acc")

    made = []
    for _ in range(20):
        made += await asyncio.gather(*(engine.write(make) for _ in range(10)))
        clock.advance(1)
    assert made == sorted(made)
    assert len({id for _, id in made}) == len(made)


async def test_rows_read_together_are_fetched_in_one_step_and_in_order(
    notes: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"{number:03}" for number in range(200)]
    for text in reversed(texts):
        await notes.write(note(text))
    fetched: list[int] = []
    run = SqliteUnit._run

    def count_rows(unit: SqliteUnit, sql: str, parameters: Parameters) -> list[Row]:
        rows = run(unit, sql, parameters)
        fetched.append(len(rows))
        return rows

    monkeypatch.setattr(SqliteUnit, "_run", count_rows)
    query = "SELECT text, NULL FROM notes WHERE text < :end ORDER BY text LIMIT 150"
    rows = await notes.read(lambda unit: unit.execute_together(query, ("text", "order"), {"end": "2"}))
    none = await notes.read(lambda unit: unit.execute_together(query, ("text", "order"), {"end": ""}))
    assert rows == [[text, None] for text in texts[:150]]
    assert none == []
    assert fetched == [1, 1]
