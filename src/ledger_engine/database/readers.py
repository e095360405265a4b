"""The reading threads, each with its own connection."""

from __future__ import annotations

import contextlib
import queue
import sqlite3
import threading
import time

from ledger_engine.core.clock import Clock
from ledger_engine.core.ids import IdSource
from ledger_engine.database.connection import public_error
from ledger_engine.database.file import DatabaseFile
from ledger_engine.database.jobs import Job, call_soon
from ledger_engine.database.unit import SqliteUnit

READERS = 3
CLOSE_CONNECTIONS_S = 2  # how long the threads may take to close their connections


class Readers:
    """Run works in parallel, each on a snapshot of the file."""

    def __init__(self, file: DatabaseFile, clock: Clock, ids: IdSource) -> None:
        self._file = file
        self._clock = clock
        self._ids = ids
        self._waiting: queue.SimpleQueue[Job | threading.Barrier | None] = queue.SimpleQueue()
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

    def close_connections(self) -> None:
        """Close the connections, waiting at most CLOSE_CONNECTIONS_S seconds; they reopen when needed."""
        together = threading.Barrier(READERS + 1)
        for _ in range(READERS):
            self._waiting.put(together)
        _meet(together)

    def stop(self, limit_s: float) -> None:
        """Finish the accepted works and end the threads; wait for that at most `limit_s` seconds."""
        for _ in range(READERS):
            self._waiting.put(None)
        deadline = time.monotonic() + limit_s
        for thread in self._threads:
            thread.join(max(0, deadline - time.monotonic()))

    def _run(self) -> None:
        connection: sqlite3.Connection | None = None
        while (job := self._waiting.get()) is not None:
            if isinstance(job, threading.Barrier):
                _close(connection)
                connection = None
                _meet(job)
                continue
            if job.future.done():  # given up or cancelled
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
            call_soon(job.loop, job.settle)
        _close(connection)


def _meet(together: threading.Barrier) -> None:
    with contextlib.suppress(threading.BrokenBarrierError):
        together.wait(CLOSE_CONNECTIONS_S)


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
