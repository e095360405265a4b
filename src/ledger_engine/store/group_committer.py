"""Runs the works of a group in one transaction with one commit.

A *work* is a function that reads or changes the ledger (see `store`), and `group_commit` forms the groups. If
a work fails, the other works still succeed.

Both engines write every change with `GroupCommitter.commit_group`. An engine passes a `DatabaseTransaction`,
which begins, commits and rolls back.
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Generic, TypeVar

from ledger_engine.core.measuring import CommitObserver, log_commit
from ledger_engine.store.group_cache import CachingUnit
from ledger_engine.store.threaded import QueuedWork

CAUTIOUS_GROUPS = 100  # after the failure of a work that had written, this many groups run with savepoints

U = TypeVar("U", bound=CachingUnit)


class WorkFailed(Exception):
    """A work failed, and its changes can only be undone together with the changes of the whole group."""

    def __init__(self, reason: BaseException) -> None:
        super().__init__(reason)
        self.reason = reason


class DatabaseTransaction(ABC, Generic[U]):
    """The transaction of a group on one engine. After a rollback it can begin again."""

    failures: ClassVar[tuple[type[Exception], ...]]  # the classes of the database's errors

    @abstractmethod
    def begin(self) -> tuple[U, list[QueuedWork]]:
        """Begin the transaction, and return its unit and the works that run in it."""

    @abstractmethod
    def require_sound(self, error: BaseException) -> None:
        """Raise an error of the database if `error` has ended the transaction, and not only the work."""

    @abstractmethod
    def public_error(self, error: BaseException) -> BaseException:
        """Return the error for the caller: StorageUnavailable if the storage failed, else `error`."""

    @abstractmethod
    def commit(self, unit: U, works: list[QueuedWork], topics: set[str], *, wrote: bool) -> bool:
        """Commit the flushed changes, and return whether there was anything to commit.

        `topics` are the topics that the works announced. `wrote` is true if a work changed something. Raises
        WorkFailed if the database refuses a change of a work.
        """

    @abstractmethod
    def roll_back(self, error: BaseException) -> None:
        """Roll back because of `error`, and clear the cache.

        If `error` is a WorkFailed, the transaction can begin again.
        """


class GroupCommitter(Generic[U]):
    """Runs the works of groups and commits them, group by group.

    A savepoint around each work takes a tenth of the work's time, and in most groups no work fails. So a
    group first runs without savepoints. If a work fails after it has written, the whole group runs again with
    savepoints, and the next CAUTIOUS_GROUPS groups also run with savepoints. A single work needs no
    savepoint.
    """

    def __init__(self) -> None:
        self.observer: CommitObserver | None = None
        self._cautious_groups = 0
        self._unit: U | None = None  # the unit of the last transaction, as long as its cache is valid
        # The `state` of the last call of `unit_for`. If the state changes, the cache may be out of date.
        self._state: object = None

    def commit_group(self, transaction: DatabaseTransaction[U]) -> set[str]:
        """Run the works of a transaction, commit it, and return the topics that the works announced.

        Afterwards each job contains the answer or the error of its work. Raises an error of the database if
        the transaction failed and nothing was committed.
        """
        savepoints, topics, wrote = False, set[str](), False
        try:
            unit, works = transaction.begin()
            if self._cautious_groups and len(works) > 1:
                savepoints = True
                self._cautious_groups -= 1
            for job in works:
                job.answer = job.error = None
                unit.begin_work()
                if savepoints:
                    unit.set_savepoint()
                try:
                    job.answer = job.work(unit)
                    if savepoints:
                        unit.release_savepoint()
                except BaseException as error:
                    transaction.require_sound(error)
                    if savepoints:
                        unit.forget()
                        unit.undo_savepoint()
                        if unit.has_written:
                            self._cautious_groups = CAUTIOUS_GROUPS
                    elif unit.has_written or isinstance(error, transaction.failures):
                        raise WorkFailed(error) from error
                    job.answer, job.error = None, transaction.public_error(error)
                else:
                    topics |= unit.topics()
                    wrote |= unit.wrote
            try:
                unit.flush()
            except BaseException as error:
                transaction.require_sound(error)
                raise WorkFailed(error) from error
            began = time.perf_counter()
            if transaction.commit(unit, works, topics, wrote=wrote):
                # The works are committed, so no later error may make them fail.
                with contextlib.suppress(Exception):
                    self._report_commit(len(works), time.perf_counter() - began)
            return topics
        except BaseException as error:
            transaction.roll_back(error)
            if savepoints or not isinstance(error, WorkFailed):
                raise
            if len(works) == 1:
                works[0].answer, works[0].error = None, transaction.public_error(error.reason)
                return set()
        self._cautious_groups = CAUTIOUS_GROUPS
        return self.commit_group(transaction)

    def unit_for(self, state: object, new: Callable[[], U]) -> U:
        """Return the unit for a transaction that has begun.

        If `state` is the same as in the last call, return the last unit with its cache. Otherwise return a
        new unit.
        """
        if self._unit is None or self._state != state:
            self.forget()
            self._unit, self._state = new(), state
        self._unit.limit_size()
        return self._unit

    def forget(self) -> None:
        """Drop the unit and its cache, after a rollback or if another process may have changed the data."""
        if self._unit is not None:
            self._unit.forget()
            self._unit = self._state = None

    def _report_commit(self, works: int, seconds: float) -> None:
        """Write a commit to the log and report it to the observer."""
        log_commit(works, seconds)
        if self.observer is not None:
            self.observer(works, seconds)
