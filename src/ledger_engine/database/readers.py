"""The reading threads, each with its own connection."""

from __future__ import annotations

import contextlib
import queue
import sqlite3
import threading
import time
from collections.abc import Callable

from ledger_engine.core.clock import Clock
from ledger_engine.core.ids import IdSource
from ledger_engine.database.connection import code_of, public_error
from ledger_engine.database.file import DatabaseFile
from ledger_engine.database.jobs import Job, call_soon
from ledger_engine.database.unit import SqliteUnit

READERS = 3
# How long the threads may take to close their connections, by the error that stopped a work. SQLite retries
# for 10 seconds to read past a lock that this process still holds; the other lock is mostly a command's.
CLOSE_CONNECTIONS_S = {sqlite3.SQLITE_BUSY: 2, sqlite3.SQLITE_PROTOCOL: 15}


class Readers:
    """Run works in parallel, each on a snapshot of the file.

    `on_locked` is called with SQLite's code when a lock has stopped one of them.
    """

    def __init__(
        self, file: DatabaseFile, clock: Clock, ids: IdSource, on_locked: Callable[[int], None]
    ) -> None:
        self._file = file
        self._clock = clock
        self._ids = ids
        self._on_locked = on_locked
        self._waiting: queue.SimpleQueue[Job | threading.Barrier | None] = queue.SimpleQueue()
        self._together: threading.Barrier | None = None
        self._threads = [
            threading.Thread(target=self._run, name=f"ledger-reader-{number}", daemon=True)
            for number in range(READERS)
        ]

    def __len__(self) -> int:
        """Return how many works are waiting."""
        return self._waiting.qsize()

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def add(self, job: Job) -> None:
        """Queue a work for one of the threads."""
        self._waiting.put(job)

    def close_connections(self, limit_s: float) -> None:
        """Close the connections, which reopen when needed.

        At one moment none is open, unless a work takes longer than `limit_s`; no work begins before.
        """
        together = self._together = threading.Barrier(READERS + 1)
        for _ in range(READERS):
            self._waiting.put(together)
        _meet(together, limit_s)

    def stop(self, limit_s: float) -> None:
        """Finish the accepted works and end the threads; wait for that at most `limit_s` seconds."""
        for _ in range(READERS):
            self._waiting.put(None)
        deadline = time.monotonic() + limit_s
        for thread in self._threads:
            thread.join(max(0, deadline - time.monotonic()))

    def _run(self) -> None:
        connection: sqlite3.Connection | None = None
        met: threading.Barrier | None = None
        while (job := self._waiting.get()) is not None:
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
                connection.execute("BEGIN")
                job.answer = job.work(SqliteUnit(connection, self._clock, self._ids))
                connection.execute("COMMIT")
            except BaseException as error:
                job.error = public_error(error)
                if connection is not None and not _undone(connection, error):
                    _close(connection)
                    connection = None
                if (code := code_of(error)) in CLOSE_CONNECTIONS_S:
                    self._on_locked(code)
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
    with contextlib.suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        return True
    return False
