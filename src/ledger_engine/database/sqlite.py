"""SQLite behind the seam: one writer thread that commits in groups, and a few readers.

All works that wait are taken together, in one transaction, and are answered only after the commit is on
the disk (`synchronous=FULL`). That makes durability cheap: one fsync for a group instead of one for each
request.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from ledger_engine.core.clock import Clock
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.ids import IdSource, moment_of
from ledger_engine.database import Listener, T, Unit, Work, migrations
from ledger_engine.database.connection import (
    FATAL,
    Identity,
    code_of,
    companions,
    connect,
    identity,
    make_private,
    reason_of,
    told,
)
from ledger_engine.database.group_commit import Gathering
from ledger_engine.database.unit import SqliteUnit

WAITING_MAX = 4096  # works waiting for the writer or the readers; more are refused, not piled up
READERS = 3
REPLACED = "the file was moved or replaced; put it back, or start the server again"
CAUTIOUS_GROUPS = 100  # groups with a savepoint around each work, after one with a work that failed


@dataclass(slots=True, eq=False)
class _Job:
    work: Work[Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    answer: Any = None
    error: BaseException | None = None

    def settle(self) -> None:
        """Hand the outcome to whoever waits, if they still do; runs in the event loop."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.answer)


class SqliteDatabase:
    """One SQLite file. Open with `open_database`."""

    def __init__(self, path: Path, clock: Clock, *, checkpoints: bool) -> None:
        self._path = path
        self._clock = clock
        self._ids = IdSource()
        self._checkpoints = checkpoints
        self._listeners: list[Listener] = []
        self._gatherings: dict[asyncio.AbstractEventLoop, Gathering[_Job]] = {}
        self._writes: queue.SimpleQueue[list[_Job] | None] = queue.SimpleQueue()
        self._reads: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closing = False
        self._lost = False
        self._seen_version = -1
        self._cautious_groups = 0
        make_private(path)
        self._writer: sqlite3.Connection | None = connect(path, checkpoints=checkpoints)
        self._file = identity(path)
        self._log: Identity | None = None
        migrations.apply(self._writer)
        # Before the first read: a machine set back while nobody served must not revive what has expired.
        self._follow_other_writers(self._writer)
        self._log = _identity_of_log(path)
        self._threads = [threading.Thread(target=self._write_until_closed, name="ledger-writer", daemon=True)]
        for number in range(READERS):
            name = f"ledger-reader-{number}"
            self._threads.append(threading.Thread(target=self._read_until_closed, name=name, daemon=True))
        for thread in self._threads:
            thread.start()

    async def read(self, work: Work[T]) -> T:
        job = self._job(work, asyncio.get_running_loop(), self._reads.qsize())
        self._reads.put(job)
        return cast(T, await job.future)

    async def write(self, work: Work[T]) -> T:
        loop = asyncio.get_running_loop()
        gathering = self._gathering(loop)
        job = self._job(work, loop, len(gathering))
        gathering.add(job)
        return cast(T, await job.future)

    async def check(self) -> None:
        await self.read(_look)
        if self._lost:
            # Without this a server that nobody writes to, because it is down, would stay down.
            await self.write(_touch)

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)

    async def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        for gathering in self._gatherings.values():
            gathering.flush()
        # Readers first: the last connection to close folds the write-ahead log into the file.
        for _ in range(READERS):
            self._reads.put(None)
        for thread in self._threads[1:]:
            await asyncio.to_thread(thread.join)
        self._writes.put(None)
        await asyncio.to_thread(self._threads[0].join)

    def _job(self, work: Work[Any], loop: asyncio.AbstractEventLoop, waiting: int) -> _Job:
        if self._closing:
            raise StorageUnavailable("it is being closed")
        if waiting >= WAITING_MAX:
            raise StorageUnavailable("too many requests wait for it")
        return _Job(work, loop.create_future(), loop)

    def _gathering(self, loop: asyncio.AbstractEventLoop) -> Gathering[_Job]:
        gathering = self._gatherings.get(loop)
        if gathering is None:
            self._gatherings = {known: g for known, g in self._gatherings.items() if not known.is_closed()}
            gathering = self._gatherings[loop] = Gathering(loop, self._writes.put)
        return gathering

    # The writer's thread

    def _write_until_closed(self) -> None:
        while (group := self._writes.get()) is not None:
            self._write_group(group)
        if self._writer is not None:
            self._writer.close()

    def _write_group(self, group: list[_Job]) -> None:
        topics: set[str] = set()
        try:
            topics = self._commit(self._sound_writer(), group)
            self._lost = False
        except Exception as error:  # whatever it is: without this thread nothing is ever written again
            self._lost = True
            self._give_up(group, error)
        self._settle(group, frozenset(topics))

    def _sound_writer(self) -> sqlite3.Connection:
        """The connection to the file that was opened first, while it has its name: what is written into one
        that has lost it is lost, and another file that came into its place is none of ours."""
        if identity(self._path) != self._file:
            self._disown_log()
            raise OSError(REPLACED)
        if self._writer is None:
            self._writer = connect(self._path, checkpoints=self._checkpoints)
        self._log = _identity_of_log(self._path) or self._log
        return self._writer

    def _disown_log(self) -> None:
        """Take our log away from the file that has our file's name: whoever opened it would replay the log
        over it, which damages it."""
        if _identity_of_log(self._path) == self._log is not None:
            kept = self._path.with_name(f"{self._path.name}.replaced")
            for file, aside in zip(companions(self._path), companions(kept), strict=True):
                with contextlib.suppress(OSError):
                    file.rename(aside)

    def _commit(self, connection: sqlite3.Connection, group: list[_Job]) -> set[str]:
        """Run the works in one transaction, and tell what they announced; raises sqlite3.Error when none of
        them counts.

        A savepoint around each work takes a tenth of its time, and most groups hold none that fails. So a
        group is first run without; when one fails, all of it is run again with savepoints, and so are the
        groups after it for a while. A work alone needs none.
        """
        if self._cautious_groups == 0 or len(group) == 1:
            try:
                return self._run(connection, group, self._run_bare)
            except _WorkFailed as failed:
                connection.execute("ROLLBACK")
                if len(group) == 1:
                    group[0].error = told(failed.reason)
                    return set()
                self._cautious_groups = CAUTIOUS_GROUPS
        self._cautious_groups -= 1
        return self._run(connection, group, self._run_in_savepoint)

    def _run(
        self,
        connection: sqlite3.Connection,
        group: list[_Job],
        run: Callable[[sqlite3.Connection, SqliteUnit, _Job], None],
    ) -> set[str]:
        connection.execute("BEGIN IMMEDIATE")
        self._follow_other_writers(connection)
        unit = SqliteUnit(connection, self._clock, self._ids)
        topics: set[str] = set()
        for job in group:
            unit.begin_work()
            run(connection, unit, job)
            if job.error is None:
                topics |= unit.topics()
        connection.execute("COMMIT")
        return topics

    def _run_bare(self, connection: sqlite3.Connection, unit: SqliteUnit, job: _Job) -> None:
        try:
            job.answer = job.work(unit)
        except BaseException as error:
            _require_sound(connection, error)
            raise _WorkFailed(error) from error

    def _run_in_savepoint(self, connection: sqlite3.Connection, unit: SqliteUnit, job: _Job) -> None:
        connection.execute("SAVEPOINT work")
        try:
            job.answer = job.work(unit)
        except BaseException as error:
            _require_sound(connection, error)
            connection.execute("ROLLBACK TO work")
            job.error = told(error)
            self._cautious_groups = CAUTIOUS_GROUPS
        connection.execute("RELEASE work")

    def _follow_other_writers(self, connection: sqlite3.Connection) -> None:
        """Date this group after everything an administration command wrote beside us."""
        version = connection.execute("PRAGMA data_version").fetchone()[0]
        if version != self._seen_version:
            self._seen_version = version
            newest = connection.execute("SELECT max(id) FROM events").fetchone()[0]
            if newest is not None:
                self._clock.advance_past(moment_of(newest))

    def _give_up(self, group: list[_Job], error: Exception) -> None:
        """Nothing of the group was committed: say so to all of it, and get the connection sound again."""
        for job in group:
            job.answer, job.error = None, StorageUnavailable(reason_of(error))
        connection, self._writer = self._writer, None
        self._seen_version = -1
        if connection is not None:
            connection.close()  # rolls back what is open
        if code_of(error) != sqlite3.SQLITE_BUSY:
            self._mend()

    def _mend(self) -> None:
        """Open the file anew and commit nothing.

        A commit that failed in its last moment may have left all its pages in the log. They do not count
        now, but after a crash they would, unless something is written over them.
        """
        try:
            _touch(SqliteUnit(self._sound_writer(), self._clock, self._ids))
            self._lost = False
        except (sqlite3.Error, OSError):
            if self._writer is not None:
                self._writer.close()
                self._writer = None

    def _settle(self, jobs: list[_Job], topics: frozenset[str]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
        for job in jobs:
            by_loop.setdefault(job.loop, []).append(job)
        for loop, mine in by_loop.items():
            _call_soon(loop, partial(self._tell, mine, topics))

    def _tell(self, jobs: list[_Job], topics: frozenset[str]) -> None:
        try:
            if topics:
                for listener in self._listeners:
                    listener(topics)
        finally:
            for job in jobs:
                job.settle()
            self._gathering(jobs[0].loop).done()

    # The readers' threads

    def _read_until_closed(self) -> None:
        connection: sqlite3.Connection | None = None
        while (job := self._reads.get()) is not None:
            try:
                if identity(self._path) != self._file:
                    raise OSError(REPLACED)
                if connection is None:
                    connection = connect(self._path, checkpoints=False, query_only=True)
                connection.execute("BEGIN")
                job.answer = job.work(SqliteUnit(connection, self._clock, self._ids))
                connection.execute("COMMIT")
            except BaseException as error:
                job.error = told(error)
                if connection is not None and not _undone(connection, error):
                    connection.close()
                    connection = None
            _call_soon(job.loop, job.settle)
        if connection is not None:
            connection.close()


class _WorkFailed(Exception):
    """A work failed, and what it changed cannot be told from what the others of its group did."""

    def __init__(self, reason: BaseException) -> None:
        super().__init__(reason)
        self.reason = reason


def _require_sound(connection: sqlite3.Connection, error: BaseException) -> None:
    """Raise sqlite3.Error when this was not the work's own failure but the end of the transaction."""
    # A full disk rolls back the whole transaction behind our back, earlier works included.
    if not connection.in_transaction or code_of(error) in FATAL:
        raise sqlite3.OperationalError(str(error)) from error


def _undone(connection: sqlite3.Connection, error: BaseException) -> bool:
    """Whether the transaction in which this happened is over and the connection can be used again."""
    if isinstance(error, sqlite3.Error):
        return False
    with contextlib.suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        return True
    return False


def open_database(path: Path, clock: Clock, *, checkpoints: bool) -> SqliteDatabase:
    """Open the file, making and migrating it as needed; for its owner's eyes only (0600).

    `checkpoints` is for the one process that serves the file: before SQLite 3.51.3 a database can be
    damaged when two connections write and checkpoint at once, so nobody else may.
    Raises StorageUnavailable when the file is no ledger, is from a newer version, or cannot be used.
    """
    try:
        return SqliteDatabase(path, clock, checkpoints=checkpoints)
    except (sqlite3.Error, OSError) as error:
        raise StorageUnavailable(f"{path}: {reason_of(error)}") from error


def _identity_of_log(path: Path) -> Identity | None:
    with contextlib.suppress(OSError):
        return identity(companions(path)[0])
    return None


def _look(unit: Unit) -> None:
    unit.execute("PRAGMA schema_version")


def _touch(unit: Unit) -> None:
    """Write a page without changing anything: nobody uses this number."""
    unit.execute("PRAGMA user_version = 0")


def _call_soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(call)
