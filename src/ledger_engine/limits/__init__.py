"""Limits: rate windows, semaphores and leases, as the processes of a server share them besides the database.

The packages above know only these two protocols; announcements travel with the database (`Database.listen`).
A process that serves alone has both in its memory (`Shared`). The workers of `serve --workers` count in
memory that they share (`shared_windows`) and ask their parent for places. Servers on one
PostgreSQL database count together at a place that all can ask (`counted_together`), and have places each.

Rate limits are fixed wall-clock minutes and seconds, counted per API key (docs/interface.md#rate-limits).
Leases say which of the tasks that only one server may do this server has. The only server of a file has all
of them (`AllLeases`); servers that share a database agree there (`store/postgres/leases.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol


@dataclass(slots=True)
class Verdict:
    """What a caller has left, and how many seconds to `wait` if the request is refused, or 0.

    `limit` and `remaining` are requests in the current minute, `reset` is its end in seconds since 1970.
    """

    limit: int
    remaining: int
    reset: int
    wait: int = 0


class RateLimits(Protocol):
    """Counts the requests of each caller, over all processes that serve."""

    async def count(self, who: str, per_minute: int, per_second: int) -> Verdict:
        """Count one request of `who`; one refused because of its burst does not count for the minute."""
        ...

    async def peek(self, who: str, per_minute: int) -> Verdict:
        """Return the verdict without counting, for requests that are never refused."""
        ...


class Place(NamedTuple):
    """One of `most` places that may be held under this name at a time, over all processes that serve.

    A place of which there is one is a lease: whoever holds it does what only one may do.
    """

    name: str
    most: int


class Full(Exception):
    """All places of one name are held."""

    def __init__(self, place: Place) -> None:
        super().__init__(f"all {place.most} places of {place.name} are held")
        self.place = place

    def __reduce__(self) -> tuple[type[Full], tuple[Place]]:
        return Full, (self.place,)


class Places(Protocol):
    """Gives out places, and takes back those of a process that has ended, however it ended."""

    def hold(self, *places: Place, wait: bool = False) -> AbstractAsyncContextManager[None]:
        """Hold one place of each for the duration of the context.

        Raises Full for the first of which none is free; with `wait` it waits until all are.
        """
        ...


class Outcome(Protocol):
    """What gets the result of a request to another thread or process, or its error; a Future is one."""

    def done(self) -> bool: ...
    def set_result(self, result: Any, /) -> None: ...
    def set_exception(self, error: Any, /) -> None: ...


class Leases(Protocol):
    """The leases of this server. One that ends without giving its leases back loses them after some seconds.

    `first` is whether no other server was at work when this one took its first leases. `until` is the moment
    of the monotonic clock, in seconds, up to which this server has what it holds; it moves on as leases are
    renewed. `surplus` are those that a server with fewer is to have: this one ends what it has begun with
    them, and then does not name them as long as they are in it.
    """

    @property
    def first(self) -> bool: ...
    @property
    def until(self) -> float: ...
    @property
    def surplus(self) -> Collection[str]: ...

    async def hold(self, kind: str, names: Collection[str]) -> Collection[str]:
        """Hold of these leases what no other server has, up to this one's share; return those held now.

        From now on they are renewed, and the others taken when they become free. Those of this kind that are
        not named any more are given back. Raises StorageUnavailable.
        """
        ...

    async def leads(self) -> bool:
        """Return whether this server does what one does for all. Raises StorageUnavailable."""
        ...

    async def end(self) -> None:
        """Give all leases back."""
        ...


class AllLeases:
    """The leases of the only server: it has them all."""

    first = True
    until = math.inf
    surplus: Collection[str] = ()

    async def hold(self, kind: str, names: Collection[str]) -> Collection[str]:
        return names

    async def leads(self) -> bool:
        return True

    async def end(self) -> None:
        return


WallClock = Callable[[], float]  # seconds since 1970-01-01 UTC


class _Window:
    """The counts of the current window. All windows start and end with those of the wall clock, so the next
    one starts empty, and memory is needed only for the callers of one window."""

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds
        self._number = -1
        self._used: dict[str, int] = {}

    def used(self, who: str, now: int) -> int:
        """Return how many requests of `who` were counted in the window that contains `now`."""
        number = now // self._seconds
        if number != self._number:
            self._number, self._used = number, {}
        return self._used.get(who, 0)

    def add(self, who: str, now: int) -> int:
        """Count one request and return the new count."""
        used = self.used(who, now) + 1
        self._used[who] = used
        return used


class Windows:
    """Counts the requests of one process, by the wall clock's minutes and seconds, which callers know too."""

    def __init__(self, wall_clock: WallClock = time.time) -> None:
        self._wall_clock = wall_clock
        self._second = _Window(1)
        self._minute = _Window(60)

    async def count(self, who: str, per_minute: int, per_second: int) -> Verdict:
        """Count one request of `who`; one refused because of its burst does not count for the minute."""
        now = int(self._wall_clock())
        reset = end_of_minute(now)
        if self._minute.used(who, now) >= per_minute:
            return Verdict(per_minute, 0, reset, wait=reset - now)
        if self._second.add(who, now) > per_second:
            return Verdict(per_minute, 0, reset, wait=1)
        return Verdict(per_minute, per_minute - self._minute.add(who, now), reset)

    async def peek(self, who: str, per_minute: int) -> Verdict:
        """Return the verdict without counting, for requests that are never refused."""
        now = int(self._wall_clock())
        return Verdict(per_minute, max(0, per_minute - self._minute.used(who, now)), end_of_minute(now))


def end_of_minute(now: int) -> int:
    """Return when the minute that contains `now` ends, in seconds."""
    return (now // 60 + 1) * 60


class HeldPlaces:
    """How many places of each name are held. Use it in one event loop."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        self._waiting: list[asyncio.Future[None]] = []

    @contextlib.asynccontextmanager
    async def hold(self, *places: Place, wait: bool = False) -> AsyncIterator[None]:
        await self.take(places, wait=wait)
        try:
            yield
        finally:
            self.give_back(places)

    async def take(self, places: Sequence[Place], *, wait: bool = False) -> None:
        """Take one place of each, until `give_back`. Raises Full, unless it is to `wait`."""
        while (full := self._full(places)) is not None:
            if not wait:
                raise Full(full)
            freed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(freed)
            await freed
        for place in places:
            self._held[place.name] += 1

    def give_back(self, places: Sequence[Place]) -> None:
        """Give back one place of each."""
        for place in places:
            self._held[place.name] -= 1
            if not self._held[place.name]:
                del self._held[place.name]
        waiting, self._waiting = self._waiting, []
        for freed in waiting:
            if not freed.done():  # whoever waited may have been cancelled
                freed.set_result(None)

    def held(self, name: str) -> int:
        """Return how many places of this name are held."""
        return self._held[name]

    def _full(self, places: Sequence[Place]) -> Place | None:
        return next((place for place in places if self._held[place.name] >= place.most), None)


@dataclass(frozen=True, slots=True)
class Shared:
    """What one process uses of all that is shared."""

    rate_limits: RateLimits
    places: Places
    leases: Leases = field(default_factory=AllLeases)
