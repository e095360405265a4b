"""Reading: threads, each with its own connection, and the event loop's thread."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable

from ledger_engine.core.clock import Clock
from ledger_engine.core.ids import IdSource
from ledger_engine.store import T, Work
from ledger_engine.store.sqlite.connection import code_of, public_error
from ledger_engine.store.sqlite.file import DatabaseFile
from ledger_engine.store.sqlite.loop_reader import LoopReader
from ledger_engine.store.sqlite.unit import ReadingUnit
from ledger_engine.store.threaded import ReadingThreads, call_soon, insist

READERS = 3
# How long the threads may take to close their connections, by the error that stopped a work. SQLite retries
# for 10 seconds to read past a lock that this process still holds; the other lock is mostly a command's.
CLOSE_CONNECTIONS_S = {sqlite3.SQLITE_BUSY: 2, sqlite3.SQLITE_PROTOCOL: 15}
MALFORMED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class Readers(ReadingThreads[threading.Barrier]):
    """Run works in parallel, each on a snapshot of the file.

    `on_failed` is called with SQLite's code when a lock or a malformed file has stopped one of them.
    """

    def __init__(
        self, file: DatabaseFile, clock: Clock, ids: IdSource, on_failed: Callable[[int], None]
    ) -> None:
        super().__init__(READERS)
        self._file = file
        self._clock = clock
        self._ids = ids
        self._on_failed = on_failed
        self._together: threading.Barrier | None = None
        self._of_loop = LoopReader(file, clock, ids)

    def run_at_once(self, work: Work[T]) -> tuple[T] | None:
        return self._of_loop.run(work)

    def stop(self, limit_s: float) -> None:
        with self._of_loop.closed(limit_s=1):
            super().stop(limit_s)

    def close_connections(self, limit_s: float) -> None:
        """Close the connections, which reopen when needed.

        At one moment none is open, unless a work takes longer than `limit_s`; no work begins before.
        """
        with self._of_loop.closed(limit_s):
            together = self._together = threading.Barrier(READERS + 1)
            for _ in range(READERS):
                self._waiting.put(together)
            _meet(together, limit_s)

    def _run(self) -> None:
        connection: sqlite3.Connection | None = None
        met: threading.Barrier | None = None
        while (job := self._next()) is not None:
            if self._together is not met:
                met = self._together
                _close(connection)
                connection = None
                _meet(met, None)
            if isinstance(job, threading.Barrier):  # which has only woken this thread
                continue
            if job.outcome.done():  # given up or cancelled
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
                if connection is not None and not _undone(connection, error):
                    _close(connection)
                    connection = None
                code = code_of(error)
                if code in CLOSE_CONNECTIONS_S or code in MALFORMED:
                    self._on_failed(code)
            call_soon(job.loop, job.settle)
        _close(connection)


def _meet(together: threading.Barrier | None, limit_s: float | None) -> None:
    """Wait until all have come, or one has waited for longer than its limit."""
    if together is not None:
        with contextlib.suppress(threading.BrokenBarrierError):
            together.wait(limit_s)


def _close(connection: sqlite3.Connection | None) -> None:
    if connection is not None:
        connection.close()


def _undone(connection: sqlite3.Connection, error: BaseException) -> bool:
    """Return whether the failed transaction is over and the connection can be used again."""
    if isinstance(error, sqlite3.Error):
        return False
    with contextlib.suppress(sqlite3.Error, MemoryError):
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        return True
    return False
