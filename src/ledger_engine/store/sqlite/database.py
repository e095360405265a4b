"""The SQLite database: one writer thread that commits in groups, and a few readers.

A *work* is a function of a `Unit` (see `store`). The works of a group run in one transaction, and their
callers get answers only after the commit is on the disk (`synchronous=FULL`). So durability costs one fsync
for each group instead of one for each request.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from ledger_engine.core.clock import Clock, iso
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.ids import IdMark, IdSource, moment_of
from ledger_engine.core.measuring import CommitObserver
from ledger_engine.store import Figure, T, Work, kept_time
from ledger_engine.store.sqlite import backup
from ledger_engine.store.sqlite.committer import CommitFailed, Committer
from ledger_engine.store.sqlite.connection import (
    close_to_others,
    code_of,
    public_error,
    reason_not_opened,
    reason_of,
)
from ledger_engine.store.sqlite.file import DatabaseFile, has_space, probe_read, probe_write
from ledger_engine.store.sqlite.log import log_file
from ledger_engine.store.sqlite.migrations import SqliteTables
from ledger_engine.store.sqlite.readers import Readers
from ledger_engine.store.sqlite.unit import SqliteUnit
from ledger_engine.store.threaded import CHECK_S, SILENT, QueuedWork, ThreadedDatabase, call_soon, insist

FULL = "the disk is full"
log = logging.getLogger("ledger_engine.store")


class SqliteDatabase(ThreadedDatabase):
    """One SQLite file. Open it with `open_database`."""

    _readers: Readers

    def __init__(self, path: Path, clock: Clock, *, checkpoints: bool) -> None:
        super().__init__(serving=checkpoints, can_read=probe_read, can_write=probe_write)
        self._clock = clock
        self._path = path
        self.ids = IdSource()
        self._steps: queue.SimpleQueue[QueuedWork] = queue.SimpleQueue()  # steps to run between two groups
        # Store the method in an attribute, because each access to `self._look` makes a new object, and
        # `_take_steps` compares steps with `is`.
        self._look_step: Callable[[Any], None] = self._look
        self._is_doubted = False  # whether a reader has reported that the file is malformed
        self._seen_version = -1  # SQLite's `data_version` when it was last read; -1 if it is unknown
        self._file = DatabaseFile(path, checkpoints=checkpoints)
        self.losses = self._file.losses
        self._committer = Committer(clock, self.ids, self._begin)
        self._writer: sqlite3.Connection | None = None
        try:
            self._writer = self._file.connect_writer()
            tables = SqliteTables(self._writer)
            tables.bring_up_to_date()
            tables.require_all_there()
            close_to_others(path)  # after the checks above: a file of another program keeps its rights
            # Advance the clock before the first read: somebody may have set the machine's clock back while no
            # server ran, and nothing that has expired may become valid again.
            self._follow_other_writers(self._writer)
        except BaseException:
            self._close_files()
            raise
        self._thread = threading.Thread(target=self._write_until_closed, name="ledger-writer", daemon=True)
        self._readers = Readers(self._file, clock, self.ids, self._note_malformed, self._is_writing)
        self._thread.start()
        self._readers.start()

    async def check(self) -> None:
        await super().check()
        if self._file.has_changed() or not self._age():
            try:
                async with asyncio.timeout(CHECK_S):
                    await self.between_groups(self._look_step)
            except TimeoutError:
                raise StorageUnavailable(SILENT) from None
        if self._is_lost:
            raise StorageUnavailable(FULL)

    async def between_groups(self, step: Callable[[sqlite3.Connection], T]) -> T:
        """Run `step` on the writer's connection while no group is being committed; return its result."""
        loop = asyncio.get_running_loop()
        # A step is not a work: it takes the connection instead of a unit, and runs outside a transaction.
        result = loop.create_future()
        job = self._new_job(cast(Work[Any], step), result, loop, 0, writes=True)
        self._steps.put(job)
        self._writes.put([])
        return cast(T, await result)

    async def figures(self) -> list[Figure]:
        """Return the sizes of the file and of its log."""
        return [
            Figure("ledger_database_bytes", _size(self._path), "Size of the database."),
            Figure("ledger_wal_bytes", _size(log_file(self._path)), "Size of the write-ahead log."),
        ]

    def observe_commits(self, observer: CommitObserver) -> None:
        self._committer.observer = observer

    def _note_malformed(self) -> None:
        """Make the writer's thread check whether the file was overwritten with another file."""
        self._is_doubted = True
        self._writes.put([])

    # Methods of the writer's thread

    def _write_until_closed(self) -> None:
        while (group := self._writes.get()) is not None:
            if group:
                self._write_group(group)
            else:
                self._take_steps()
            if self._is_doubted:
                self._look_at_content()
        self._close_files()

    def _take_steps(self) -> None:
        while not self._steps.empty():
            job = self._steps.get()
            try:
                job.answer = cast(Callable[[sqlite3.Connection], Any], job.work)(self._sound_writer())
            except BaseException as error:
                job.error = public_error(error)
                self._close_writer()
            if job.work is not self._look_step:
                self._seen_version = -1  # forget what was read, because the step may have changed any row
            call_soon(job.loop, job.settle)

    def _close_files(self) -> None:
        self._file.release()
        # Close the writer's connection last: the last connection that closes makes a checkpoint of the log.
        self._close_writer()
        self._file.close()

    def _close_writer(self) -> None:
        connection, self._writer = self._writer, None
        if connection is not None:
            connection.close()  # this rolls back an open transaction

    def _write_group(self, group: list[QueuedWork]) -> None:
        topics: set[str] = set()
        try:
            # An open writer needs no check here: each transaction checks whether the file still has its name
            # (`begin_to_write`).
            writer = self._writer or self._sound_writer()
            topics = self._committer.commit(writer, group)
        except Exception as error:  # any error: if this thread ended, nothing would be written any more
            insist(self._set_lost, error.reason if isinstance(error, CommitFailed) else error)
            insist(self._give_up, group, error)
        else:
            if self._is_lost:
                insist(self._check_space, writer)  # outside of `try`, because the group is already committed
        self._settle(group, frozenset(topics))

    def _sound_writer(self) -> sqlite3.Connection:
        """Return the connection that writes; open a new connection if the last one failed."""
        try:
            self._file.require_own()
        except OSError:
            self._file.disown_log()
            raise
        if self._writer is None:
            self._writer = self._file.connect_writer()
        self._file.note_log()
        return self._writer

    def _begin(self, connection: sqlite3.Connection) -> bool:
        """Begin a group's transaction; return whether another process has written since the last group."""
        self._file.begin_to_write(connection)
        return self._follow_other_writers(connection)

    def _look(self, connection: sqlite3.Connection) -> None:
        """Look for changes of other processes.

        So the health check notices these changes even if this process writes nothing.
        """
        if self._follow_other_writers(connection):
            self._committer.forget()

    def _follow_other_writers(self, connection: sqlite3.Connection) -> bool:
        """Return whether another process has written; if so, advance the clock past its changes."""
        version = connection.execute("PRAGMA data_version").fetchone()[0]
        if version == self._seen_version:
            return False
        is_known, self._seen_version = self._seen_version != -1, version
        newest = connection.execute(kept_time.NEWEST_EVENT).fetchone()[0]
        if is_known and (newest or "") < self._committer.newest_event:
            self._note_older_state(newest)
        self._committer.newest_event = newest or ""
        if newest is not None:
            self._clock.advance_past(moment_of(newest))
        self._clock.advance_past(connection.execute("SELECT reached FROM kept_time").fetchone()[0])
        return True

    def _note_older_state(self, newest: str | None) -> None:
        """Report that another program has put an older state into the file, as SQLite's `.restore` does."""
        event = self._committer.newest_event
        until = "it has no event" if newest is None else f"its last event is of {iso(moment_of(newest))}"
        self.losses.accepted = (
            "Acknowledged changes are gone: another program has replaced the content of the database by an"
            f" older state. The last event was {event}, of {iso(moment_of(event))}; now {until}."
        )
        log.error("%s", self.losses.accepted)

    def _give_up(self, group: list[QueuedWork], error: Exception) -> None:
        """Open the connection again, and set the error of every work of the group."""
        committing = isinstance(error, CommitFailed)
        reason = error.reason if isinstance(error, CommitFailed) else error
        self._seen_version = -1
        self._close_writer()
        # SQLITE_BUSY: the group did not get the lock, so it has written nothing. Do not open the file again
        # in this case, because that would wait for the same lock just as long.
        unknown = code_of(reason) != sqlite3.SQLITE_BUSY and not self._reopen() and committing
        unknown = unknown or (isinstance(error, CommitFailed) and error.may_be_done)
        for job in group:
            job.answer, job.error = None, StorageUnavailable(reason_of(reason), unknown=unknown)

    def _set_lost(self, reason: Exception | None) -> None:
        """Note whether the ledger can be written, and log a change of this state.

        `reason` is None if the ledger can be written.
        """
        was_lost, self._is_lost = self._is_lost, reason is not None
        if reason is not None and not was_lost:
            log.error("the ledger cannot be written: %s", reason_of(reason))
        elif was_lost and reason is None:
            log.warning("the ledger can be written again")

    def _reopen(self) -> bool:
        """Open the file again and write one page; return False if that fails.

        A failed commit may have left all its pages in the log. These pages are not valid now, but after a
        crash SQLite would accept them. This method overwrites the first of these pages, so that SQLite
        accepts none of them.
        """
        try:
            writer = self._sound_writer()
            probe_write(SqliteUnit(writer, self._clock, self.ids))
        except Exception:  # any error: if this thread ended, nothing would be written any more
            self._close_writer()
            return False
        self._check_space(writer)
        return True

    def _check_space(self, writer: sqlite3.Connection) -> None:
        try:
            # Check this before the test of the space, which overwrites data that `require_own` compares.
            self._file.require_own()
            self._set_lost(None if has_space(writer) else StorageUnavailable(FULL))
        except Exception as error:  # any error: the committed changes stay committed
            self._set_lost(error)
        if self._is_lost:
            self._close_writer()

    def _look_at_content(self) -> None:
        self._is_doubted = False
        # `require_own` logs the error, and raises it for every read and write from now on.
        with contextlib.suppress(OSError):
            self._file.require_own()


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def open_database(path: Path, clock: Clock, *, checkpoints: bool) -> SqliteDatabase:
    """Open the file, and create or migrate it if necessary; only its owner can read a new file (mode 0600).

    `checkpoints` is true for the one process that serves the file. No other process may make checkpoints,
    because before SQLite 3.51.3 two connections that write and checkpoint at once can damage a database.
    Raises StorageUnavailable if the file is not a ledger, is of a newer version, or cannot be used.
    """
    try:
        return SqliteDatabase(path, clock, checkpoints=checkpoints)
    except (sqlite3.Error, UnicodeDecodeError, OSError) as error:
        raise StorageUnavailable(f"{path}: {reason_not_opened(path, error)}") from error


class SqliteRewinder:
    """The `Rewinder` of a SQLite file. Its operations run in the writer's thread, between two commits."""

    def __init__(self, path: Path, database: SqliteDatabase) -> None:
        self._path = path
        self._database = database

    async def copy_to(self, file: Path, note: Callable[[], T]) -> tuple[IdMark, T]:
        def copy(writer: sqlite3.Connection) -> tuple[IdMark, T]:
            backup.copy_of_open(writer, self._path, file, durable=False)
            return self._database.ids.mark(), note()

        return await self._database.between_groups(copy)

    async def replace_by(self, file: Path, mark: IdMark, then: Callable[[], None]) -> None:
        def replace(writer: sqlite3.Connection) -> None:
            # The new pages go through the log, so current readers can continue, and a crash leaves either all
            # new pages or none.
            backup.overwrite(writer, file)
            self._database.ids.go_back(mark)
            then()
            SqliteTables(writer).bring_up_to_date()

        await self._database.between_groups(replace)

    async def forget_newest(self) -> None:
        # The step does nothing. But after every step except `_look` the database forgets the newest event
        # that it has seen.
        await self._database.between_groups(lambda _: None)
