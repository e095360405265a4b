"""What the processes of one server share besides the database: counts of requests, and places.

The packages above know only these two protocols; announcements travel with the database (`Database.listen`).
A process that serves alone has both in its memory (`Shared`). The workers of `serve --workers` count in
memory that they share (`shared_windows`) and ask their parent for places (`channel`). Servers on one
PostgreSQL database count together at a place that all can ask (`counted_together`), and have places each.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from ledger_engine.limits.leases import AllLeases, Leases


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


@dataclass(frozen=True, slots=True)
class Shared:
    """What one process uses of all that is shared."""

    rate_limits: RateLimits
    places: Places
    leases: Leases = field(default_factory=AllLeases)
