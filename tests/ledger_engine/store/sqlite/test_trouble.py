"""If the disk fails, callers get an error, nothing is half done, and the ledger recovers by itself."""

from __future__ import annotations

import asyncio
import os
import resource
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.store import LongWork, Unit, group_committer, threaded
from ledger_engine.store.engine import Engine, open_engine
from ledger_engine.store.sqlite import database, readers
from ledger_engine.store.sqlite.backup import copy
from ledger_engine.store.sqlite.committer import Committer
from ledger_engine.store.sqlite.connection import public_error
from ledger_engine.store.sqlite.database import SqliteDatabase
from ledger_engine.store.sqlite.readers import READERS
from ledger_engine.store.threaded import QueuedWork
from tests.ledger_engine.store.conftest import Hold, Seen, note, submit


@contextmanager
def files_cannot_grow_beyond(size: int) -> Iterator[None]:
    """Make writes beyond `size` bytes fail with EFBIG, which SQLite reports as an I/O error."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_commit_that_cannot_be_written_fails_the_whole_group_and_the_next_one_is_taken(
    notes: Engine, hold: Hold, seen: Seen, tmp_path: Path
) -> None:
    announced: list[frozenset[str]] = []
    notes.listen(announced.append)
    log = tmp_path / "ledger.db-wal"
    with ExitStack() as limits:
        async with hold():
            tasks = await submit(*(notes.write(note(name, topic="news")) for name in "abc"))
            limits.enter_context(files_cannot_grow_beyond(log.stat().st_size))
        outcome = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(error) for error in outcome] == [StorageUnavailable] * 3
    assert seen() == []
    assert announced == []
    assert await notes.write(note("space again", topic="news")) == "space again"
    assert seen() == ["space again"]


@pytest.mark.parametrize("code", [sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT])
@pytest.mark.parametrize("after_a_failure", [False, True])
async def test_a_fault_of_the_storage_during_a_work_fails_the_whole_group(
    notes: Engine, hold: Hold, seen: Seen, code: int, after_a_failure: bool
) -> None:
    def meets_fault(unit: Unit) -> None:
        fault = sqlite3.OperationalError("disk I/O error")
        fault.sqlite_errorcode = code
        raise fault

    def fails(unit: Unit) -> None:
        note("half done")(unit)
        raise ValueError("in the middle")

    if after_a_failure:  # from which on each work has a savepoint
        async with hold():
            tasks = await submit(notes.write(note("before")), notes.write(fails))
        await asyncio.gather(*tasks, return_exceptions=True)
    before = seen()
    async with hold():
        tasks = await submit(notes.write(note("a")), notes.write(meets_fault), notes.write(note("b")))
    outcome = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(error) for error in outcome] == [StorageUnavailable] * 3
    assert seen() == before
    assert await notes.write(note("again")) == "again"


async def test_the_check_fails_on_a_disk_with_space_for_a_page_but_not_for_a_posting(
    notes: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    large = "large" * 20_000
    log = tmp_path / "ledger.db-wal"
    with files_cannot_grow_beyond(log.stat().st_size + 16 * 4096):
        with pytest.raises(StorageUnavailable):
            await notes.write(note(large))
        for _ in range(3):
            with pytest.raises(StorageUnavailable, match="the disk is full"):
                await notes.check()
        assert await notes.write(note("small")) == "small"
        with pytest.raises(StorageUnavailable):
            await notes.check()
        (said,) = caplog.messages
        assert said.startswith("the ledger cannot be written: ")
    await notes.check()
    assert caplog.messages == [said, "the ledger can be written again"]
    assert await notes.write(note(large)) == large
    schema = await notes.read(lambda unit: unit.execute("SELECT name FROM sqlite_schema"))
    assert "probe" not in [row["name"] for row in schema]


@contextmanager
def no_more_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class NoMemory:
    """Raises MemoryError for the first calls of a function, and then calls the function."""

    def __init__(self, function: Callable[..., object], times: int) -> None:
        self.left = times
        self._function = function

    def __call__(self, *arguments: object) -> object:
        if self.left:
            self.left -= 1
            raise MemoryError
        return self._function(*arguments)


@pytest.mark.parametrize(
    ("at", "name"),
    [
        (database, "probe_write"),
        (database, "has_space"),
        (SqliteDatabase, "_give_up"),
        (threaded, "_finish_by_loop"),
    ],
)
async def test_a_writer_without_memory_says_so_and_goes_on(
    notes: Engine, seen: Seen, monkeypatch: pytest.MonkeyPatch, at: object, name: str
) -> None:
    """Wherever it is short: a writer that ended would never answer anybody again."""
    monkeypatch.setattr(threaded, "MEMORY_AGAIN_S", 0.001)
    short, commit = NoMemory(getattr(at, name), 3), NoMemory(Committer.commit, 1)
    monkeypatch.setattr(at, name, lambda *arguments: short(*arguments))
    monkeypatch.setattr(Committer, "commit", lambda *arguments: commit(*arguments))
    with pytest.raises(StorageUnavailable, match="there is not enough memory"):
        await notes.write(note("no memory"))
    for text in "abc":  # until there is space for certain
        assert await notes.write(note(text)) == text
    await notes.check()
    assert seen() == ["a", "b", "c"]


class CommittedWithoutMemory:
    """A connection that raises MemoryError after a COMMIT, or instead of it if it is not `committed`."""

    def __init__(self, connection: sqlite3.Connection, committed: bool) -> None:
        self._connection = connection
        self._committed = committed

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)

    def execute(self, sql: str, *parameters: object) -> sqlite3.Cursor:
        if sql != "COMMIT" or self._committed:
            cursor = self._connection.execute(sql, *parameters)
        if sql == "COMMIT":
            raise MemoryError
        return cursor


@pytest.mark.parametrize(("committed", "outcome"), [(True, "is not known"), (False, "Nothing was changed")])
async def test_a_commit_that_ends_without_memory_is_reported_as_it_is(
    notes: Engine, seen: Seen, monkeypatch: pytest.MonkeyPatch, committed: bool, outcome: str
) -> None:
    commit = Committer.commit

    def without_memory(
        committer: Committer, connection: sqlite3.Connection, group: list[QueuedWork]
    ) -> set[str]:
        monkeypatch.undo()
        return commit(
            committer, cast(sqlite3.Connection, CommittedWithoutMemory(connection, committed)), group
        )

    monkeypatch.setattr(Committer, "commit", without_memory)
    with pytest.raises(StorageUnavailable, match=outcome):
        await notes.write(note("in doubt"))
    assert seen() == ["in doubt"] * committed
    assert await notes.write(note("after")) == "after"


async def test_a_shortage_of_memory_after_a_commit_fails_no_work(
    notes: Engine, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = NoMemory(group_committer.log_commit, 1)
    monkeypatch.setattr(group_committer, "log_commit", lambda *arguments: short(*arguments))
    assert await notes.write(note("committed")) == "committed"
    assert (short.left, seen()) == (0, ["committed"])


async def test_a_reader_without_memory_says_so_and_goes_on(
    notes: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(_unit: Unit) -> None:
        raise MemoryError

    monkeypatch.setattr(threaded, "MEMORY_AGAIN_S", 0.001)
    for _ in range(READERS + 1):
        monkeypatch.setattr(readers, "public_error", NoMemory(public_error, 2))
        with pytest.raises(StorageUnavailable, match="there is not enough memory"):
            await notes.read(read)
    await notes.check()


@pytest.mark.parametrize(("reopens", "outcome"), [(True, "Nothing was changed"), (False, "is not known")])
async def test_a_commit_is_reported_as_unknown_if_its_outcome_cannot_be_found_out(
    notes: Engine, hold: Hold, seen: Seen, tmp_path: Path, reopens: bool, outcome: str
) -> None:
    """It may be whole in the log, and nothing could be written over it: after a crash it would count."""
    log, large = tmp_path / "ledger.db-wal", "large" * 20_000
    with ExitStack() as limits:
        async with hold():
            (task,) = await submit(notes.write(note(large)))
            # One more page finds its place, which is enough to write over what is left of the commit.
            limits.enter_context(files_cannot_grow_beyond(log.stat().st_size + 5000))
            if not reopens:
                limits.enter_context(no_more_files())
        (error,) = await asyncio.gather(task, return_exceptions=True)
    assert isinstance(error, StorageUnavailable)
    assert outcome in error.message
    await notes.check()
    assert seen() == []
    assert await notes.write(note(large)) == large


async def test_a_check_notices_within_its_time_limit_that_the_storage_hangs(
    notes: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threaded, "CHECK_S", 0.05)
    release = threading.Event()
    hanging = await submit(*(notes.read(lambda _: release.wait()) for _ in range(READERS)))
    try:
        with pytest.raises(StorageUnavailable, match="does not answer"):
            await asyncio.wait_for(notes.check(), 30)
    finally:
        release.set()
        await asyncio.gather(*hanging)
    await notes.check()


async def test_a_commit_that_ends_at_its_time_limit_is_answered_with_its_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threaded, "ANSWER_S", 2)  # time for the commit on a busy machine
    held: list[Callable[[], None]] = []
    engine = open_engine(tmp_path / "ledger.db", serving=True)
    await engine.write(lambda unit: unit.execute("CREATE TABLE notes (text TEXT)"))
    monkeypatch.setattr(threaded, "call_soon", lambda _loop, *call: held.append(partial(*call)))
    assert await engine.write(note("made in time")) == "made in time"
    monkeypatch.undo()
    for call in held:
        call()
    await engine.close()


async def test_a_write_that_hangs_is_answered_in_limited_time_and_nothing_piles_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threaded, "ANSWER_S", 0.2)
    monkeypatch.setattr(threaded, "CHECK_S", 0.1)
    engine = open_engine(tmp_path / "ledger.db", serving=True)
    await engine.write(lambda unit: unit.execute("CREATE TABLE notes (text TEXT)"))
    started, release = threading.Event(), threading.Event()

    def hang(unit: Unit) -> None:
        note("hung")(unit)
        started.set()
        release.wait()

    hanging = asyncio.create_task(engine.write(hang))
    await asyncio.to_thread(started.wait)
    waiting = await submit(engine.write(note("never begun")))
    outcome = await asyncio.wait_for(asyncio.gather(hanging, *waiting, return_exceptions=True), 30)
    assert [str(error) for error in outcome] == [
        StorageUnavailable("it does not answer", unknown=True).message,
        StorageUnavailable("it does not answer").message,
    ]
    with pytest.raises(StorageUnavailable, match="does not answer"):
        await engine.check()
    with pytest.raises(StorageUnavailable, match="Nothing was changed"):
        await engine.write(note("refused at once"))
    assert (await engine.read(lambda unit: unit.execute("SELECT * FROM notes"))) == []
    release.set()
    while True:
        try:
            await engine.write(note("after"))
            break
        except StorageUnavailable:
            await asyncio.sleep(0.01)
    rows = await engine.read(lambda unit: unit.execute("SELECT text FROM notes ORDER BY rowid"))
    assert [row["text"] for row in rows] == ["hung", "after"]
    await engine.check()
    await engine.close()


async def test_a_long_work_that_is_committed_is_answered_as_done_when_the_group_after_it_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threaded, "ANSWER_S", 2)
    engine = open_engine(tmp_path / "ledger.db", serving=True)
    await engine.write(lambda _: None)
    started, commit, release = threading.Event(), threading.Event(), threading.Event()

    def long(_: Unit) -> str:
        started.set()
        commit.wait()
        return "done"

    batch = asyncio.create_task(engine.write(LongWork(long)))
    await asyncio.to_thread(started.wait)
    (after,) = await submit(engine.write(lambda _: release.wait()))
    commit.set()
    try:
        assert await asyncio.wait_for(batch, 60) == "done"
        assert not after.done() or after.exception() is not None
    finally:
        release.set()
    await asyncio.gather(after, return_exceptions=True)
    await engine.close()


async def test_a_read_that_hangs_is_answered_in_limited_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threaded, "ANSWER_S", 0.2)
    engine = open_engine(tmp_path / "ledger.db", serving=True)
    release = threading.Event()
    runs: list[str] = []
    hanging = await submit(*(engine.read(lambda _: release.wait()) for _ in range(READERS)))
    waiting = await submit(engine.read(lambda _: runs.append("in vain")))
    outcome = await asyncio.wait_for(asyncio.gather(*hanging, *waiting, return_exceptions=True), 30)
    assert [type(error) for error in outcome] == [StorageUnavailable] * (READERS + 1)
    release.set()
    await engine.read(lambda _: runs.append("after"))
    assert runs == ["after"]
    await engine.close()


async def test_a_database_that_hangs_can_be_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threaded, "CLOSE_S", 0.1)
    engine = open_engine(tmp_path / "ledger.db", serving=True)
    release = threading.Event()
    hanging = await submit(engine.read(lambda _: release.wait()), engine.write(lambda _: release.wait()))
    try:
        await asyncio.wait_for(engine.close(), 30)
    finally:
        release.set()
        await asyncio.gather(*hanging)


async def test_a_full_database_refuses_changes_and_accepts_them_again_once_there_is_space(
    notes: Engine, hold: Hold, seen: Seen
) -> None:
    """`max_page_count` makes SQLite itself say SQLITE_FULL, in the middle of a group."""

    def fill_up(unit: Unit) -> None:
        pages = unit.execute("PRAGMA page_count")[0][0]
        unit.execute(f"PRAGMA max_page_count = {pages + 2}")

    await notes.write(fill_up)
    async with hold():
        tasks = await submit(
            notes.write(note("small")), notes.write(note("large" * 100_000)), notes.write(note("later"))
        )
    outcome = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(outcome[1], StorageUnavailable)
    assert all(isinstance(each, (str, StorageUnavailable)) for each in outcome)
    # Every acknowledged change is stored; a refused one is not.
    assert seen() == [each for each in outcome if isinstance(each, str)]

    def make_space(unit: Unit) -> None:
        unit.execute("PRAGMA max_page_count = 1000000")

    await notes.write(make_space)
    assert await notes.write(note("large" * 100_000)) == "large" * 100_000


async def test_a_file_that_lost_its_name_is_not_written(notes: Engine, tmp_path: Path) -> None:
    """It could be written to, but who would find it again? The same goes for what is read from it."""
    path, aside = tmp_path / "ledger.db", tmp_path / "aside.db"
    await notes.write(note("before"))
    together = threading.Barrier(READERS)
    await asyncio.gather(*(notes.read(lambda _: together.wait()) for _ in range(READERS)))
    path.rename(aside)
    for _ in range(2):
        with pytest.raises(StorageUnavailable):
            await notes.write(note("lost"))
        with pytest.raises(StorageUnavailable):
            await notes.read(lambda unit: unit.execute("SELECT * FROM notes"))
        with pytest.raises(StorageUnavailable):
            await notes.check()
    assert not path.exists()
    aside.rename(path)
    await notes.check()
    assert await notes.write(note("after")) == "after"
    rows = await notes.read(lambda unit: unit.execute("SELECT text FROM notes ORDER BY rowid"))
    assert [row["text"] for row in rows] == ["before", "after"]


async def test_a_file_that_came_into_the_place_of_ours_is_left_alone(notes: Engine, tmp_path: Path) -> None:
    """Its name leads to our log: read together with that, it would be neither the one nor the other."""
    path, other = tmp_path / "ledger.db", tmp_path / "other.db"
    await notes.write(note("in both"))
    copy(path, other)
    for number in range(50):
        await notes.write(note(f"in the log {number}" * 1000))
    whole = other.read_bytes()
    other.replace(path)
    for _ in range(2):
        with pytest.raises(StorageUnavailable) as refused:
            await notes.write(note("lost"))
        assert "replaced" in refused.value.message
        with pytest.raises(StorageUnavailable):
            await notes.read(lambda unit: unit.execute("SELECT * FROM notes"))
    await notes.close()
    assert path.read_bytes() == whole
    assert (tmp_path / "ledger.db.replaced-wal").stat().st_size > 50 * 1000
    again = open_engine(path)
    rows = await again.read(lambda unit: unit.execute("SELECT text FROM notes"))
    await again.close()
    assert [row["text"] for row in rows] == ["in both"]


async def test_a_deleted_file_is_not_created_again(notes: Engine, tmp_path: Path) -> None:
    for file in tmp_path.glob("ledger.db*"):
        file.unlink()
    with pytest.raises(StorageUnavailable) as refused:
        await notes.write(note("lost"))
    assert str(tmp_path) not in refused.value.message
    with pytest.raises(StorageUnavailable):
        await notes.check()
    assert list(tmp_path.iterdir()) == []


async def test_reads_of_a_damaged_file_raise_storage_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    engine = open_engine(path, serving=True)
    await engine.write(lambda unit: unit.execute("CREATE TABLE notes (text TEXT)"))
    for number in range(50):
        await engine.write(note(str(number) * 1000))
    await engine.close()
    with path.open("r+b") as file:
        # The last pages hold notes alone; with the schema damaged the file would not even open.
        file.seek(-10 * 4096, os.SEEK_END)
        file.write(b"\xff" * 10 * 4096)
    engine = open_engine(path, serving=True)
    with pytest.raises(StorageUnavailable):
        await engine.read(lambda unit: unit.execute("SELECT sum(length(text)) FROM notes"))
    await engine.close()


async def test_a_text_file_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.write_text("Dear diary, " * 1000)
    with pytest.raises(StorageUnavailable, match="not a database"):
        open_engine(path)
    assert path.read_text() == "Dear diary, " * 1000


async def test_a_folder_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(StorageUnavailable, match="is not a regular file"):
        open_engine(tmp_path)


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageUnavailable, match="nowhere"):
        open_engine(tmp_path / "nowhere" / "ledger.db")


async def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "photos.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE photos (id INTEGER PRIMARY KEY, name TEXT)")
        other.commit()
    with pytest.raises(StorageUnavailable, match=r"tables of another program \(photos\)"):
        open_engine(path)
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall() == [
            ("photos",)
        ]
