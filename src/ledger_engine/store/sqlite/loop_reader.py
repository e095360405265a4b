"""Runs short works in the event loop's thread, because to hand them to another thread would take longer.

A *work* is a function of a `Unit` (see `store`); a short work reads a few rows by an index.
"""

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

STEPS = 1000  # after this many steps of its virtual machine, SQLite asks whether to continue
# SQLite stops a work after STEPS_MAX times STEPS steps, which take about a millisecond. The work then runs in
# a thread instead. To read 100 transactions takes 1,700 steps.
STEPS_MAX = 20
SLOW_S = 0.001  # a work that takes longer than this counts as slow if it read from the disk
# After a slow or stopped work the next SENT_AWAY works go to the threads. Each further slow work doubles this
# number, up to SENT_AWAY_MAX, and each fast work reduces the number by one. So even if the file is not in
# memory, fewer than about one in a hundred requests wait for another request's read from the disk.
SENT_AWAY, SENT_AWAY_MAX = 32, 1024


def _count_disk_reads() -> int:
    """Return a number that grows whenever this thread reads from the disk.

    If a work was slow although it read nothing from the disk, the work waited for the processor or for the
    interpreter's lock. To run such works in a thread would only make these waits longer. If the system does
    not count reads from the disk, each call returns a different number, as if the work had read from the
    disk.
    """
    if sys.platform != "linux":
        return next(_CALLS)
    used = resource.getrusage(resource.RUSAGE_THREAD)
    return used.ru_inblock + used.ru_majflt


_CALLS = itertools.count()


class LoopReader:
    """Runs short works in the thread of an event loop, on a separate connection.

    All works in one iteration of the loop, here called a turn, share a snapshot. The snapshot ends with the
    turn, before the loop handles a newer request. So a client that got the answer to a write sees this write
    in its next read. The next turn uses the same cache of the unit, unless another connection has written.
    If the database fails, the work runs again in a thread, which handles the error.
    """

    def __init__(self, file: DatabaseFile, clock: Clock, ids: IdSource) -> None:
        self._file = file
        self._clock = clock
        self._ids = ids
        self._connection: sqlite3.Connection | None = None
        self._unit: ReadingUnit | None = None  # the unit of the current turn
        self._kept: ReadingUnit | None = None  # the unit of the last turn, with its cache
        self._version = 0  # the cache in `_kept` is valid while the database has this version
        self._in_use = threading.Lock()  # held during a turn, and while the connection closes
        self._loop: asyncio.AbstractEventLoop | None = None  # the loop of the last turn
        self._disk_reads = 0  # the disk reads of this thread when the turn began
        self._questions = 0  # how often SQLite has asked whether to continue the current work
        self._skips_left = 0  # how many of the next works must go to the threads
        # The number of works that the last slow work has sent to the threads, minus the fast works since
        # then.
        self._skip_length = 0

    def run(self, work: Work[T]) -> tuple[T] | None:
        """Run a short work; return its result in a tuple, or None if it must run in a thread.

        Raises the errors of the work.
        """
        if self._skips_left:
            self._skips_left -= 1
            return None
        began, self._questions = perf_counter(), 0
        try:
            unit = self._unit_of_turn()
            if unit is None:
                return None
            unit.begin_work()  # sets the time of this work, which decides whether a token has expired
            return (work(unit),)
        except (sqlite3.Error, OSError) as error:
            if code_of(error) != sqlite3.SQLITE_INTERRUPT:
                self._close()
            return None
        finally:
            took_long = perf_counter() - began > SLOW_S and _count_disk_reads() != self._disk_reads
            if self._questions > STEPS_MAX or took_long:
                self._skips_left = min(max(SENT_AWAY, 2 * self._skip_length), SENT_AWAY_MAX)
                self._skip_length = self._skips_left
            elif self._skip_length:
                self._skip_length -= 1

    def is_in_use(self) -> bool:
        """Return whether a turn of the loop is reading; any thread may call this."""
        return self._in_use.locked()

    def close(self, limit_s: float) -> None:
        """Close the connection after the current turn; leave it open if the turn takes longer than `limit_s`.

        Run no work after this.
        """
        if self._in_use.acquire(timeout=limit_s):
            self._close()
            self._in_use.release()

    def _unit_of_turn(self) -> ReadingUnit | None:
        """Return the unit of this turn of the loop; None while another loop uses the connection."""
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
