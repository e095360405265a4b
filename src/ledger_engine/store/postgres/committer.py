"""One transaction for the works of a group: each succeeds or fails by itself, and one commit stores all."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from ledger_engine.core.clock import Clock
from ledger_engine.core.ids import IdSource
from ledger_engine.core.measuring import CommitObserver, log_commit
from ledger_engine.store import book_of
from ledger_engine.store.group_cache import ReusedUnit, prefetch
from ledger_engine.store.postgres.connection import Connection
from ledger_engine.store.postgres.errors import OLDER, ConnectionLost, DatabaseFailed, public_error
from ledger_engine.store.postgres.locks import Locks, lock_of
from ledger_engine.store.postgres.notifications import Notifier
from ledger_engine.store.postgres.rendering import rendered
from ledger_engine.store.postgres.seen import Seen
from ledger_engine.store.postgres.unit import Numeric, PostgresUnit
from ledger_engine.store.threaded import Job

CAUTIOUS_GROUPS = 100  # groups that run with savepoints after one in which a work failed that had written
TRIES = 8  # of a group whose transaction another one keeps from being committed, or whose connection is lost
_WAIT_S = 0.005  # up to this before the second try, and up to twice as long before each further one

_COMMIT, _ROLLBACK = rendered("COMMIT"), rendered("ROLLBACK")
_SAVEPOINT, _UNDO, _RELEASE = (
    rendered("SAVEPOINT work"), rendered("ROLLBACK TO SAVEPOINT work"), rendered("RELEASE SAVEPOINT work"),
)  # fmt: skip


class OutcomeUnknown(Exception):
    """The connection was lost after COMMIT was sent."""


@dataclass(slots=True)
class Counts:
    """How many groups were tried, and how many of these had to be tried again."""

    groups: int = 0
    retries: int = 0


@dataclass(slots=True)
class Committer:
    """Runs the works of each group and commits them, on connections that `connect` opens."""

    clock: Clock
    ids: IdSource
    locks: Locks
    notifier: Notifier
    connect: Callable[[], Connection]
    numeric: Numeric
    seen: Seen
    observer: CommitObserver | None = None
    counts: Counts = field(default_factory=Counts)
    _connection: Connection | None = None
    _cautious_groups: int = 0
    _kept: ReusedUnit[PostgresUnit] = field(default_factory=ReusedUnit)

    def commit(self, group: list[Job]) -> set[str]:
        """Run the works in one transaction and return the topics they announced.

        Raises OutcomeUnknown, and ConnectionLost or DatabaseFailed when none of them was committed.
        """
        self.counts.groups += 1
        locks = _locks_of(group)
        for left in reversed(range(TRIES)):
            try:
                return self._try(group, locks)
            except ConnectionLost:
                self.close()
                if not left:
                    raise
            except DatabaseFailed as failed:
                self._undo()
                if not left or not failed.passing:
                    raise
            except BaseException:
                self._undo()
                raise
            self.counts.retries += 1
            time.sleep(random.random() * _WAIT_S * 2 ** (TRIES - 1 - left))
        raise AssertionError("the last try returns or raises")

    @property
    def process(self) -> int | None:
        """The number of the process of the database that writes for this server, if there is one now."""
        connection = self._connection
        return connection.process if connection is not None and connection.usable else None

    def close(self) -> None:
        """Close the connection; it opens again when needed."""
        self._kept.forget()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _try(self, group: list[Job], locks: Collection[int]) -> set[str]:
        if self._connection is None or not self._connection.usable:
            self._connection = self.connect()
        connection = self._connection
        reached = self.locks.begin(connection, locks)
        if reached is not None:
            self.clock.advance_past(reached)
        for job in group:
            job.answer = job.error = None
        unit = self._unit_for(connection, locks, reached)
        if len(group) > 1:
            prefetch(unit, group, (ConnectionLost, DatabaseFailed))
        if self._cautious_groups == 0 or len(group) == 1:
            try:
                topics, wrote = self._run_bare(unit, group)
                return self._finish(connection, unit, group, locks, topics, wrote=wrote)
            except _WorkFailed as failed:
                if len(group) == 1:
                    group[0].error = public_error(failed.reason)
                    self._undo()
                    return set()
            self._cautious_groups = CAUTIOUS_GROUPS
            self._undo()
            return self._try(group, locks)
        self._cautious_groups -= 1
        topics, wrote = self._run_in_savepoints(connection, unit, group)
        return self._finish(connection, unit, group, locks, topics, wrote=wrote)

    def _unit_for(self, connection: Connection, locks: Collection[int], reached: int | None) -> PostgresUnit:
        """Return the unit for a transaction that has begun, with what the last one held if it is still true.

        It is under the same locks of books, while the time that others have reached under them is the
        same: a commit of theirs would have changed it, as its time is beyond that of our own last commit.
        """
        if not locks:
            self._kept.forget()
        return self._kept.unit_for(
            (locks, reached),
            lambda: PostgresUnit(connection, self.clock, self.ids, self.numeric, reached or 0),
        )

    def _run_bare(self, unit: PostgresUnit, group: list[Job]) -> tuple[set[str], bool]:
        """Run the works one after the other. Raises _WorkFailed when one fails that has written."""
        topics: set[str] = set()
        wrote = False
        for job in group:
            unit.begin_work()
            try:
                job.answer = job.work(unit)
            except BaseException as error:
                _require_sound(error)
                if unit.wrote or isinstance(error, DatabaseFailed):
                    raise _WorkFailed(error) from error
                job.error = public_error(error)
            else:
                topics |= unit.topics()
                wrote |= unit.wrote
        return topics, wrote

    def _run_in_savepoints(
        self, connection: Connection, unit: PostgresUnit, group: list[Job]
    ) -> tuple[set[str], bool]:
        topics: set[str] = set()
        wrote = False
        for job in group:
            unit.begin_work()
            connection.send(_SAVEPOINT)
            try:
                job.answer = job.work(unit)
                if unit.wrote:
                    unit.flush()
                    connection.settle()
            except BaseException as error:
                _require_sound(error)
                unit.forget()
                if connection.usable and not isinstance(error, DatabaseFailed):
                    _settle_quietly(connection)
                connection.send(_UNDO)
                job.answer, job.error = None, public_error(error)
                if unit.wrote:
                    self._cautious_groups = CAUTIOUS_GROUPS
            else:
                topics |= unit.topics()
                wrote |= unit.wrote
            connection.send(_RELEASE)
        return topics, wrote

    def _finish(
        self,
        connection: Connection,
        unit: PostgresUnit,
        group: list[Job],
        locks: Collection[int],
        topics: set[str],
        *,
        wrote: bool,
    ) -> set[str]:
        """Commit, tell other servers, and release the locks."""
        began = time.perf_counter()
        if not wrote:
            self._kept.forget()  # only our own commit shows in the time of the next one of others
            connection.send(_ROLLBACK)
            self.locks.release(connection)
            connection.settle()
            return topics
        unit.flush()
        moment = max(self.clock.now(), self.ids.mark()[0])
        self.locks.note(connection, locks, moment, announced=bool(topics))
        try:
            # Waited for, so that until here it is known that nothing is committed.
            connection.settle()
        except DatabaseFailed as error:
            _require_sound(error)
            raise _WorkFailed(error) from error
        try:
            connection.send(_COMMIT)
            connection.sync()
            self.notifier.notify(connection, topics)
            self.locks.release(connection)
            connection.settle()
        except ConnectionLost as error:
            self.close()
            raise OutcomeUnknown(str(error)) from error
        except DatabaseFailed as error:
            if not error.syncs:
                raise  # it was rolled back by COMMIT
            self.close()  # it was committed; the locks end with the connection
        seconds = time.perf_counter() - began
        log_commit(len(group), seconds)
        if connection.abandoned:
            # The others were told meanwhile of a database that is newer: this one may have been a primary
            # from before a failover.
            raise OutcomeUnknown("another database is used now") from ConnectionLost("it was left", OLDER)
        if topics:
            done = [book_of(job.work) for job in group if job.error is None]
            self.seen.committed(moment, Counter([book for book in done if book is not None]))
        if self.observer is not None:
            self.observer(len(group), seconds)
        return topics

    def _undo(self) -> None:
        """Roll back and release the locks, or give the connection up."""
        self._kept.forget()
        connection = self._connection
        if connection is None:
            return
        try:
            _settle_quietly(connection)
            connection.send(_ROLLBACK)
            connection.sync()
            self.locks.release(connection)
            connection.settle()
        except (ConnectionLost, DatabaseFailed):
            self.close()


class _WorkFailed(Exception):
    """A work failed, and its changes cannot be separated from those of the others in its group."""

    def __init__(self, reason: BaseException) -> None:
        super().__init__(reason)
        self.reason = reason


def _locks_of(group: list[Job]) -> frozenset[int]:
    """Return the locks of the books that a group writes; none for the whole ledger."""
    books = {book_of(job.work) for job in group}
    return frozenset() if None in books else frozenset(lock_of(book) for book in books if book is not None)


def _require_sound(error: BaseException) -> None:
    """Raise the error when it ended the transaction for all, rather than for one work."""
    if isinstance(error, ConnectionLost):
        raise error
    if isinstance(error, DatabaseFailed) and public_error(error) is not error:
        raise error


def _settle_quietly(connection: Connection) -> None:
    """Wait for what was sent; its errors are those of a work that has failed already."""
    try:
        connection.settle()
    except DatabaseFailed:
        return
