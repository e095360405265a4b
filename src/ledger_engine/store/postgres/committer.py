"""One transaction of PostgreSQL for the works of a group."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass

from ledger_engine.core.clock import Clock
from ledger_engine.core.ids import IdSource
from ledger_engine.store import book_of
from ledger_engine.store.committer import GroupCommitter, WorkFailed
from ledger_engine.store.group_cache import prefetch
from ledger_engine.store.postgres.connection import Connection
from ledger_engine.store.postgres.errors import OLDER, ConnectionLost, DatabaseFailed, public_error
from ledger_engine.store.postgres.locks import Locks, lock_of
from ledger_engine.store.postgres.notifications import Notifier
from ledger_engine.store.postgres.rendering import rendered
from ledger_engine.store.postgres.seen import Seen
from ledger_engine.store.postgres.unit import Numeric, PostgresUnit
from ledger_engine.store.threaded import Job

TRIES = 8  # of a group whose transaction another one keeps from being committed, or whose connection is lost
_WAIT_S = 0.005  # up to this before the second try, and up to twice as long before each further one

_COMMIT, _ROLLBACK = rendered("COMMIT"), rendered("ROLLBACK")


class OutcomeUnknown(Exception):
    """The connection was lost after COMMIT was sent."""


@dataclass(slots=True)
class Counts:
    """How many groups were tried, and how many of these had to be tried again."""

    groups: int = 0
    retries: int = 0


class Committer(GroupCommitter[PostgresUnit]):
    """Runs the works of each group and commits them, on connections that `connect` opens."""

    failures = (DatabaseFailed,)

    def __init__(
        self,
        clock: Clock,
        ids: IdSource,
        locks: Locks,
        notifier: Notifier,
        connect: Callable[[], Connection],
        numeric: Numeric,
        seen: Seen,
    ) -> None:
        super().__init__(clock, ids)
        self.locks = locks
        self.counts = Counts()
        self._notifier = notifier
        self._connect = connect
        self._numeric = numeric
        self._seen = seen
        self._connection: Connection | None = None

    def commit(self, group: list[Job]) -> set[str]:
        """Run the works in one transaction and return the topics they announced.

        Raises OutcomeUnknown, and ConnectionLost or DatabaseFailed when none of them was committed.
        """
        self.counts.groups += 1
        for left in reversed(range(TRIES)):
            try:
                return self._run(group)
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

    def _run_in_transaction(self, group: list[Job], *, savepoints: bool) -> set[str]:
        if self._connection is None or not self._connection.usable:
            self._connection = self._connect()
        connection, locks = self._connection, _locks_of(group)
        reached = self.locks.begin(connection, locks)
        if reached is not None:
            self._clock.advance_past(reached)
        if not locks:
            self.forget()
        # What the last one has cached is true under the same locks of books, while the time that others have
        # reached under them is the same: a commit of theirs would have changed it, as its time is beyond that
        # of our own last commit.
        unit = self._unit_for(
            (locks, reached),
            lambda: PostgresUnit(connection, self._clock, self._ids, self._numeric, reached or 0),
        )
        if len(group) > 1:
            prefetch(unit, group, (ConnectionLost, DatabaseFailed))
        topics, wrote = self._run_works(unit, group, savepoints=savepoints)
        if wrote:
            self._finish(connection, unit, group, locks, topics)
        else:
            self.forget()  # only our own commit shows in the time of the next one of others
            connection.send(_ROLLBACK)
            self.locks.release(connection)
            connection.settle()
        return topics

    def _finish(
        self,
        connection: Connection,
        unit: PostgresUnit,
        group: list[Job],
        locks: Collection[int],
        topics: set[str],
    ) -> None:
        """Commit, tell other servers, and release the locks."""
        began = time.perf_counter()
        unit.flush()
        moment = max(self._clock.now(), self._ids.mark()[0])
        self.locks.note(connection, locks, moment, announced=bool(topics))
        try:
            # Waited for, so that until here it is known that nothing is committed.
            connection.settle()
        except DatabaseFailed as error:
            self._require_sound(error)
            raise WorkFailed(error) from error
        try:
            connection.send(_COMMIT)
            connection.sync()
            self._notifier.notify(connection, topics)
            self.locks.release(connection)
            connection.settle()
        except ConnectionLost as error:
            self.close()
            raise OutcomeUnknown(str(error)) from error
        except DatabaseFailed as error:
            if not error.syncs:
                raise  # it was rolled back by COMMIT
            self.close()  # it was committed; the locks end with the connection
        if connection.abandoned:
            # The others were told meanwhile of a database that is newer: this one may have been a primary
            # from before a failover.
            raise OutcomeUnknown("another database is used now") from ConnectionLost("it was left", OLDER)
        if topics:
            done = [book_of(job.work) for job in group if job.error is None]
            self._seen.committed(moment, Counter([book for book in done if book is not None]))
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


def _locks_of(group: list[Job]) -> frozenset[int]:
    """Return the locks of the books that a group writes; none for the whole ledger."""
    books = {book_of(job.work) for job in group}
    return frozenset() if None in books else frozenset(lock_of(book) for book in books if book is not None)
