"""Several threads or processes that read one state of a file, each on a connection of its own."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from ledger_engine.core.clock import SystemClock
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.ids import IdSource
from ledger_engine.store import ReportRows, T, Work, unwatched
from ledger_engine.store.snapshot import Reader, Snapshot, UnitReader
from ledger_engine.store.sqlite.backup import open_to_read
from ledger_engine.store.sqlite.unit import SqliteUnit

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

# For each connection. Pages are read once, and faster into memory that the processor has in its cache: with
# 16 MB an audit of a million transactions takes 0.2 s more.
_CACHE_KB = 1_024
_TRIES = 200
_KEPT_BYTES = 4 << 20
# Files from this size are read by processes. With 400 MB that saves 0.3 s; starting four takes 0.1 s.
PROCESSES_FROM_BYTES = 256 << 20


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
