"""Limits: rate windows, semaphores and leases.

Rate limits apply to fixed minutes and seconds of the wall clock. A server counts the requests of each API key
(docs/interface.md#rate-limits). Only one server serves a SQLite file, and counts in a dict (`RateWindows`).
Servers on one PostgreSQL database count together in a table (`store/postgres/rate_limits.py`). Semaphores
limit the memory of one process, so every server has its own semaphores.

A lease gives one server the exclusive right to do a task for all servers of a database. The server of a
SQLite file holds every lease (`AllLeases`). Servers that share a PostgreSQL database divide the leases among
themselves, by rows in that database (`store/postgres/leases.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


@dataclass(slots=True)
class Verdict:
    """The decision about a request: the request is refused if `wait` is more than 0.

    `wait` is the number of seconds after which the caller may try again. `limit` is how many requests a
    minute allows, and `remaining` is how many of them are left in the current minute; for a refused request,
    `remaining` is always 0. `reset` is the end of the current minute, in seconds since 1970.
    """

    limit: int
    remaining: int
    reset: int
    wait: int = 0


class RateLimits(Protocol):
    """Counts the requests of each caller to all processes that serve the ledger."""

    async def count(self, who: str, per_minute: int, per_second: int) -> Verdict:
        """Count one request of the caller `who`, and return the verdict on the request.

        A request that is refused because of the limit per second does not count towards the minute.
        """

    async def peek(self, who: str, per_minute: int) -> Verdict:
        """Return a verdict that never refuses, for a request that is not counted."""


class Semaphore(NamedTuple):
    """A semaphore that may be acquired `most` times at once.

    `name` begins with the semaphore's kind. If the semaphore is for one address or project, the name
    continues with `/` and this address or project.
    """

    name: str
    most: int

    @property
    def kind(self) -> str:
        """Return the part of the name before `/`; metrics show it."""
        return self.name.partition("/")[0]


class Full(Exception):
    """A semaphore is already acquired `most` times."""

    def __init__(self, semaphore: Semaphore) -> None:
        super().__init__(f"{semaphore.name} is acquired {semaphore.most} times")
        self.semaphore = semaphore


class Leases(Protocol):
    """The leases of this server. If a server dies without releasing its leases, they expire seconds later.

    `first` is true if no other server was working when this server acquired its first leases. This server may
    rely on its leases until the time `until` of the monotonic clock, in seconds; each renewal moves `until`.

    `releasing` contains the names of leases that this server must hand over to a server with fewer leases.
    The caller first finishes its work under such a lease. Then it calls `hold` without the lease's name,
    which releases the lease, and leaves the name out until it is no longer in `releasing`.
    """

    @property
    def first(self) -> bool: ...
    @property
    def until(self) -> float: ...
    @property
    def releasing(self) -> Collection[str]: ...

    async def hold(self, kind: str, names: Collection[str]) -> Collection[str]:
        """Acquire free leases in `names`, up to this server's share; return the held leases in `names`.

        Servers that want the same leases share them evenly; the share of a single server is all leases.
        From now on this server renews the leases that it holds, and acquires further leases in `names` when
        they become free. It releases its leases of the kind `kind` that are not in `names`. Raises
        StorageUnavailable.
        """

    async def leads(self) -> bool:
        """Return whether this server is the leader, which alone does certain tasks for all servers.

        Raises StorageUnavailable.
        """

    async def end(self) -> None:
        """Release all leases."""


class AllLeases:
    """The leases of the only server of a ledger: this server holds every lease."""

    first = True
    until = math.inf
    releasing: Collection[str] = ()

    async def hold(self, kind: str, names: Collection[str]) -> Collection[str]:
        return names

    async def leads(self) -> bool:
        return True

    async def end(self) -> None:
        return


WallClock = Callable[[], float]  # seconds since 1970-01-01 UTC


class RateWindows:
    """Counts the requests of one process in each minute and second of the wall clock.

    The minute of every caller ends at the same time, so a caller knows from its own clock when its minute
    ends. At the end of a minute all its counts are dropped, so only the callers of the current minute take
    memory.
    """

    def __init__(self, wall_clock: WallClock = time.time) -> None:
        self._wall_clock = wall_clock
        self._second = self._minute = -1
        self._in_second: dict[str, int] = {}
        self._in_minute: dict[str, int] = {}

    async def count(self, who: str, per_minute: int, per_second: int) -> Verdict:
        """Count one request of the caller `who`, and return the verdict on the request.

        A request that is refused because of the limit per second does not count towards the minute.
        """
        now = self._now()
        in_minute, in_second = self._in_minute.get(who, 0), self._in_second.get(who, 0)
        verdict = verdict_of(now, in_minute, in_second, per_minute, per_second)
        if not verdict.wait:
            self._in_minute[who], self._in_second[who] = in_minute + 1, in_second + 1
        return verdict

    async def peek(self, who: str, per_minute: int) -> Verdict:
        """Return a verdict that never refuses, for a request that is not counted."""
        now = self._now()
        return Verdict(per_minute, max(0, per_minute - self._in_minute.get(who, 0)), end_of_minute(now))

    def _now(self) -> int:
        """Return the time in whole seconds since 1970, and drop the counts of past minutes and seconds."""
        now = int(self._wall_clock())
        if now != self._second:
            self._second, self._in_second = now, {}
            if now // 60 != self._minute:
                self._minute, self._in_minute = now // 60, {}
        return now


def verdict_of(now: int, in_minute: int, in_second: int, per_minute: int, per_second: int) -> Verdict:
    """Return the verdict on a request at the second `now`.

    `in_minute` and `in_second` are how many earlier requests of the caller were counted in the same minute
    and second.
    """
    reset = end_of_minute(now)
    if in_minute >= per_minute:
        return Verdict(per_minute, 0, reset, wait=reset - now)
    if in_second >= per_second:
        return Verdict(per_minute, 0, reset, wait=1)
    return Verdict(per_minute, per_minute - in_minute - 1, reset)


def end_of_minute(now: int) -> int:
    """Return the end of the minute that contains `now`; both are in seconds since 1970."""
    return (now // 60 + 1) * 60


class Semaphores:
    """The semaphores that limit the memory of one process. Use them in one event loop."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._waiting: list[asyncio.Future[None]] = []

    @contextlib.asynccontextmanager
    async def hold(self, *semaphores: Semaphore, wait: bool = False) -> AsyncIterator[None]:
        """Acquire each semaphore for the duration of the context.

        If a semaphore is full, this raises Full. With `wait`, this instead waits until no semaphore is full.
        """
        await self.acquire(semaphores, wait=wait)
        try:
            yield
        finally:
            self.release(semaphores)

    async def acquire(self, semaphores: Sequence[Semaphore], *, wait: bool = False) -> None:
        """Acquire each semaphore. The caller must call `release` later.

        If a semaphore is full, this raises Full. With `wait`, this instead waits until no semaphore is full.
        """
        while (full := self._full(semaphores)) is not None:
            if not wait:
                raise Full(full)
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn
        for each in semaphores:
            self._counts[each.name] += 1

    def release(self, semaphores: Sequence[Semaphore]) -> None:
        """Release each semaphore once."""
        for each in semaphores:
            self._counts[each.name] -= 1
            if not self._counts[each.name]:
                del self._counts[each.name]
        waiting, self._waiting = self._waiting, []
        for turn in waiting:
            if not turn.done():  # the task that waited may have been cancelled
                turn.set_result(None)

    def acquired(self, name: str) -> int:
        """Return how many times the semaphore with this name is acquired now."""
        return self._counts[name]

    def _full(self, semaphores: Sequence[Semaphore]) -> Semaphore | None:
        return next((each for each in semaphores if self._counts[each.name] >= each.most), None)


@dataclass(frozen=True, slots=True)
class SharedState:
    """The limits and leases of one server.

    The server shares `rate_limits` and `leases` with the other servers of its database. `semaphores` belong
    to this server alone.
    """

    rate_limits: RateLimits
    leases: Leases = field(default_factory=AllLeases)
    semaphores: Semaphores = field(default_factory=Semaphores)
