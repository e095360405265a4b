"""The engine: a database and a clock; the only object that is handed around."""

from __future__ import annotations

from pathlib import Path

from ledger_engine.core.clock import Clock, SystemClock
from ledger_engine.database import Database, Listener, T, Work


class Engine:
    """Runs the rooms' works.

    A work is a plain function of a `Unit`, usually `partial(room.function, scope=…, …)`.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self.clock = clock

    async def read(self, work: Work[T]) -> T:
        """Run `work` on a snapshot of the ledger. Raises what it raises, or StorageUnavailable."""
        return await self._database.read(work)

    async def write(self, work: Work[T]) -> T:
        """Run `work` as one transaction and answer once it is durable.

        Raises what it raises, or StorageUnavailable.
        """
        return await self._database.write(work)

    async def check(self) -> None:
        """Raise StorageUnavailable when the database is lost: it cannot be read, or the last commit failed
        and a new one fails as well."""
        await self._database.check()

    def listen(self, listener: Listener) -> None:
        """Have `listener` called with the topics of each commit, before its works are answered."""
        self._database.listen(listener)

    async def close(self) -> None:
        """Finish the works that were taken, then close the database."""
        await self._database.close()


def open_engine(path: Path, *, clock: Clock | None = None, serving: bool = False) -> Engine:
    """An engine on the SQLite file at `path`, made if it is not there.

    `serving` is for the one process that serves the file over HTTP; an administration command beside
    it leaves it out. Raises StorageUnavailable.
    """
    # Here and not above, so that the rooms, which know the engine, do not load a driver with it.
    from ledger_engine.database.sqlite import open_database

    clock = clock or SystemClock()
    return Engine(open_database(path, clock, checkpoints=serving), clock)
