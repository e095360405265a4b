"""One transaction for the works of a group: each succeeds or fails by itself, and one commit stores all."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Generic, TypeVar

from ledger_engine.core.clock import Clock
from ledger_engine.core.ids import IdSource
from ledger_engine.core.measuring import CommitObserver, log_commit
from ledger_engine.store.group_cache import CachingUnit
from ledger_engine.store.threaded import Job

CAUTIOUS_GROUPS = 100  # groups that run with savepoints after one in which a work failed that had written

U = TypeVar("U", bound=CachingUnit)


class WorkFailed(Exception):
    """A work failed, and its changes cannot be separated from those of the others in its group."""

    def __init__(self, reason: BaseException) -> None:
        super().__init__(reason)
        self.reason = reason


class GroupCommitter(ABC, Generic[U]):
    """The base of what runs the works of groups and commits them, group by group.

    A savepoint around each work takes a tenth of its time, and most groups have no work that fails. So a
    group first runs without savepoints; when a work fails that has written, the whole group runs again
    with them, and so do the next groups for a while. A single work needs none.
    """

    failures: ClassVar[tuple[type[Exception], ...]]  # the errors of the database

    def __init__(self, clock: Clock, ids: IdSource) -> None:
        self._clock = clock
        self._ids = ids
        self.observer: CommitObserver | None = None
        self._cautious_groups = 0
        self._unit: U | None = None  # of the last transaction, as long as what it has cached is true …
        self._state: object = None  # … which that depends on besides the transactions of this unit

    @abstractmethod
    def _run_in_transaction(self, group: list[Job], *, savepoints: bool) -> set[str]:
        """Run the works by `_run_works` and commit; return their topics. Raises WorkFailed."""

    @abstractmethod
    def _roll_back(self) -> None:
        """Roll back, and forget what is cached."""

    @abstractmethod
    def _require_sound(self, error: BaseException) -> None:
        """Raise an error of the database when this one ended the transaction, rather than only the work."""

    @abstractmethod
    def _public_error(self, error: BaseException) -> BaseException:
        """Return the error for the caller: StorageUnavailable when it is the storage that failed."""

    def forget(self) -> None:
        """Drop the unit: what it has cached was rolled back, or others may have changed it."""
        if self._unit is not None:
            self._unit.forget()
            self._unit = self._state = None

    def _run(self, group: list[Job]) -> set[str]:
        """Run the works and commit; return the topics they announced."""
        if self._cautious_groups == 0 or len(group) == 1:
            try:
                return self._run_in_transaction(group, savepoints=False)
            except WorkFailed as failed:
                self._roll_back()
                if len(group) == 1:
                    group[0].error = self._public_error(failed.reason)
                    return set()
                self._cautious_groups = CAUTIOUS_GROUPS
        self._cautious_groups -= 1
        return self._run_in_transaction(group, savepoints=True)

    def _unit_for(self, state: object, new: Callable[[], U]) -> U:
        """Return the unit for a transaction that has begun: the last one, or a new one in another state."""
        if self._unit is None or self._state != state:
            self.forget()
            self._unit, self._state = new(), state
        self._unit.limit_size()
        return self._unit

    def _run_works(self, unit: U, group: list[Job], *, savepoints: bool) -> tuple[set[str], bool]:
        """Run the works one after the other; return their topics, and whether any has written."""
        run = self._run_in_savepoint if savepoints else self._run_bare
        topics: set[str] = set()
        wrote = False
        for job in group:
            unit.begin_work()
            job.answer = job.error = None
            run(unit, job)
            if job.error is None:
                topics |= unit.topics()
                wrote |= unit.wrote
        return topics, wrote

    def _run_bare(self, unit: U, job: Job) -> None:
        try:
            job.answer = job.work(unit)
        except BaseException as error:
            self._require_sound(error)
            if unit.has_written or isinstance(error, self.failures):
                raise WorkFailed(error) from error
            job.error = self._public_error(error)

    def _run_in_savepoint(self, unit: U, job: Job) -> None:
        unit.set_savepoint()
        try:
            job.answer = job.work(unit)
            unit.release_savepoint()
        except BaseException as error:
            self._require_sound(error)
            unit.forget()
            unit.undo_savepoint()
            job.answer, job.error = None, self._public_error(error)
            if unit.has_written:
                self._cautious_groups = CAUTIOUS_GROUPS

    def _committed(self, group: list[Job], began: float) -> None:
        """Tell who measures of a commit that began at this moment of `perf_counter`."""
        seconds = time.perf_counter() - began
        log_commit(len(group), seconds)
        if self.observer is not None:
            self.observer(len(group), seconds)
