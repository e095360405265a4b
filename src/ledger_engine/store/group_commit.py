"""Grouping of works for the writer.

A commit costs the same for one work as for fifty, and a writer that runs while the event loop is busy
competes with it for the interpreter and slows both. So the works of one loop are passed to the writer in
groups, one at a time, when the loop has nothing more to add.

A long work, such as a batch, has a group of its own, and a group of all others that wait comes before each:
nobody waits for more than one long work, and a long work for no more than one group of others. Those who have
waited for a long work are handed over as soon as it is done, before it is answered.

Works of other processes come after a while of which the loop knows nothing. So with `await_others` it waits
until enough have come, for a short time. Half of those that may come are enough: then one half is committed
while the clients of the other half send their next requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

GROUP_MAX = 128  # enough works for one commit: waiting for more gains nothing
ENOUGH = 0.5  # share of the expected works of other processes, with which a group begins …
OTHERS_WITHIN_S = 0.001  # … and the time for them to come
QUIET_TURNS = 20  # iterations of the event loop without a new work, after which none is expected


class Waiting(Protocol):
    """What can be grouped."""

    long: bool


J = TypeVar("J", bound=Waiting)


class GroupCommit(Generic[J]):
    """Collects jobs in one event loop and calls `hand_over` with each group; call `done` after each one."""

    def __init__(self, loop: asyncio.AbstractEventLoop, hand_over: Callable[[list[J]], None]) -> None:
        self._loop = loop
        self._hand_over = hand_over
        self._waiting: list[J] = []
        self._in_flight = 0
        self._handed_over_at = 0.0
        self._expected = 1
        self._seen = 0
        self._quiet = 0
        self._long_in_flight = False
        self._long_is_next = False  # as the others have had a group since the last long work
        self._awaits_others = False
        self._looks_soon = False
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_busy(self) -> bool:
        """Whether a group is under way."""
        return self._in_flight > 0

    def add(self, job: J) -> None:
        """Add a job to the next group."""
        self._waiting.append(job)
        if not self._in_flight and (len(self._waiting) == 1 or self._awaits_others):
            self._watch()

    def await_others(self) -> None:
        """Wait for works that other processes may be about to send."""
        self._awaits_others = True

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
        """Start the next group, as the one handed over is finished."""
        # Those answered may well send another request, in addition to those waiting.
        self._expected = self._in_flight + len(self._waiting)
        self._in_flight = 0
        if self._long_in_flight and not all(job.long for job in self._waiting):
            self._start_waiting()
        elif self._waiting:
            self._watch()

    def flush(self) -> None:
        """Hand over the waiting jobs at once, all together."""
        self._stop_timer()
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
        self._in_flight = len(group)
        self._long_in_flight = group[0].long
        self._handed_over_at = self._loop.time()
        self._hand_over(group)

    def _watch(self) -> None:
        if self._awaits_others:
            if not self._looks_soon:
                self._looks_soon = True
                self._loop.call_soon(self._look_for_others)
            return
        self._seen = 0
        self._quiet = 0
        self._loop.call_soon(self._look)

    def _look(self) -> None:
        if self._in_flight:
            return
        waiting = len(self._waiting)
        self._quiet = 0 if waiting > self._seen else self._quiet + 1
        self._seen = waiting
        # A single client need not wait for others: only several are worth waiting for.
        if waiting < min(self._expected, GROUP_MAX) and self._quiet < QUIET_TURNS:
            self._loop.call_soon(self._look)
        elif waiting:
            self._start(self._next_group())

    def _look_for_others(self) -> None:
        self._looks_soon = False
        if self._in_flight:
            return
        if len(self._waiting) >= ENOUGH * min(self._expected, GROUP_MAX):
            self._start_waiting()
        elif self._waiting and self._timer is None:
            self._timer = self._loop.call_later(OTHERS_WITHIN_S, self._start_waiting)

    def _start_waiting(self) -> None:
        self._stop_timer()
        if self._waiting and not self._in_flight:
            self._start(self._next_group())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
