"""Grouping of works for the writer.

A commit costs the same for one work as for fifty, and a writer that runs while the event loop is busy
competes with it for the interpreter and slows both. So the works of one loop are passed to the writer in
groups, one at a time, when the loop adds no more.

A long work, such as a batch, runs in a group of its own, and a group of all other waiting works comes before
each: nobody waits for more than one long work, and a long work waits for at most one group. Those who have
waited for a long work are handed over as soon as it is done, before it is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

GROUP_MAX = 128  # enough works for one commit: waiting for more gains nothing
QUIET_TURNS = 20  # iterations of the event loop without a new work, after which none is expected


class Waiting(Protocol):
    """Works that can be grouped."""

    long: bool


J = TypeVar("J", bound=Waiting)


class GroupCommit(Generic[J]):
    """Collects jobs in one event loop and calls `hand_over` with each group; call `done` after each one."""

    def __init__(self, loop: asyncio.AbstractEventLoop, hand_over: Callable[[list[J]], None]) -> None:
        self._loop = loop
        self._hand_over = hand_over
        self._waiting: list[J] = []
        self._in_flight: list[J] = []
        self._handed_over_at = 0.0
        self._expected_count = 1
        self._long_is_next = False  # because the other works have had a group since the last long work
        self._next_look: asyncio.Handle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_busy(self) -> bool:
        """Whether a group is under way."""
        return bool(self._in_flight)

    def add(self, job: J) -> None:
        """Add a job to the next group."""
        self._waiting.append(job)
        # Without a look though others wait, there was no memory for one.
        if not self._in_flight and self._next_look is None:
            self._look_soon()

    def withdraw(self, job: J) -> bool:
        """Remove a waiting job; return False when it was handed over already."""
        if job not in self._waiting:
            return False
        self._waiting.remove(job)
        return True

    def age(self) -> float:
        """Return for how many seconds the current group has been under way, 0 without one."""
        return self._loop.time() - self._handed_over_at if self._in_flight else 0.0

    def done(self) -> None:
        """Start the next group, because the current one is finished."""
        jobs, self._in_flight = self._in_flight, []
        # Those answered may well send another request, in addition to those waiting.
        self._expected_count = len(jobs) + len(self._waiting)
        if jobs and jobs[0].long and not all(job.long for job in self._waiting):
            self._start(self._next_group())
        elif self._waiting:
            self._look_soon()

    def flush(self) -> None:
        """Hand over the waiting jobs at once, all together."""
        if self._waiting:
            group, self._waiting = self._waiting, []
            self._start(group)

    def _next_group(self) -> list[J]:
        """Remove the next group from the waiting jobs, of which there are some."""
        others = [job for job in self._waiting if not job.long]
        if len(others) == len(self._waiting):
            self._waiting = []
            return others
        self._long_is_next = bool(others) and not self._long_is_next
        if self._long_is_next:
            self._waiting = [job for job in self._waiting if job.long]
            return others
        first = next(job for job in self._waiting if job.long)
        self._waiting.remove(first)
        return [first]

    def _start(self, group: list[J]) -> None:
        self._stop_looking()
        self._in_flight = group
        self._handed_over_at = self._loop.time()
        self._hand_over(group)

    def _look_soon(self) -> None:
        """Look whether a group begins, once the loop has done what it has to do already."""
        if self._next_look is None:
            self._next_look = self._loop.call_soon(self._look, 0, 0)

    def _look(self, last_count: int, quiet: int) -> None:
        """Begin a group, or look again later.

        `last_count` is how many works waited when it looked last, and since `quiet` times there were no more.
        """
        self._next_look = None
        waiting, expected_count = len(self._waiting), min(self._expected_count, GROUP_MAX)
        if self._in_flight or not waiting:
            return
        quiet = 0 if waiting > last_count else quiet + 1
        # A single client need not wait for others: only several are worth waiting for.
        if waiting < expected_count and quiet < QUIET_TURNS:
            self._next_look = self._loop.call_soon(self._look, waiting, quiet)
            return
        self._start(self._next_group())

    def _stop_looking(self) -> None:
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None
