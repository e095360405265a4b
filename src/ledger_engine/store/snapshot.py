"""Several threads or processes that read one snapshot of a database, each on a connection of its own."""

from __future__ import annotations

import queue
import sqlite3
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.store import ReportRows, T, Work, unwatched
from ledger_engine.store.backup import open_to_read
from ledger_engine.store.snapshot_readers import ConnectionReader, FileReader, ProcessReader, Reader, can_fork

_TRIES = 200
_INTERRUPTED_EVERY_S = 0.02
_KEPT_BYTES = 4 << 20
# Files from this size are read by processes. With 400 MB that saves 0.3 s; starting four takes 0.1 s.
PROCESSES_FROM_BYTES = 256 << 20


class Snapshot:
    """A snapshot of a ledger. Open with `open_snapshot`.

    `name` is what others need to read the same snapshot, empty where nobody else can. `indexes_unchecked` is
    why the audit cannot check the indexes, None where it can.
    """

    def __init__(
        self, readers: Sequence[Reader], name: str = "", indexes_unchecked: str | None = None
    ) -> None:
        self.name = name
        self.indexes_unchecked = indexes_unchecked
        self._readers = readers
        self._free: queue.SimpleQueue[Reader] = queue.SimpleQueue()
        for reader in readers:
            self._free.put(reader)
        self._threads = ThreadPoolExecutor(len(readers), thread_name_prefix="ledger-snapshot")
        self._started: list[Future[Any]] = []

    def start(self, work: Work[T], /) -> Future[T]:
        """Run a work that reads, beside the others; where processes read, it and its result are pickled."""
        started = self._threads.submit(self._run, work)
        self._started.append(started)
        return started

    def close(self) -> None:
        """End the works that still run, and their threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        # Again and again: only a statement that is running is interrupted.
        while not all(each.done() for each in self._started):
            for reader in self._readers:
                reader.interrupt()
            wait(self._started, timeout=_INTERRUPTED_EVERY_S)

    def _run(self, work: Work[T]) -> T:
        reader = self._free.get()
        try:
            return reader.run(work)
        finally:
            self._free.put(reader)


@contextmanager
def open_snapshot(
    file: Path, readers: int, report: ReportRows = unwatched, *, processes: bool = False
) -> Iterator[Snapshot]:
    """Open a file for so many readers that all see the same state of it, without changing it.

    They are threads, or with `processes` copies of this process if the file is large and it can have some: it
    must have no connection open then, as two processes cannot share one. Where others write so often that no
    two readers see the same, there is one. `report` is called with the numbers of rows that long works have
    read. Raises StorageUnavailable.
    """
    _keep_freed_memory()
    kind: type[ConnectionReader] | type[ProcessReader]
    kind = ProcessReader if processes and _is_large(file) and can_fork() else ConnectionReader
    try:
        with ExitStack() as stack:
            opened: list[FileReader] = [
                stack.enter_context(closing(kind(file, report))) for _ in range(readers)
            ]
            watch = stack.enter_context(closing(open_to_read(file)))
            snapshot = Snapshot(_on_one_state(watch, opened))
            stack.callback(snapshot.close)
            yield snapshot
    except sqlite3.Error as error:
        raise StorageUnavailable(f"{file}: {error}") from error


def _is_large(file: Path) -> bool:
    with suppress(OSError):
        return file.stat().st_size >= PROCESSES_FROM_BYTES
    return False  # to open it will say why


def _keep_freed_memory() -> None:
    """Free a large block once, after which glibc keeps blocks of up to its size instead of giving them back.

    Pages that were given back are cleared when they are used again: 0.4 s of 35 for ten million transactions.
    """
    bytearray(_KEPT_BYTES)


def _on_one_state(watch: sqlite3.Connection, readers: list[FileReader]) -> list[FileReader]:
    """Begin a transaction with each reader, all on the same state of the file; return these readers.

    They are, if nothing was committed from before the first began until after the last: then the number by
    which a connection is told of others' commits has not changed.
    """
    for _ in range(_TRIES):
        before = watch.execute("PRAGMA data_version").fetchone()
        for reader in readers:
            reader.begin()
        if watch.execute("PRAGMA data_version").fetchone() == before:
            return readers
        for reader in readers:
            reader.roll_back()
    readers[0].begin()
    return readers[:1]
