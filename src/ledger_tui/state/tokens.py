"""Short-lived tokens as they stand: how long the access token is good, and when to take the next. Pure."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from ledger_tui.state.window import Record

EARLY_SECONDS = 300.0  # before its end an access token is refreshed (interface.md, Authentication)
_DEFAULT_SECONDS = 3600  # how long one is good (interface.md, Token response)


@dataclass(frozen=True, slots=True)
class Pair:
    """An access token with the refresh token that is good for the next pair, once.

    `until` is by the clock of `Tokens`.
    """

    access: str
    refresh: str | None
    until: float
    lasts: float


class Tokens:
    """The pair in use, if any; without one the key itself is shown to the server."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.pair: Pair | None = None
        self.rotations = 0
        self.problem = ""

    def take(self, answer: Record) -> Pair:
        """A token response came (interface.md, Token response). Raises ValueError for what is none."""
        access, refresh = answer.get("access_token"), answer.get("refresh_token")
        if not isinstance(access, str) or not access.isascii() or not access.isprintable():
            raise ValueError("The answer holds no access token.")
        seconds = answer.get("expires_in")
        lasts = float(seconds) if isinstance(seconds, int) and seconds > 0 else float(_DEFAULT_SECONDS)
        self.pair = Pair(access, refresh if isinstance(refresh, str) else None, self.clock() + lasts, lasts)
        self.problem = ""
        return self.pair

    def lose_refresh(self) -> None:
        """The refresh token is good no more: the access token lasts to its end, and none follows it."""
        if self.pair is not None:
            self.pair = replace(self.pair, refresh=None)

    def drop(self) -> None:
        """Go back to the key."""
        self.pair = None
        self.rotations = 0
        self.problem = ""

    @property
    def left(self) -> float:
        """Seconds until the access token expires; 0 without one."""
        return max(0.0, self.pair.until - self.clock()) if self.pair else 0.0

    @property
    def due_in(self) -> float | None:
        """Seconds until it is to be refreshed; None when there is nothing to refresh with."""
        if self.pair is None or self.pair.refresh is None:
            return None
        # A token that lasts no longer than the margin is refreshed at half its time, not at once.
        early = min(EARLY_SECONDS, self.pair.lasts / 2)
        return max(0.0, self.pair.until - early - self.clock())
