"""The engine: a database with a clock, the one object through which all packages use the storage."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ledger_engine.core.clock import DAY, Clock, SystemClock, iso
from ledger_engine.core.errors import ExpiredCredential, StorageUnavailable
from ledger_engine.core.ids import IdMark
from ledger_engine.core.measuring import CommitObserver
from ledger_engine.core.settings import Location
from ledger_engine.limits import RateWindows, SharedState
from ledger_engine.store import (
    Database,
    Figure,
    Listener,
    Losses,
    Measure,
    Rewinder,
    T,
    Unit,
    Work,
    kept_time,
    postgres,
)
from ledger_engine.store.read_snapshot import report_nothing

if TYPE_CHECKING:
    from ledger_engine.store.copy_ends import CopiedTable, CopyTarget, Source
    from ledger_engine.store.read_snapshot import ReadSnapshot, ReportRows

KEEPS_TIME_EVERY_MS = 60_000  # how often the ledger's time is stored, together with other writes
# At most one test write is made in this many seconds, because anybody can call the health check without a
# key. Until the next test write, all callers get the result of the last test write.
WRITE_TRIED_EVERY_S = 1.0
WRITE_TRIED_FOR_S = 3.0  # how long a caller waits for the result of a test write


class Engine:
    """Runs works, each usually a `partial(module.function, tenant=…, …)`.

    A work is a plain function of a `Unit`. `shared_state` is the state that this process shares with other
    servers of the same ledger. By default nothing is shared.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        shared_state: SharedState | None = None,
        rewinder: Rewinder | None = None,
        losses: Losses | None = None,
        measure: Measure | None = None,
    ) -> None:
        self._database = database
        self._measure = measure
        self._rewinder = rewinder
        self.clock = clock
        self.shared_state = shared_state or SharedState(RateWindows())
        self._time_kept = 0
        self.losses = losses or Losses()
        # Messages that the health check shows while something is wrong, by subject.
        self.notices: dict[str, str] = {}
        self._write_tried: asyncio.Task[None] | None = None
        self._write_tried_at = 0.0

    @property
    def notice(self) -> str | None:
        """Return sentences about everything that a person must decide or repair; None if there is nothing."""
        sentences = (self.losses.accepted, *self.notices.values(), self.clock_notice())
        return " ".join(filter(None, sentences)) or None

    def clock_notice(self) -> str | None:
        """Return a sentence if the ledger's time is far ahead of the machine's clock, else None."""
        now, machine = self.clock.now(), self.clock.machine()
        if now - machine <= DAY:
            return None
        return (
            f"The ledger's time is {iso(now)}, although the machine's clock shows {iso(machine)}. The"
            " ledger's time never goes back, so it continues from the later time."
        )

    def read_at_once(self, work: Work[T]) -> tuple[T] | None:
        """Run `work`, which reads a few rows by an index, in this thread; return its result in a tuple.

        Return None if the work could take long; then call `read`. Raises the errors of the work.
        """
        return self._database.read_at_once(work)

    async def read_short(self, work: Work[T]) -> T:
        """Run a work that reads a few rows by an index: in this thread if possible, else as `read` does."""
        return await self.read(work, short=True)

    async def read(self, work: Work[T], *, short: bool = False) -> T:
        """Run `work` on a snapshot of the ledger. Raises the errors of the work, or StorageUnavailable."""
        try:
            result = self._database.read_at_once(work) if short else None
            return await self._database.read(work) if result is None else result[0]
        except ExpiredCredential as error:
            await self.keep_time(error.expired_at)
            raise

    async def write(self, work: Work[T]) -> T:
        """Run `work` as one transaction and return its result once it is durable.

        Raises the errors of the work, or StorageUnavailable.
        """
        if self.clock.now() - self._time_kept > KEEPS_TIME_EVERY_MS:
            return await self._write_and_keep_time(work)
        try:
            return await self._database.write(work)
        except ExpiredCredential as error:
            await self.keep_time(error.expired_at)
            raise

    async def keep_time(self, moment: int) -> None:
        """Store that the ledger's time is past `moment`, so that the clock never starts before `moment`.

        So a restart cannot make expired credentials and cursors valid again. If the storage fails, this
        raises no error: the clock of this process is past `moment` anyway, and the next call tries to store
        again.
        """
        if moment > self._time_kept:
            with contextlib.suppress(StorageUnavailable):
                self._time_kept = await self._database.write(kept_time.reach)

    async def _write_and_keep_time(self, work: Work[T]) -> T:
        try:
            answer, kept_time_row = await self._database.write(partial(_with_time, work=work))
        except ExpiredCredential as error:
            await self.keep_time(error.expired_at)
            raise
        self._time_kept = max(self._time_kept, kept_time_row)
        return answer

    async def check(self) -> None:
        """Raise StorageUnavailable if a test read fails.

        If the last write failed, this also makes a test write, and raises if the test write fails too.
        """
        await self._database.check()

    async def check_writable(self) -> None:
        """Raise StorageUnavailable if `check` raises it, or if a test write fails."""
        now = time.monotonic()
        if self._write_tried is None or now - self._write_tried_at >= WRITE_TRIED_EVERY_S:
            self._write_tried, self._write_tried_at = asyncio.create_task(self._try_to_write()), now
            self._write_tried.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            async with asyncio.timeout(WRITE_TRIED_FOR_S):
                await asyncio.shield(self._write_tried)
        except TimeoutError:
            raise StorageUnavailable("it does not answer") from None

    async def _try_to_write(self) -> None:
        await self._database.check()
        await self._database.write(kept_time.reach)

    def listen(self, listener: Listener) -> None:
        """Call `listener` with the topics of each commit, before the callers of `write` get their answers."""
        self._database.listen(listener)

    def observe_commits(self, observer: CommitObserver) -> None:
        """Call `observer` after each commit, in the writer's thread.

        The arguments of `observer` are the number of works in the commit and the seconds that it took.
        """
        self._database.observe_commits(observer)

    async def figures(self) -> list[Figure]:
        """Return whether there is a notice, and the measured values of the storage.

        While the database cannot be reached, the values that the database itself measures are missing.
        """
        has_notice = any((self.losses.refused, self.notice))
        notice = Figure("ledger_notice", has_notice, "1 while GET /api/health shows a notice.")
        return [notice] if self._measure is None else [notice, *await self._measure()]

    async def copy_to(self, file: Path, note: Callable[[], T]) -> tuple[IdMark, T]:
        """Copy the ledger to a new file; see `Rewinder.copy_to`."""
        return await self._rewindable().copy_to(file, note)

    async def replace_by(self, file: Path, mark: IdMark, then: Callable[[], None]) -> None:
        """Replace the whole ledger by a copy; see `Rewinder.replace_by`."""
        await self._rewindable().replace_by(file, mark, then)
        self._time_kept = 0

    async def forget_newest(self) -> None:
        """Accept that the newest events are missing, because they were removed on purpose."""
        await self._rewindable().forget_newest()

    def _rewindable(self) -> Rewinder:
        if self._rewinder is None:
            raise StorageUnavailable("this process cannot copy it")
        return self._rewinder

    async def close(self) -> None:
        """Give up the leases, finish the accepted works, then close the database."""
        await self.shared_state.leases.end()
        await self._database.close()


def _with_time(unit: Unit, work: Work[T]) -> tuple[T, int]:
    """Run the work, store its time, and return the work's result and this time."""
    return work(unit), kept_time.reach(unit)


def open_engine(
    database: Location,
    *,
    clock: Clock | None = None,
    serving: bool = False,
    accept_loss: bool = False,
    state: Path | None = None,
) -> Engine:
    """Open a SQLite file or a PostgreSQL database, and return an engine that uses it.

    A missing SQLite file is created. `serving` is true for the one process that serves a file over HTTP, and
    for each server on a PostgreSQL database. `serving` is false for a command that runs next to the servers.
    A server on PostgreSQL records in the folder `state` which commits the server has seen. With
    `accept_loss` the server continues on a database that lacks some of these commits. Raises
    StorageUnavailable.
    """
    clock = clock or SystemClock()
    if isinstance(database, str):
        postgres.require_driver(database)
        from ledger_engine.store.postgres.database import open_database as open_served
        from ledger_engine.store.postgres.leases import PostgresLeases

        database_served = open_served(database, clock, serving=serving, accept_loss=accept_loss, state=state)
        shared_state = SharedState(database_served.rate_limits, PostgresLeases(database_served))
        return Engine(
            database_served,
            clock,
            shared_state,
            losses=database_served.losses,
            measure=database_served.figures,
        )
    # Imported here, so that packages that use the engine do not load the drivers.
    from ledger_engine.store.sqlite.database import SqliteRewinder, open_database

    database_open = open_database(database, clock, checkpoints=serving)
    rewinder = SqliteRewinder(database, database_open)
    return Engine(
        database_open, clock, rewinder=rewinder, losses=database_open.losses, measure=database_open.figures
    )


def open_snapshot(
    database: Location, readers: int, report: ReportRows = report_nothing
) -> AbstractContextManager[ReadSnapshot]:
    """Open a ledger for `readers` threads, which all see the same state and change nothing.

    While a long work runs, `report` is called repeatedly with the number of rows that the work has read since
    the previous call of `report`. Raises StorageUnavailable.
    """
    if isinstance(database, str):
        postgres.require_driver(database)
        from ledger_engine.store.postgres.snapshot import open_snapshot as open_served

        return open_served(database, readers, report)
    from ledger_engine.store.sqlite.log import require_own_log
    from ledger_engine.store.sqlite.snapshot import open_snapshot as open_file

    require_own_log(database)
    return open_file(database, readers, report)


def open_source(database: Location) -> AbstractContextManager[Source]:
    """Open a ledger for copying it to another engine, and keep other writers out.

    If the ledger is in use, this raises StorageUnavailable for a SQLite file, and Conflict for a PostgreSQL
    database. Raises StorageUnavailable if the ledger cannot be read.
    """
    if isinstance(database, str):
        postgres.require_driver(database)
        from ledger_engine.store.postgres.transfer import open_source as open_served

        return open_served(database)
    from ledger_engine.store.sqlite.transfer import open_source as open_file

    return open_file(database)


def open_target(database: Location) -> AbstractContextManager[CopyTarget]:
    """Open a new file or an empty database; fill it with a ledger within the block.

    If the block ends with an error, this removes the file or the tables. Raises Conflict if the file exists
    or the database contains a ledger, and StorageUnavailable.
    """
    if isinstance(database, str):
        postgres.require_driver(database)
        from ledger_engine.store.postgres.transfer import open_target as open_served

        return open_served(database)
    from ledger_engine.store.sqlite.transfer import open_target as open_file

    return open_file(database)


def tables_of_ledger() -> tuple[CopiedTable, ...]:
    """Return the tables that a ledger of this version has on both engines."""
    from ledger_engine.store.sqlite import transfer

    return transfer.ledger_tables()
