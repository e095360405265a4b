"""Rate limits: fixed wall-clock minutes and seconds, counted per API key (docs/interface.md#rate-limits)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

WallClock = Callable[[], float]  # seconds since 1970-01-01 UTC


@dataclass(slots=True)
class Verdict:
    """The values for a response's headers, and how many seconds to `wait` if the request is refused, or 0."""

    limit: int
    remaining: int
    reset: int
    wait: int = 0

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers of every response, and `Retry-After` with a refusal."""
        shown = [
            (b"x-ratelimit-limit", b"%d" % self.limit),
            (b"x-ratelimit-remaining", b"%d" % self.remaining),
            (b"x-ratelimit-reset", b"%d" % self.reset),
        ]
        if self.wait:
            shown.append((b"retry-after", b"%d" % self.wait))
        return shown


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
    """Counts requests in memory, by the minutes and seconds of the wall clock, which callers know too."""

    def __init__(self, wall_clock: WallClock = time.time) -> None:
        self._wall_clock = wall_clock
        self._second = _Window(1)
        self._minute = _Window(60)

    def count(self, who: str, per_minute: int, per_second: int) -> Verdict:
        """Count one request of `who`; one refused because of its burst does not count for the minute."""
        now = int(self._wall_clock())
        reset = _end_of_minute(now)
        if self._minute.used(who, now) >= per_minute:
            return Verdict(per_minute, 0, reset, wait=reset - now)
        if self._second.add(who, now) > per_second:
            return Verdict(per_minute, 0, reset, wait=1)
        return Verdict(per_minute, per_minute - self._minute.add(who, now), reset)

    def look(self, who: str, per_minute: int) -> Verdict:
        """Return the verdict without counting, for requests that are never refused."""
        now = int(self._wall_clock())
        return Verdict(per_minute, max(0, per_minute - self._minute.used(who, now)), _end_of_minute(now))


def _end_of_minute(now: int) -> int:
    return (now // 60 + 1) * 60
