"""One transaction of SQLite for the works of a group."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable

from ledger_engine.core.clock import Clock
from ledger_engine.core.ids import IdSource
from ledger_engine.store.committer import GroupCommitter, WorkFailed
from ledger_engine.store.sqlite.connection import FATAL, code_of, public_error, reason_of
from ledger_engine.store.sqlite.unit import SqliteUnit
from ledger_engine.store.threaded import Job


class CommitFailed(Exception):
    """A commit failed, though all of it may have reached the disk."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(reason)
        self.reason = reason


class Committer(GroupCommitter[SqliteUnit]):
    """Runs the works of each group and commits them.

    `begin` begins the transaction of each group. It returns whether the database was changed by others since
    the group before; otherwise what that one has cached is still true.
    """

    failures = (sqlite3.Error,)
    _connection: sqlite3.Connection

    def __init__(self, clock: Clock, ids: IdSource, begin: Callable[[sqlite3.Connection], bool]) -> None:
        super().__init__(clock, ids)
        self._begin = begin
        self.newest_event = ""  # the greatest id of an event that was committed, or that others have

    def commit(self, connection: sqlite3.Connection, group: list[Job]) -> set[str]:
        """Run the works in one transaction and return the topics they announced.

        Raises sqlite3.Error or CommitFailed when none of them was committed.
        """
        self._connection = connection
        try:
            return self._run(group)
        except BaseException:
            self.forget()
            raise

    def _run_in_transaction(self, group: list[Job], *, savepoints: bool) -> set[str]:
        connection = self._connection
        if self._begin(connection):
            self.forget()
        unit = self._unit_for(connection, lambda: SqliteUnit(connection, self._clock, self._ids))
        topics, _ = self._run_works(unit, group, savepoints=savepoints)
        try:
            unit.flush()
        except BaseException as error:
            self._require_sound(error)
            raise WorkFailed(error) from error
        began = time.perf_counter()
        try:
            connection.execute("COMMIT")
        except (sqlite3.Error, MemoryError) as error:
            raise CommitFailed(error) from error
        self.newest_event = max(self.newest_event, unit.newest_event)
        self._committed(group, began)
        return topics

    def _roll_back(self) -> None:
        self.forget()
        self._connection.execute("ROLLBACK")

    def _require_sound(self, error: BaseException) -> None:
        # A full disk rolls back the whole transaction unasked, including earlier works.
        if not self._connection.in_transaction or code_of(error) in FATAL:
            raise sqlite3.OperationalError(reason_of(error)) from error

    def _public_error(self, error: BaseException) -> BaseException:
        return public_error(error)
