"""The SQLite transaction in which the works of a group run (`store/group_committer.py`)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from ledger_engine.core.clock import Clock
from ledger_engine.core.ids import IdSource
from ledger_engine.store.group_committer import DatabaseTransaction, GroupCommitter, WorkFailed
from ledger_engine.store.sqlite.connection import FATAL, code_of, public_error, reason_of
from ledger_engine.store.sqlite.unit import SqliteUnit
from ledger_engine.store.threaded import QueuedWork


class CommitFailed(Exception):
    """The statement COMMIT raised an error. All pages of the commit may be in the log nevertheless.

    `may_be_done` is true if it is not known whether the commit succeeded before the error. If it is false,
    the commit did not succeed.
    """

    def __init__(self, reason: Exception, *, may_be_done: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.may_be_done = may_be_done


class Committer(GroupCommitter[SqliteUnit]):
    """Commits groups in sequence.

    `begin` begins the transaction of each group, and returns whether another process has changed the database
    since the last group. If it returns False, the cache of the last group is still valid.
    """

    def __init__(self, clock: Clock, ids: IdSource, begin: Callable[[sqlite3.Connection], bool]) -> None:
        super().__init__()
        self.clock = clock
        self.ids = ids
        self.begin = begin
        self.newest_event = ""  # the greatest id of a committed event of any process

    def commit(self, connection: sqlite3.Connection, group: list[QueuedWork]) -> set[str]:
        """Run the works in one transaction and return the topics that they announced.

        Raises sqlite3.Error if nothing was committed, and CommitFailed if the statement COMMIT failed. After
        each of these errors the caller must close the connection.
        """
        return self.commit_group(_Transaction(self, connection, group))


class _Transaction(DatabaseTransaction[SqliteUnit]):
    """The transaction of one group."""

    failures = (sqlite3.Error,)

    def __init__(self, committer: Committer, connection: sqlite3.Connection, group: list[QueuedWork]) -> None:
        self._committer = committer
        self._connection = connection
        self._group = group

    def begin(self) -> tuple[SqliteUnit, list[QueuedWork]]:
        committer, connection = self._committer, self._connection
        if committer.begin(connection):
            committer.forget()
        unit = committer.unit_for(connection, lambda: SqliteUnit(connection, committer.clock, committer.ids))
        return unit, self._group

    def require_sound(self, error: BaseException) -> None:
        # If the disk is full, SQLite rolls back the whole transaction, including the earlier works.
        if not self._connection.in_transaction or code_of(error) in FATAL:
            raise sqlite3.OperationalError(reason_of(error)) from error

    def public_error(self, error: BaseException) -> BaseException:
        return public_error(error)

    def commit(self, unit: SqliteUnit, works: list[QueuedWork], topics: set[str], *, wrote: bool) -> bool:
        try:
            self._connection.execute("COMMIT")
        except (sqlite3.Error, MemoryError) as error:
            # A MemoryError can come before or after the commit. If the transaction has not ended, the commit
            # failed. If the transaction has ended, the commit may have succeeded or failed: some failures
            # also end the transaction.
            ended = isinstance(error, MemoryError) and not self._connection.in_transaction
            raise CommitFailed(error, may_be_done=ended) from error
        self._committer.newest_event = max(self._committer.newest_event, unit.newest_event)
        return True

    def roll_back(self, error: BaseException) -> None:
        self._committer.forget()
        if isinstance(error, WorkFailed):  # after any other error the caller closes the connection
            self._connection.execute("ROLLBACK")
