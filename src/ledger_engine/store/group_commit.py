"""Groups works for the thread that writes. A *work* is a function that runs in one transaction (see `store`).

A commit takes the same time for one work as for fifty. Besides, if the writer runs while the event loop is
busy, the two threads compete for the interpreter and both become slow. So the works of one loop go to the
writer in groups, one group at a time, and a group begins when the loop adds no more works.

A long work, such as a batch, forms a group alone, and before each long work all waiting short works form a
group. So a short work waits for at most one long work, and between two long works the writer runs at most one
group of short works. As soon as a long work is committed, the writer gets the waiting short works. The caller
of the long work gets the answer after that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

GROUP_MAX = 128  # a group does not wait for more works than this, because larger groups save no more time
QUIET_TURNS = 20  # after this many iterations of the event loop without a new work, a group begins


class Waiting(Protocol):
    """A job that can be grouped; a job is a work that waits for its result.

    The long works of different projects take turns.
    """

    long: bool

    @property
    def project(self) -> str | None: ...


J = TypeVar("J", bound=Waiting)


class GroupCommit(Generic[J]):
    """Collects the jobs of one event loop and calls `hand_over` with each group.

    Call `done` when the writer has finished a group.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, hand_over: Callable[[list[J]], None]) -> None:
        self._loop = loop
        self._hand_over = hand_over
        self._waiting: list[J] = []
        self._in_flight: list[J] = []
        self._handed_over_at = 0.0
        self._expected_count = 1
        # True if the last group was made of short works while a long work waited: the long work is next.
        self._long_is_next = False
        self._last_long: str | None = None  # the project of the last long work
        self._next_check: asyncio.Handle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_busy(self) -> bool:
        """Return whether the writer works on a group."""
        return bool(self._in_flight)

    def add(self, job: J) -> None:
        """Add a job to the next group."""
        self._waiting.append(job)
        # No check is scheduled yet in two cases: this job is the first that waits, or an earlier call had too
        # little memory to schedule a check.
        if not self._in_flight and self._next_check is None:
            self._check_soon()

    def withdraw(self, job: J) -> bool:
        """Remove a waiting job; return False if it was already handed over."""
        if job not in self._waiting:
            return False
        self._waiting.remove(job)
        return True

    def age(self) -> float:
        """Return for how many seconds the writer has worked on the current group; 0 without a group."""
        return self._loop.time() - self._handed_over_at if self._in_flight else 0.0

    def done(self) -> None:
        """Note that the writer has finished the current group, and start the next group or schedule it."""
        jobs, self._in_flight = self._in_flight, []
        # Each client that gets an answer now may soon send another request, which joins the waiting jobs.
        self._expected_count = len(jobs) + len(self._waiting)
        if jobs and jobs[0].long and not all(job.long for job in self._waiting):
            self._start(self._next_group())
        elif self._waiting:
            self._check_soon()

    def flush(self) -> None:
        """Hand over the waiting jobs at once, all together."""
        if self._waiting:
            group, self._waiting = self._waiting, []
            self._start(group)

    def _next_group(self) -> list[J]:
        """Remove the next group from the waiting jobs and return it. At least one job must be waiting."""
        others = [job for job in self._waiting if not job.long]
        if len(others) == len(self._waiting):
            self._waiting = []
            return others
        self._long_is_next = bool(others) and not self._long_is_next
        if self._long_is_next:
            self._waiting = [job for job in self._waiting if job.long]
            return others
        long = [job for job in self._waiting if job.long]
        # Take a project other than the last, so that a project with many long works does not delay others.
        first = next((job for job in long if job.project != self._last_long), long[0])
        self._last_long = first.project
        self._waiting.remove(first)
        return [first]

    def _start(self, group: list[J]) -> None:
        self._stop_checking()
        self._in_flight = group
        self._handed_over_at = self._loop.time()
        self._hand_over(group)

    def _check_soon(self) -> None:
        """Schedule a check for the moment when the loop has run all callbacks that are scheduled now."""
        if self._next_check is None:
            self._next_check = self._loop.call_soon(self._check, 0, 0)

    def _check(self, last_count: int, quiet: int) -> None:
        """Begin a group, or schedule another check.

        `last_count` is the number of works that waited at the last check, and `quiet` is the number of
        consecutive checks that found no new work.
        """
        self._next_check = None
        waiting, expected_count = len(self._waiting), min(self._expected_count, GROUP_MAX)
        if self._in_flight or not waiting:
            return
        quiet = 0 if waiting > last_count else quiet + 1
        # Wait only if several clients are active: a single client need not wait for others.
        if waiting < expected_count and quiet < QUIET_TURNS:
            self._next_check = self._loop.call_soon(self._check, waiting, quiet)
            return
        self._start(self._next_group())

    def _stop_checking(self) -> None:
        if self._next_check is not None:
            self._next_check.cancel()
            self._next_check = None
