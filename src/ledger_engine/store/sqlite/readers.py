"""Runs works (see `store`) that only read: in threads, each with one connection, and in the event loop."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable

from ledger_engine.core.clock import Clock
from ledger_engine.core.ids import IdSource
from ledger_engine.store import T, Work
from ledger_engine.store.sqlite.connection import code_of, public_error
from ledger_engine.store.sqlite.file import DatabaseFile
from ledger_engine.store.sqlite.loop_reader import LoopReader
from ledger_engine.store.sqlite.unit import ReadingUnit
from ledger_engine.store.threaded import QueuedWork, ReadingThreads, call_soon, insist

READERS = 4
MALFORMED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class Readers(ReadingThreads):
    """Runs works in parallel, each on a snapshot of the file.

    `on_malformed` is called when SQLite reports during a work that the file is malformed.
    """

    def __init__(
        self,
        file: DatabaseFile,
        clock: Clock,
        ids: IdSource,
        on_malformed: Callable[[], None],
        is_writing: Callable[[], bool],
    ) -> None:
        super().__init__(READERS, is_writing)
        self._file = file
        self._clock = clock
        self._ids = ids
        self._on_malformed = on_malformed
        self._loop_reader = LoopReader(file, clock, ids)

    def run_at_once(self, work: Work[T]) -> tuple[T] | None:
        return self._loop_reader.run(work)

    def is_reading_at_once(self) -> bool:
        return self._loop_reader.is_in_use()

    def stop(self, limit_s: float) -> None:
        self._loop_reader.close(limit_s=1)
        super().stop(limit_s)

    def _run(self) -> None:
        connection: sqlite3.Connection | None = None
        job: QueuedWork | None = None
        while (job := self._next(job)) is not None:
            if job.outcome.done():  # the job took too long and has failed, or was cancelled
                continue
            try:
                self._file.require_same()
                connection = connection or self._file.connect_reader()
                self._file.begin_to_read(connection)
                unit = ReadingUnit(connection, self._clock, self._ids)
                job.answer = job.work(unit)
                unit.forget()
                connection.execute("COMMIT")
            except BaseException as error:
                job.error = insist(public_error, error)
                if connection is not None and not _roll_back(connection, error):
                    _close(connection)
                    connection = None
                if code_of(error) in MALFORMED:
                    self._on_malformed()
            call_soon(job.loop, job.settle)
        _close(connection)


def _close(connection: sqlite3.Connection | None) -> None:
    if connection is not None:
        connection.close()


def _roll_back(connection: sqlite3.Connection, error: BaseException) -> bool:
    """Roll back the failed transaction; return whether the connection can be used again."""
    if isinstance(error, sqlite3.Error):
        return False
    with contextlib.suppress(sqlite3.Error, MemoryError):
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        return True
    return False
