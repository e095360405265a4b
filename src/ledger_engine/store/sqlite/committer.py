"""One transaction for the works of a group: each succeeds or fails by itself, and one commit stores all."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable

from ledger_engine.core.clock import Clock
from ledger_engine.core.ids import IdSource
from ledger_engine.core.measuring import CommitObserver, log_commit
from ledger_engine.store.group_cache import ReusedUnit
from ledger_engine.store.sqlite.connection import FATAL, code_of, public_error
from ledger_engine.store.sqlite.unit import SqliteUnit
from ledger_engine.store.threaded import Job

CAUTIOUS_GROUPS = 100  # groups that run with savepoints after one in which a work failed

_Run = Callable[[sqlite3.Connection, SqliteUnit, Job], None]


class CommitFailed(Exception):
    """A commit failed, though all of it may have reached the disk."""

    def __init__(self, reason: sqlite3.Error) -> None:
        super().__init__(reason)
        self.reason = reason


class Committer:
    """Runs the works of each group and commits them.

    `begin` begins the transaction of each group. It returns whether the database was changed by others since
    the group before; otherwise what that one held is still true, and is kept.
    """

    def __init__(self, clock: Clock, ids: IdSource, begin: Callable[[sqlite3.Connection], bool]) -> None:
        self._clock = clock
        self._ids = ids
        self._begin = begin
        self._cautious_groups = 0
        self._kept: ReusedUnit[SqliteUnit] = ReusedUnit()
        self.observer: CommitObserver | None = None

    def commit(self, connection: sqlite3.Connection, group: list[Job]) -> set[str]:
        """Run the works in one transaction and return the topics they announced.

        Raises sqlite3.Error or CommitFailed when none of them was committed.

        A savepoint around each work takes a tenth of its time, and most groups have no work that fails. So a
        group first runs without savepoints; when a work fails that has written, the whole group runs again
        with them, and so do the next groups for a while. A single work needs none.
        """
        try:
            return self._run_group(connection, group)
        except BaseException:
            self._kept.forget()
            raise

    def _run_group(self, connection: sqlite3.Connection, group: list[Job]) -> set[str]:
        if self._cautious_groups == 0 or len(group) == 1:
            try:
                return self._run_all(connection, group, self._run_bare)
            except _WorkFailed as failed:
                self._kept.forget()
                connection.execute("ROLLBACK")
                if len(group) == 1:
                    group[0].error = public_error(failed.reason)
                    return set()
                self._cautious_groups = CAUTIOUS_GROUPS
        self._cautious_groups -= 1
        return self._run_all(connection, group, self._run_in_savepoint)

    def _run_all(self, connection: sqlite3.Connection, group: list[Job], run: _Run) -> set[str]:
        unit = self._unit(connection)
        topics: set[str] = set()
        for job in group:
            unit.begin_work()
            run(connection, unit, job)
            if job.error is None:
                topics |= unit.topics()
        self._flush(connection, unit)
        began = time.perf_counter()
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise CommitFailed(error) from error
        seconds = time.perf_counter() - began
        log_commit(len(group), seconds)
        if self.observer is not None:
            self.observer(len(group), seconds)
        return topics

    def _unit(self, connection: sqlite3.Connection) -> SqliteUnit:
        """Begin a transaction, and return its unit."""
        if self._begin(connection):
            self._kept.forget()
        return self._kept.unit_for(connection, lambda: SqliteUnit(connection, self._clock, self._ids))

    def _flush(self, connection: sqlite3.Connection, unit: SqliteUnit) -> None:
        """Write what is held for works without savepoints."""
        try:
            unit.flush()
        except BaseException as error:
            _require_sound(connection, error)
            raise _WorkFailed(error) from error

    def _run_bare(self, connection: sqlite3.Connection, unit: SqliteUnit, job: Job) -> None:
        changes = connection.total_changes
        try:
            job.answer = job.work(unit)
        except BaseException as error:
            _require_sound(connection, error)
            if unit.wrote or connection.total_changes != changes or isinstance(error, sqlite3.Error):
                raise _WorkFailed(error) from error
            job.error = public_error(error)

    def _run_in_savepoint(self, connection: sqlite3.Connection, unit: SqliteUnit, job: Job) -> None:
        connection.execute("SAVEPOINT work")
        try:
            job.answer = job.work(unit)
            unit.flush()
        except BaseException as error:
            _require_sound(connection, error)
            unit.forget()
            connection.execute("ROLLBACK TO work")
            job.error = public_error(error)
            self._cautious_groups = CAUTIOUS_GROUPS
        connection.execute("RELEASE work")


class _WorkFailed(Exception):
    """A work failed, and its changes cannot be separated from those of the others in its group."""

    def __init__(self, reason: BaseException) -> None:
        super().__init__(reason)
        self.reason = reason


def _require_sound(connection: sqlite3.Connection, error: BaseException) -> None:
    """Raise sqlite3.Error when the error ended the transaction, rather than only the work."""
    # A full disk rolls back the whole transaction unasked, including earlier works.
    if not connection.in_transaction or code_of(error) in FATAL:
        raise sqlite3.OperationalError(str(error)) from error
