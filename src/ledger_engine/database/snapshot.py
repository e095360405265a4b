"""Several threads that read one snapshot of a file, each on a connection of its own."""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from ledger_engine.core.clock import SystemClock
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.ids import IdSource
from ledger_engine.database import T, Unit, Work
from ledger_engine.database.backup import OLDER, open_to_read
from ledger_engine.database.migrations import is_up_to_date
from ledger_engine.database.unit import SqliteUnit

_TRIES = 200
_INTERRUPTED_EVERY_S = 0.02
# For each connection. Pages are read once, and faster into memory that the processor has in its cache: with
# 16 MB an audit of a million transactions takes 0.2 s more.
_CACHE_KB = 1_024
_KEPT_BYTES = 4 << 20


class Snapshot:
    """A snapshot of a ledger. Open with `open_snapshot`.

    `name` is what others need to read the same snapshot, empty where nobody else can. `indexes_unchecked` is
    why the audit cannot check the indexes, None where it can.
    """

    def __init__(
        self,
        units: Sequence[Unit],
        interrupt: Callable[[], None],
        name: str = "",
        indexes_unchecked: str | None = None,
    ) -> None:
        self.name = name
        self.indexes_unchecked = indexes_unchecked
        self._interrupt = interrupt
        self._free: queue.SimpleQueue[Unit] = queue.SimpleQueue()
        for unit in units:
            self._free.put(unit)
        self._threads = ThreadPoolExecutor(len(units), thread_name_prefix="ledger-snapshot")
        self._closed = threading.Event()
        self._started: list[Future[Any]] = []

    def start(self, work: Work[T], /) -> Future[T]:
        """Run a work that reads, beside the others."""
        started = self._threads.submit(self._run, work)
        self._started.append(started)
        return started

    def require_open(self) -> None:
        """Raise StorageUnavailable once the snapshot is being closed; long works call it now and then."""
        if self._closed.is_set():
            raise StorageUnavailable("it is being closed")

    def close(self) -> None:
        """End the works that still run, and their threads."""
        self._closed.set()
        self._threads.shutdown(wait=False, cancel_futures=True)
        # Again and again: only a statement that is running is interrupted.
        while not all(each.done() for each in self._started):
            self._interrupt()
            wait(self._started, timeout=_INTERRUPTED_EVERY_S)

    def _run(self, work: Work[T]) -> T:
        self.require_open()
        unit = self._free.get()
        try:
            return work(unit)
        finally:
            self._free.put(unit)


@contextmanager
def open_snapshot(file: Path, threads: int) -> Iterator[Snapshot]:
    """Open a file for this many threads that all see the same state of it, without changing it.

    Where others write so often that no two connections see the same, there is one thread. Raises
    StorageUnavailable.
    """
    _keep_freed_memory()
    try:
        with ExitStack() as stack:
            connections = [stack.enter_context(closing(open_to_read(file))) for _ in range(threads)]
            on_one_state = _on_one_state(stack.enter_context(closing(open_to_read(file))), connections)
            units = [SqliteUnit(connection, SystemClock(), IdSource()) for connection in on_one_state]
            snapshot = Snapshot(units, partial(_interrupt, on_one_state))
            stack.callback(snapshot.close)
            for connection in connections:
                connection.row_factory = sqlite3.Row
                connection.execute(f"PRAGMA cache_size=-{_CACHE_KB}")
            try:
                yield snapshot
            except sqlite3.OperationalError:
                if is_up_to_date(connections[0]):
                    raise
                raise StorageUnavailable(OLDER) from None
    except sqlite3.Error as error:
        raise StorageUnavailable(f"{file}: {error}") from error


def _keep_freed_memory() -> None:
    """Free a large block once, after which glibc keeps blocks of up to its size instead of giving them back.

    Pages that were given back are cleared when they are used again: 0.4 s of 35 for ten million transactions.
    """
    bytearray(_KEPT_BYTES)


def _interrupt(connections: list[sqlite3.Connection]) -> None:
    for connection in connections:
        connection.interrupt()


def _on_one_state(
    watch: sqlite3.Connection, connections: list[sqlite3.Connection]
) -> list[sqlite3.Connection]:
    """Begin a transaction on each connection, all on the same state of the file; return these connections.

    They are, if nothing was committed from before the first began until after the last: then the number by
    which a connection is told of others' commits has not changed.
    """
    for _ in range(_TRIES):
        before = watch.execute("PRAGMA data_version").fetchone()
        for connection in connections:
            connection.execute("BEGIN")
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        if watch.execute("PRAGMA data_version").fetchone() == before:
            return connections
        for connection in connections:
            connection.execute("ROLLBACK")
    connections[0].execute("BEGIN")
    return connections[:1]
