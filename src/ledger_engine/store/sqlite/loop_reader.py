"""Reading in the event loop's thread, when the way to another thread would take longer than the work."""

from __future__ import annotations

import asyncio
import itertools
import resource
import sqlite3
import sys
import threading
from time import perf_counter

from ledger_engine.core.clock import Clock
from ledger_engine.core.ids import IdSource
from ledger_engine.store import T, Work
from ledger_engine.store.sqlite.connection import code_of
from ledger_engine.store.sqlite.file import DatabaseFile
from ledger_engine.store.sqlite.unit import ReadingUnit

STEPS = 1000  # of SQLite's virtual machine, after which it is asked whether to go on
# times this many for one work: about a millisecond at most. 100 transactions take 1,700 steps.
STEPS_MAX = 20
SLOW_S = 0.001
# After a slow work this many works go to the threads, after the next slow one twice as many, up to a limit;
# each fast work makes them one fewer. So where the file is not in memory hardly one in a hundred requests
# waits for the read of another.
SENT_AWAY, SENT_AWAY_MAX = 32, 1024


def _count_disk_reads() -> int:
    """Return how much this thread has read from the disk.

    A read can also take long because other threads hold the processor or the interpreter's lock, and reading
    in another thread would only add to that. If the system gives no number, each call returns a different
    one.
    """
    if sys.platform != "linux":
        return next(_CALLS)
    used = resource.getrusage(resource.RUSAGE_THREAD)
    return used.ru_inblock + used.ru_majflt


_CALLS = itertools.count()


class LoopReader:
    """Runs short works in the thread of an event loop, on a connection of its own.

    The works of one turn of the loop share a snapshot, which ends before anything that has happened since is
    handled: so a client that was answered sees what it wrote. The cache of their unit is kept for the next
    turn, unless somebody has written. Works that fail here go to a thread, which meets the same error and
    handles it.
    """

    def __init__(self, file: DatabaseFile, clock: Clock, ids: IdSource) -> None:
        self._file = file
        self._clock = clock
        self._ids = ids
        self._connection: sqlite3.Connection | None = None
        self._unit: ReadingUnit | None = None  # of the turn under way
        self._kept: ReadingUnit | None = None  # the unit of the last turn, with its cache …
        self._version = 0  # … and is true until this is another number
        self._in_use = threading.Lock()  # held for a turn, and to close the connection
        self._loop: asyncio.AbstractEventLoop | None = None  # of the last turn
        self._disk_reads = 0  # of this thread, when the turn began
        self._questions = 0  # how often SQLite has asked whether to go on
        self._sent_away = 0  # works that are still to go to the threads …
        self._to_send_away = 0  # … and the number at the last slow work, less the fast ones since

    def run(self, work: Work[T]) -> tuple[T] | None:
        """Run a short work; return its result in a tuple, or None if it is to run in a thread.

        Raises what the work raises.
        """
        if self._sent_away:
            self._sent_away -= 1
            return None
        began, self._questions = perf_counter(), 0
        try:
            unit = self._unit_of_turn()
            if unit is None:
                return None
            unit.begin_work()  # a time of its own, by which a token may have expired
            return (work(unit),)
        except (sqlite3.Error, OSError) as error:
            if code_of(error) != sqlite3.SQLITE_INTERRUPT:
                self._close()
            return None
        finally:
            took_long = perf_counter() - began > SLOW_S and _count_disk_reads() != self._disk_reads
            if self._questions > STEPS_MAX or took_long:
                self._sent_away = min(max(SENT_AWAY, 2 * self._to_send_away), SENT_AWAY_MAX)
                self._to_send_away = self._sent_away
            elif self._to_send_away:
                self._to_send_away -= 1

    def close(self, limit_s: float) -> None:
        """Close the connection, after the turn under way. It stays open if that takes longer than `limit_s`.

        No work may be run any more.
        """
        if self._in_use.acquire(timeout=limit_s):
            self._close()
            self._in_use.release()

    def _unit_of_turn(self) -> ReadingUnit | None:
        """Return the unit of this turn of the loop, None when the connection is in use elsewhere."""
        loop = asyncio.get_running_loop()
        if self._unit is not None and self._loop is loop:
            return self._unit
        if not self._in_use.acquire(blocking=False):
            return None
        self._loop = loop
        self._disk_reads = _count_disk_reads()
        loop.call_soon(self._end_turn)
        self._file.require_same()
        connection = self._connection or self._connect()
        version = self._file.begin_to_read(connection)
        if self._kept is None or version != self._version:
            self._forget()
            self._kept, self._version = ReadingUnit(connection, self._clock, self._ids), version
        self._kept.limit_size()
        self._unit = self._kept
        return self._unit

    def _connect(self) -> sqlite3.Connection:
        connection = self._connection = self._file.connect_reader()
        connection.execute("PRAGMA busy_timeout=0")
        connection.set_progress_handler(self._is_long, STEPS)
        return connection

    def _end_turn(self) -> None:
        unit, self._unit, self._questions = self._unit, None, 0
        try:
            if unit is not None and self._connection is not None:
                self._connection.execute("COMMIT")
        except sqlite3.Error:
            self._close()
        finally:
            self._in_use.release()

    def _is_long(self) -> bool:
        self._questions += 1
        return self._questions > STEPS_MAX

    def _close(self) -> None:
        connection, self._connection, self._unit = self._connection, None, None
        self._forget()
        if connection is not None:
            connection.close()

    def _forget(self) -> None:
        unit, self._kept = self._kept, None
        if unit is not None:
            unit.forget()
