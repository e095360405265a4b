"""One transaction of PostgreSQL for the works of a group."""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ledger_engine.core.clock import Clock
from ledger_engine.core.ids import IdSource
from ledger_engine.store import OF_NO_PROJECT, OWN, BookKey, book_of
from ledger_engine.store.committer import GroupCommitter, WorkFailed
from ledger_engine.store.group_cache import prefetch
from ledger_engine.store.postgres import notifications
from ledger_engine.store.postgres.confirmations import Confirmations
from ledger_engine.store.postgres.connection import Connection
from ledger_engine.store.postgres.errors import (
    CANCELLED_BY_SOMEBODY,
    OLDER,
    ConnectionLost,
    DatabaseFailed,
    public_error,
)
from ledger_engine.store.postgres.locks import LEDGER, Locks, lock_of
from ledger_engine.store.postgres.rendering import rendered
from ledger_engine.store.postgres.seen import Commits, Seen
from ledger_engine.store.postgres.unit import Numeric, PostgresUnit
from ledger_engine.store.threaded import Job

TRIES = 8  # of a group whose transaction another one keeps from being committed, or whose connection is lost
MET_S = 1.0  # for so long after another server had locked a book of a group half of the books are left to it
_WAIT_S = 0.005  # up to this before the second try, and up to twice as long before each further one
# Until other servers are in doubt, as they look twice a second, nobody is told of a commit without a standby.
TOLD_S = 1.0

_COMMIT, _ROLLBACK = rendered("COMMIT"), rendered("ROLLBACK")

_OF_NO_PROJECT = frozenset(map(lock_of, OF_NO_PROJECT))
Works: TypeAlias = dict[int, list[Job]]  # by the locks of their books, or the one of the ledger


class OutcomeUnknown(Exception):
    """The connection was lost after COMMIT was sent."""


class Committed(NamedTuple):
    """Works whose transaction has ended, with the topics that they announced, or with why it failed."""

    works: list[Job]
    topics: frozenset[str]
    error: Exception | None = None


@dataclass(slots=True)
class Counts:
    """How many transactions of works there were, how many had to be tried again, and the waits for books."""

    groups: int = 0
    retries: int = 0
    lock_waits: int = 0
    lock_wait_s: float = 0.0


class Committer(GroupCommitter[PostgresUnit]):
    """Runs the works of each group and commits them, on connections that `connect` opens."""

    failures = (DatabaseFailed,)

    def __init__(
        self,
        clock: Clock,
        ids: IdSource,
        locks: Locks,
        connect: Callable[[], Connection],
        numeric: Numeric,
        seen: Seen,
        confirmations: Confirmations,
    ) -> None:
        super().__init__(clock, ids)
        self.locks = locks
        self.counts = Counts()
        self._connect = connect
        self._numeric = numeric
        self._seen = seen
        self._confirmations = confirmations
        self._reached: object = None  # the time that others have reached under the locks of the transaction …
        self._confirmed: object = None  # … and that of the last one that was confirmed
        self._connection: Connection | None = None
        self._locked = frozenset[int]()  # the locks of books of the transaction under way …
        self._running: Works = {}  # … and its works
        self._begun: PostgresUnit | None = None  # until they run
        self._meets_others_until = 0.0

    def commit(self, group: list[Job]) -> Iterator[Committed]:
        """Run the works of a group, and yield what became of some after the other.

        The works of books that no other server has locked come first, in one transaction. Where others were
        met of late a transaction has half of the books at most, so that the other half is free for them.
        Works of the whole ledger come last.
        """
        waiting = self._by_lock(group)
        of_ledger = waiting.pop(LEDGER, None)
        books = len(waiting)
        while waiting:
            meets_others = time.monotonic() < self._meets_others_until
            yield self._commit_some(waiting, math.ceil(books / 2) if meets_others else books)
            waiting = {lock: works for lock, works in waiting.items() if lock not in self._running}
        if of_ledger is not None:
            yield self._commit_some({LEDGER: of_ledger}, 0)

    def _commit_some(self, waiting: Works, at_most: int) -> Committed:
        self.counts.groups += 1
        topics, error = set[str](), None
        try:
            topics = self._commit_with_tries(waiting, at_most)
        except Exception as failed:  # of any kind: what becomes of the others does not depend on it
            error = failed
        return Committed(_all(self._running), frozenset(topics), error)

    def _commit_with_tries(self, waiting: Works, at_most: int) -> set[str]:
        """Run some of the works in one transaction, which `_running` has then; return their topics.

        Raises OutcomeUnknown, and ConnectionLost or DatabaseFailed when none of them was committed.
        """
        for left in reversed(range(TRIES)):
            try:
                self._begun = self._begin(waiting, at_most)
                return self._run(_all(self._running))
            except ConnectionLost:
                self.close()
                if not left:
                    raise
            except DatabaseFailed as failed:
                self._roll_back()
                if not left or not failed.passing:
                    raise
            except BaseException:
                self._roll_back()
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
        self.forget()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _begin(self, waiting: Works, at_most: int) -> PostgresUnit:
        """Begin the transaction of the works whose books are free, or of those of one that is waited for."""
        self._running = waiting
        connection = self._usable_connection()
        wanted = [lock for lock in waiting if lock != LEDGER]
        locks, reached = self.locks.begin(connection, wanted, at_most)
        if not locks.issuperset(set(wanted[:at_most]) - _OF_NO_PROJECT):
            self._meets_others_until = time.monotonic() + MET_S
        if wanted and not locks:
            connection.send(_ROLLBACK)
            self._running = {wanted[0]: waiting[wanted[0]]}  # which alone fail if the lock cannot be got
            began = time.monotonic()
            self.counts.lock_waits += 1
            try:
                locks, reached = self.locks.begin(connection, wanted, at_most, awaited=wanted[:1])
            finally:
                self.counts.lock_wait_s += time.monotonic() - began
        if wanted:
            self._running = {lock: waiting[lock] for lock in wanted if lock in locks}
        return self._unit_of(connection, locks, reached)

    def _begin_again(self) -> PostgresUnit:
        """Begin the transaction of the same works once more, after it was rolled back."""
        connection, wanted = self._usable_connection(), [lock for lock in self._running if lock != LEDGER]
        locks, reached = self.locks.begin(connection, wanted, len(wanted), awaited=wanted)
        return self._unit_of(connection, locks, reached)

    def _by_lock(self, group: list[Job]) -> Works:
        by_book: dict[BookKey | None, list[Job]] = {}
        for job in group:
            by_book.setdefault(book_of(job.work), []).append(job)
        return {self._lock_of(book): works for book, works in by_book.items()}

    def _lock_of(self, book: BookKey | None) -> int:
        if book is None:
            return LEDGER
        return self.locks.own if book == OWN else lock_of(book)

    def _usable_connection(self) -> Connection:
        if self._connection is None or not self._connection.usable:
            self._connection = self._connect()
            self.locks.server = self._seen.server
        return self._connection

    def _unit_of(self, connection: Connection, locks: frozenset[int], reached: int | None) -> PostgresUnit:
        """Return the unit of a transaction that has begun.

        What the last one has cached is true under the same locks of books, while the time that others have
        reached under them is the same: a commit of theirs would have changed it, as its time is beyond that
        of our own last commit.
        """
        self._locked = locks
        self._reached = (locks, reached) if reached is not None else None
        if reached is not None:
            self._clock.advance_past(reached)
        if not locks:
            self.forget()
        return self._unit_for(
            (locks - {self.locks.own}, reached),
            lambda: PostgresUnit(connection, self._clock, self._ids, self._numeric),
        )

    def _run_in_transaction(self, group: list[Job], *, savepoints: bool) -> set[str]:
        unit, self._begun = self._begun or self._begin_again(), None
        connection = self._connection
        if connection is None or not connection.usable:
            raise ConnectionLost("another database is used now", OLDER)
        if len(group) > 1:
            prefetch(unit, group, (ConnectionLost, DatabaseFailed))
        topics, wrote = self._run_works(unit, group, savepoints=savepoints)
        if wrote or self._rests_on_unconfirmed():
            self._finish(connection, unit, group, topics)
        else:
            self.forget()  # only our own commit shows in the time of the next one of others
            connection.send(_ROLLBACK)
            self.locks.release(connection)
            connection.settle()
        return topics

    def _rests_on_unconfirmed(self) -> bool:
        """Return whether the answers of works that changed nothing may rest on a commit that no standby has.

        Then there is a commit all the same, which shows that the standby has what was committed before. Of
        other servers nothing is known here, unless they have committed nothing since the last commit.
        """
        return self._confirmations.in_doubt or self._reached not in (None, self._confirmed)

    def _finish(self, connection: Connection, unit: PostgresUnit, group: list[Job], topics: set[str]) -> None:
        """Commit, tell other servers, and release the locks; nobody waits for the last two."""
        began = time.perf_counter()
        unit.flush()
        moment = max(self._clock.now(), self._ids.mark()[0])
        self.locks.note(connection, self._locked, moment, announced=bool(topics))
        try:
            # Waited for, so that until here it is known that nothing is committed.
            noted = connection.settle()
        except DatabaseFailed as error:
            self._require_sound(error)
            raise WorkFailed(error) from error
        doubts = self._confirmations.doubts
        try:
            connection.send(_COMMIT)
            connection.settle()
            if connection.abandoned:
                # The others were told meanwhile of a database that is newer: this one may have been a primary
                # from before a failover.
                raise ConnectionLost("another database is used now", OLDER)
        except ConnectionLost as error:
            self.close()
            self._confirmations.doubt()
            if error.state in CANCELLED_BY_SOMEBODY:
                time.sleep(TOLD_S)
            raise OutcomeUnknown(str(error)) from error
        self._confirmations.settle(doubts)
        self._confirmed = self._reached
        server, number = self.locks.server, 0
        if topics:
            assert noted is not None, "the last statement returns rows"
            number = self.locks.number_of(noted)
            self._confirmations.confirm(server, number)
            done = [book_of(job.work) for job in group if job.error is None]
            works = Counter([book for book in done if book is not None])
            self._seen.committed(server, Commits(number, moment), works)
        try:
            self.locks.release(connection)
            notifications.notify(connection, server, number, topics)
            connection.end(forgiving=True)
        except ConnectionLost:  # its locks end with it, and others see the commit without being told
            self.close()
        self._committed(group, began)

    def _roll_back(self) -> None:
        """Roll back and release the locks, or give the connection up."""
        self.forget()
        connection = self._connection
        if connection is None:
            return
        try:
            connection.settle_quietly()
            connection.send(_ROLLBACK)
            connection.sync()
            self.locks.release(connection)
            connection.settle()
        except (ConnectionLost, DatabaseFailed):
            self.close()

    def _require_sound(self, error: BaseException) -> None:
        if isinstance(error, ConnectionLost):
            raise error
        if isinstance(error, DatabaseFailed) and public_error(error) is not error:
            raise error

    def _public_error(self, error: BaseException) -> BaseException:
        return public_error(error)


def _all(works: Works) -> list[Job]:
    return [job for each in works.values() for job in each]
