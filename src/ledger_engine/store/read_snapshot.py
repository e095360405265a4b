"""A snapshot of a database, for several readers in parallel."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Protocol, TypeAlias

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.store import T, Unit

_INTERRUPTED_EVERY_S = 0.02


ReportRows: TypeAlias = Callable[[int], None]


def report_nothing(rows: int) -> None:
    """Do nothing. Callers that show no progress pass this function as `report`."""


class AuditUnit(Unit, Protocol):
    """The transaction of an audit: a `Unit` that reads very many rows, and also checks the stored files.

    `note_read` passes its argument to `report`.
    """

    report: ReportRows

    def inspect(self) -> list[str]:
        """Return a sentence for each fault that the database engine finds in its files; [] without faults."""
        ...

    def schema_differences(self) -> list[tuple[str, str]]:
        """Compare the tables, indexes, views and triggers with those that the migrations make.

        Return the name of each object that differs, with a sentence about the difference.
        """
        ...

    def is_damage(self, error: Exception, /) -> bool:
        """Return whether damaged data caused `error`; False if a later read of the data may succeed."""
        ...

    def note_read(self, rows: int, /) -> None:
        """Report that the work has read `rows` rows since its last report; the report shows the progress."""
        ...


AuditWork: TypeAlias = Callable[[AuditUnit], T]


class Reader(Protocol):
    """Runs works in sequence; `interrupt` may be called by any thread."""

    def run(self, work: AuditWork[T], /) -> T:
        """Run a work that reads. Raises StorageUnavailable after `interrupt` was called."""
        ...

    def interrupt(self) -> None:
        """End the current work, if there is one, and refuse further works."""
        ...


class UnitReader:
    """Runs works on a unit, in the thread of the caller.

    The argument `interrupt` is a function that ends the unit's current statement. `report` is called
    repeatedly with the number of rows that a work has read since the previous call.
    """

    def __init__(self, unit: AuditUnit, interrupt: Callable[[], None], report: ReportRows) -> None:
        unit.report = self._note_read
        self._unit = unit
        self._interrupt = interrupt
        self._report = report
        self._is_interrupted = False

    def run(self, work: AuditWork[T], /) -> T:
        self._require_open()
        return work(self._unit)

    def interrupt(self) -> None:
        self._is_interrupted = True
        self._interrupt()

    def _note_read(self, rows: int) -> None:
        self._require_open()
        self._report(rows)

    def _require_open(self) -> None:
        if self._is_interrupted:
            raise StorageUnavailable("it is being closed")


class ReadSnapshot:
    """A snapshot of a ledger. Open with `open_snapshot`.

    `indexes_unchecked` is the reason why the audit cannot check the indexes. It is None if the audit can
    check the indexes.
    """

    def __init__(self, readers: Sequence[Reader], indexes_unchecked: str | None = None) -> None:
        self.indexes_unchecked = indexes_unchecked
        self._readers = readers
        self._free: queue.SimpleQueue[Reader] = queue.SimpleQueue()
        for reader in readers:
            self._free.put(reader)
        self._threads = ThreadPoolExecutor(len(readers), thread_name_prefix="ledger-snapshot")
        self._futures: list[Future[Any]] = []

    def start(self, work: AuditWork[T], /) -> Future[T]:
        """Run a work that reads, in parallel with other works; its result arrives in the future."""
        future = self._threads.submit(self._run, work)
        # Forget the futures of finished works, because their results may be large.
        self._futures = [*(earlier for earlier in self._futures if not earlier.done()), future]
        return future

    def close(self) -> None:
        """End the current works and the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        # Repeat the interrupt, because one interrupt ends only the statement that is running at that moment.
        while not all(future.done() for future in self._futures):
            for reader in self._readers:
                reader.interrupt()
            wait(self._futures, timeout=_INTERRUPTED_EVERY_S)

    def _run(self, work: AuditWork[T]) -> T:
        reader = self._free.get()
        try:
            return reader.run(work)
        finally:
            self._free.put(reader)
