"""The PostgreSQL transactions in which the works of a group run (`store/group_committer.py`).

A group may need several transactions: one for the books that are free, and more for the books that another
server had locked.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from ledger_engine.core.clock import Clock
from ledger_engine.core.ids import IdSource
from ledger_engine.store import OF_NO_PROJECT, OWN, BookKey, book_of
from ledger_engine.store.group_cache import prefetch
from ledger_engine.store.group_committer import DatabaseTransaction, GroupCommitter, WorkFailed
from ledger_engine.store.postgres import notifications
from ledger_engine.store.postgres.confirmations import Confirmations
from ledger_engine.store.postgres.connection import PostgresConnection
from ledger_engine.store.postgres.errors import (
    CANCELLED_BY_SOMEBODY,
    OLDER,
    ConnectionLost,
    DatabaseFailed,
    public_error,
)
from ledger_engine.store.postgres.locks import LEDGER, Locks, lock_of
from ledger_engine.store.postgres.rendering import rendered
from ledger_engine.store.postgres.seen import Commits, SeenCommits
from ledger_engine.store.postgres.unit import Numeric, PostgresUnit
from ledger_engine.store.threaded import QueuedWork

TRIES = 8  # attempts to commit a group, if other transactions prevent this or the connection is lost
# For this many seconds after a group needed a book that another server had locked, this server locks at most
# half of a group's books at a time.
MET_S = 1.0
_WAIT_S = 0.005  # the longest wait before the second attempt; this limit doubles for each further attempt
# If a commit is unconfirmed (perhaps no standby has received it; see `confirmations`), the server waits this
# many seconds before it reports this to the client. Other servers look for unconfirmed commits twice a
# second. So when the client gets the answer, the other servers also know that the commit is unconfirmed, and
# give no answer that depends on this commit.
TOLD_S = 1.0

_COMMIT, _ROLLBACK = rendered("COMMIT"), rendered("ROLLBACK")

_OF_NO_PROJECT = frozenset(map(lock_of, OF_NO_PROJECT))
# The works for each lock. The key is the number of a book's lock or of the lock of the whole ledger.
Works: TypeAlias = dict[int, list[QueuedWork]]
# The locks of some books, and the latest time up to which another server has issued ids under these locks.
Reached: TypeAlias = tuple[frozenset[int], int]


class OutcomeUnknown(Exception):
    """The connection was lost after COMMIT was sent."""


class CommitResult(NamedTuple):
    """The works of a finished transaction, with the topics they announced or with the transaction's error."""

    works: list[QueuedWork]
    topics: frozenset[str]
    error: Exception | None = None


@dataclass(slots=True)
class Counts:
    """Counts of the transactions that write.

    `groups` counts all transactions, `retries` counts the repeated attempts, and `lock_waits` counts the
    waits for locked books. `lock_wait_s` is the total time of these waits in seconds.
    """

    groups: int = 0
    retries: int = 0
    lock_waits: int = 0
    lock_wait_s: float = 0.0


class Committer(GroupCommitter[PostgresUnit]):
    """Commits groups in sequence, on connections that `connect` opens."""

    def __init__(
        self,
        clock: Clock,
        ids: IdSource,
        locks: Locks,
        connect: Callable[[], PostgresConnection],
        numeric: Numeric,
        seen_commits: SeenCommits,
        confirmations: Confirmations,
    ) -> None:
        super().__init__()
        self.clock = clock
        self.ids = ids
        self.locks = locks
        self.numeric = numeric
        self.seen = seen_commits
        self.confirmations = confirmations
        self.counts = Counts()
        # The locks of this server's last confirmed transaction, and the time that it read under them.
        self.last_confirmation: Reached | None = None
        self.meets_others_until = 0.0
        self._connect = connect
        self._connection: PostgresConnection | None = None

    def commit(self, group: list[QueuedWork]) -> Iterator[CommitResult]:
        """Run the works of a group, and yield the result of each of its transactions.

        The works of books that no other server has locked come first, in one transaction. If another server
        had locked one of the books in the last MET_S seconds, a transaction locks at most half of the books,
        so that other servers can lock the other half. Works of the whole ledger come last.
        """
        waiting = self._by_lock(group)
        of_ledger = waiting.pop(LEDGER, None)
        books = len(waiting)
        while waiting:
            meets_others = time.monotonic() < self.meets_others_until
            transaction = _Transaction(self, waiting, math.ceil(books / 2) if meets_others else books)
            yield self._run_transaction(transaction)
            waiting = {lock: works for lock, works in waiting.items() if lock not in transaction.running}
        if of_ledger is not None:
            yield self._run_transaction(_Transaction(self, {LEDGER: of_ledger}, 0))

    def _run_transaction(self, transaction: _Transaction) -> CommitResult:
        self.counts.groups += 1
        topics, error = set[str](), None
        try:
            topics = self._commit_with_tries(transaction)
        except Exception as failed:  # the error of one transaction must not stop the next transactions
            error = failed
        return CommitResult(_all(transaction.running), frozenset(topics), error)

    def _commit_with_tries(self, transaction: _Transaction) -> set[str]:
        """Commit the transaction, with several attempts if necessary; return the topics of its works.

        Raises ConnectionLost or DatabaseFailed if nothing was committed, and OutcomeUnknown if the
        transaction may have been committed.
        """
        for tries_left in reversed(range(TRIES)):
            try:
                return self.commit_group(transaction)
            except ConnectionLost:
                if not tries_left:
                    raise
            except DatabaseFailed as failed:
                if not tries_left or not failed.passing:
                    raise
            self.counts.retries += 1
            time.sleep(random.random() * _WAIT_S * 2 ** (TRIES - 1 - tries_left))
        raise AssertionError("the last try returns or raises")

    @property
    def process(self) -> int | None:
        """Return the number of the database's process for the connection; None without a connection."""
        connection = self._connection
        return connection.process if connection is not None and connection.usable else None

    def usable_connection(self) -> PostgresConnection:
        """Return the connection that writes; open a new connection if the last one failed."""
        if self._connection is None or not self._connection.usable:
            self._connection = self._connect()
            self.locks = replace(self.locks, server=self.seen.server)
        return self._connection

    def close(self) -> None:
        """Close the connection; the next use opens it again."""
        self.forget()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _by_lock(self, group: list[QueuedWork]) -> Works:
        by_book: dict[BookKey | None, list[QueuedWork]] = {}
        for job in group:
            by_book.setdefault(book_of(job.work), []).append(job)
        return {self._lock_of(book): works for book, works in by_book.items()}

    def _lock_of(self, book: BookKey | None) -> int:
        if book is None:
            return LEDGER
        return self.locks.own if book == OWN else lock_of(book)


class _Transaction(DatabaseTransaction[PostgresUnit]):
    """One transaction of a group. It locks at most `at_most` of the books that have works in `waiting`.

    `running` are the works of the books that the transaction has locked.
    """

    failures = (DatabaseFailed,)

    def __init__(self, committer: Committer, waiting: Works, at_most: int) -> None:
        self.running = waiting
        self._committer = committer
        self._waiting = waiting
        self._at_most = at_most
        self._connection: PostgresConnection | None = None
        self._locks = frozenset[int]()  # the locked books
        self._times: Reached | None = None

    def begin(self) -> tuple[PostgresUnit, list[QueuedWork]]:
        """Begin with the works of the books that no other server has locked.

        If other servers have locked all books, wait for one book.
        """
        committer, self._connection, self.running = self._committer, None, self._waiting
        self._connection = connection = committer.usable_connection()
        books = [lock for lock in self._waiting if lock != LEDGER]
        locks, moment = committer.locks.begin(connection, books, self._at_most)
        if not locks.issuperset(set(books[: self._at_most]) - _OF_NO_PROJECT):
            committer.meets_others_until = time.monotonic() + MET_S
        if books and not locks:
            connection.send(_ROLLBACK)
            # If the wait ends with an error, only the works of the first book have failed. The works of the
            # other books then run in the next transaction.
            self.running = {books[0]: self._waiting[books[0]]}
            locks, moment = self._wait_for_one(connection, books)
        if books:
            self.running = {lock: self._waiting[lock] for lock in books if lock in locks}
        self._locks = locks
        self._times = None if moment is None else (locks, moment)
        unit, works = self._unit_of(connection, moment), _all(self.running)
        if not connection.usable:
            raise ConnectionLost("another database is used now", OLDER)
        if len(works) > 1:
            prefetch(unit, works, (ConnectionLost, DatabaseFailed))
        return unit, works

    def require_sound(self, error: BaseException) -> None:
        if isinstance(error, ConnectionLost):
            raise error
        if isinstance(error, DatabaseFailed) and public_error(error) is not error:
            raise error

    def public_error(self, error: BaseException) -> BaseException:
        return public_error(error)

    def commit(self, unit: PostgresUnit, works: list[QueuedWork], topics: set[str], *, wrote: bool) -> bool:
        """Commit, notify other servers, and release the locks.

        Return when the commit is confirmed, without waiting for the notification and the release.

        Works that changed nothing are also committed if their answers may depend on a commit that no standby
        has received. Once our commit is confirmed, the standby has all earlier visible commits too.
        """
        committer, connection, locks = self._committer, self._connection, self._committer.locks
        assert connection is not None, "it has begun"
        if not wrote and not self._rests_on_unconfirmed():
            # Drop the cache, because this transaction stores no time for its locks, and `_unit_of` compares
            # only the latest time of all locks. For example, lock A has the time 10, and lock B the time 20.
            # If another server then commits under A at the time 15, the latest time is still 20. This cannot
            # happen after a commit, because a commit stores one time, later than both, for all its locks.
            committer.forget()
            connection.send(_ROLLBACK)
            locks.release(connection)
            connection.settle()
            return False
        moment = max(committer.clock.now(), committer.ids.mark()[0])
        locks.note(connection, self._locks, moment, announces=bool(topics))
        try:
            # Wait for the results: any error up to this line means that nothing is committed.
            result = connection.settle()
        except DatabaseFailed as error:
            self.require_sound(error)
            raise WorkFailed(error) from error
        self._send_commit(connection)
        number = 0
        if topics:
            assert result is not None, "the last statement returns rows"
            number = locks.number_of(result)
            committer.confirmations.confirm(locks.server, number)
            books = [book_of(job.work) for job in works if job.error is None]
            changes = Counter([book for book in books if book is not None])
            committer.seen.note_commit(locks.server, Commits(number, moment), changes)
        try:
            locks.release(connection)
            notifications.notify(connection, locks.server, number, topics)
            connection.flush(forgiving=True)
        except ConnectionLost:
            # The database releases the locks of a lost connection. Other servers notice the commit even
            # without a notification.
            committer.close()
        return True

    def roll_back(self, error: BaseException) -> None:
        """Roll back and release the locks, or close the connection."""
        self._committer.forget()
        if isinstance(error, (ConnectionLost, OutcomeUnknown)):
            self._committer.close()
        elif self._connection is not None:
            try:
                self._connection.settle_quietly()
                self._connection.send(_ROLLBACK)
                self._connection.sync()
                self._committer.locks.release(self._connection)
                self._connection.settle()
            except (ConnectionLost, DatabaseFailed):
                self._committer.close()

    def _wait_for_one(
        self, connection: PostgresConnection, books: list[int]
    ) -> tuple[frozenset[int], int | None]:
        """Wait for the lock of the first book. Then begin with this lock and the locks of free books."""
        counts, began = self._committer.counts, time.monotonic()
        counts.lock_waits += 1
        try:
            return self._committer.locks.begin(connection, books, self._at_most, waits_for=books[:1])
        finally:
            counts.lock_wait_s += time.monotonic() - began

    def _unit_of(self, connection: PostgresConnection, moment: int | None) -> PostgresUnit:
        """Return the unit of this transaction, which has begun.

        `moment` is the time up to which other servers have issued ids under the locks of this transaction.

        The cache of the last transaction is still valid if this transaction locks the same books, and if
        `moment` is unchanged. A commit of another server under one of these locks would have changed
        `moment`, because each commit under a lock stores a later time than the previous commit. After a
        transaction without a commit, the cache is empty (see `commit`).
        """
        committer = self._committer
        if moment is not None:
            committer.clock.advance_past(moment)
        if not self._locks:
            committer.forget()
        return committer.unit_for(
            (self._locks - {committer.locks.own}, moment),
            lambda: PostgresUnit(connection, committer.clock, committer.ids, committer.numeric),
        )

    def _rests_on_unconfirmed(self) -> bool:
        """Return whether the works may have read rows from a commit that no standby has received.

        The result is True if a doubt is open (`confirmations`), or if another server has committed under
        these locks since our last confirmed commit.
        """
        in_doubt = self._committer.confirmations.in_doubt
        return in_doubt or self._times not in (None, self._committer.last_confirmation)

    def _send_commit(self, connection: PostgresConnection) -> None:
        """Send COMMIT and wait until it is confirmed. Raises OutcomeUnknown if the connection is lost."""
        confirmations = self._committer.confirmations
        doubts = confirmations.doubts
        try:
            connection.send(_COMMIT)
            connection.settle()
            if connection.must_not_be_used:
                # Another thread has found a newer database, so this connection may lead to the primary from
                # before a failover.
                raise ConnectionLost("another database is used now", OLDER)
        except ConnectionLost as error:
            self._committer.close()
            confirmations.doubt()
            if error.state in CANCELLED_BY_SOMEBODY:
                time.sleep(TOLD_S)
            raise OutcomeUnknown(str(error)) from error
        confirmations.settle(doubts)
        self._committer.seen.note_confirmation()
        self._committer.last_confirmation = self._times


def _all(works: Works) -> list[QueuedWork]:
    return [job for jobs in works.values() for job in jobs]
