"""What runs the works of a snapshot: a connection in a thread of this process, or a process of its own."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from ledger_engine.core.clock import SystemClock
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.ids import IdSource
from ledger_engine.store import ReportRows, T, Unit, Work
from ledger_engine.store.backup import open_to_read
from ledger_engine.store.unit import SqliteUnit

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

# For each connection. Pages are read once, and faster into memory that the processor has in its cache: with
# 16 MB an audit of a million transactions takes 0.2 s more.
_CACHE_KB = 1_024


class Reader(Protocol):
    """Runs works one after the other; `interrupt` may be called by any thread."""

    def run(self, work: Work[T], /) -> T:
        """Run a work that reads. Raises StorageUnavailable once it is interrupted."""
        ...

    def interrupt(self) -> None:
        """End the work that runs, if one does, and let no other begin."""
        ...


class FileReader(Reader, Protocol):
    """A reader of a file, on the state that the file has when it begins."""

    def begin(self) -> None:
        """Begin the transaction in which all works run."""
        ...

    def roll_back(self) -> None:
        """End that transaction."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class Watched(Unit, Protocol):
    """A unit that reports to `report` how many rows its works have read."""

    report: ReportRows


class UnitReader:
    """Runs works on a unit, in the thread that asks for it.

    `interrupt` ends a statement that runs; `report` is called with the numbers of rows that works have read.
    """

    def __init__(self, unit: Watched, interrupt: Callable[[], None], report: ReportRows) -> None:
        unit.report = self._note_read
        self._unit = unit
        self._interrupt = interrupt
        self._report = report
        self._interrupted = False

    def run(self, work: Work[T], /) -> T:
        self._require_open()
        return work(self._unit)

    def interrupt(self) -> None:
        self._interrupted = True
        self._interrupt()

    def _note_read(self, rows: int) -> None:
        self._require_open()
        self._report(rows)

    def _require_open(self) -> None:
        if self._interrupted:
            raise StorageUnavailable("it is being closed")


class ConnectionReader(UnitReader):
    """The `FileReader` with a connection in this process. Raises StorageUnavailable and sqlite3.Error."""

    def __init__(self, file: Path, report: ReportRows) -> None:
        self._connection = open_to_read(file, cache_kb=_CACHE_KB)
        self._connection.row_factory = sqlite3.Row
        unit = SqliteUnit(self._connection, SystemClock(), IdSource())
        super().__init__(unit, self._connection.interrupt, report)

    def begin(self) -> None:
        self._connection.execute("BEGIN")
        self._connection.execute("SELECT 1 FROM sqlite_master").fetchone()

    def roll_back(self) -> None:
        self._connection.execute("ROLLBACK")

    def close(self) -> None:
        self._connection.close()


def can_fork() -> bool:
    """Return whether a copy of this process may read: it has no other thread, as the copy would lack that.

    A lock that the other thread holds would never be released in the copy.
    """
    with suppress(FileNotFoundError):  # where /proc is not mounted
        return sys.platform == "linux" and len(os.listdir("/proc/self/task")) == 1
    return False


class ProcessReader:
    """The `FileReader` whose connection is in a copy of this process, which opens the file at `begin`.

    Works and results are pickled on their way. The hashes of texts are those of this process. Where one
    process with two threads reads ten million transactions, a seventh of two processors waits for Python's
    lock.
    """

    def __init__(self, file: Path, report: ReportRows) -> None:
        from multiprocessing import get_context  # 10 ms

        context = get_context("fork")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(file, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self._report = report

    def begin(self) -> None:
        self._ask("begin")

    def roll_back(self) -> None:
        self._ask("roll_back")

    def run(self, work: Work[T], /) -> T:
        return cast(T, self._ask("run", work))

    def interrupt(self) -> None:
        self._process.kill()  # it only reads, and may still have its parent's handlers of gentler signals

    def close(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()

    def _ask(self, *asked: Any) -> Any:
        """Have the other process call a method of its reader; return the result, or raise what it raised."""
        try:
            self._pipe.send(asked)
            while True:
                kind, value = self._pipe.recv()
                if kind != "read":
                    break
                self._report(value)
        except (EOFError, OSError) as error:
            raise StorageUnavailable("a process that reads it has ended") from error
        if kind == "raised":
            raise value
        return value


def _serve(file: Path, pipe: Connection[Any, Any]) -> None:
    """Do what the parent asks for, until it ends this process or has ended itself."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the parent, which ends this process
    reader: ConnectionReader | None = None
    try:
        while True:
            name, *arguments = pipe.recv()
            try:
                reader = reader or ConnectionReader(file, lambda rows: pipe.send(("read", rows)))
                answer = "returned", getattr(reader, name)(*arguments)
            except Exception as error:
                error.add_note(traceback.format_exc())
                answer = "raised", error
            pipe.send(answer)
    except (EOFError, OSError):
        return


def _end_with_parent() -> None:
    """End this process when its parent has ended, also in the middle of a work."""
    from multiprocessing import connection, parent_process

    parent = parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)
