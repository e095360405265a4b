"""Rate limits: fixed wall-clock minutes and seconds, counted per API key (docs/interface.md#rate-limits)."""

from __future__ import annotations

import time
from collections.abc import Callable

from ledger_engine.limits import Verdict

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
