"""Short-lived tokens: how long the access token is valid, and when to refresh it. Pure."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from ledger_tui.client.records import Record

# an access token is refreshed this long before it expires (docs/interface.md#authentication)
EARLY_SECONDS = 300.0
_DEFAULT_SECONDS = 3600  # the lifetime of an access token (docs/interface.md#token-response)


@dataclass(frozen=True, slots=True)
class Pair:
    """An access token with the refresh token that is exchanged once for the next pair.

    `until` is by the clock of `Tokens`.
    """

    access: str
    refresh: str | None
    until: float
    lasts: float


class Tokens:
    """The pair in use, if any; without one the key itself is sent to the server."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.pair: Pair | None = None
        self.rotations = 0
        self.problem = ""

    def take(self, answer: Record) -> Pair:
        """Use a token response (docs/interface.md#token-response). Raises ValueError when it is not one."""
        access, refresh = answer.get("access_token"), answer.get("refresh_token")
        if not isinstance(access, str) or not access.isascii() or not access.isprintable():
            raise ValueError("The answer has no access token.")
        seconds = answer.get("expires_in")
        lasts = float(seconds) if isinstance(seconds, int) and seconds > 0 else float(_DEFAULT_SECONDS)
        self.pair = Pair(access, refresh if isinstance(refresh, str) else None, self.clock() + lasts, lasts)
        self.problem = ""
        return self.pair

    def lose_refresh(self) -> None:
        """Forget the refresh token: the access token lasts to its end, and none follows it."""
        if self.pair is not None:
            self.pair = replace(self.pair, refresh=None)

    def drop(self) -> None:
        """Forget the pair and use the key again."""
        self.pair = None
        self.rotations = 0
        self.problem = ""

    @property
    def left(self) -> float:
        """Return the seconds until the access token expires; 0 without one."""
        return max(0.0, self.pair.until - self.clock()) if self.pair else 0.0

    @property
    def due_in(self) -> float | None:
        """Return the seconds until it should be refreshed; None when there is no refresh token."""
        if self.pair is None or self.pair.refresh is None:
            return None
        # A token that lasts no longer than the margin is refreshed at half its lifetime, not at once.
        early = min(EARLY_SECONDS, self.pair.lasts / 2)
        return max(0.0, self.pair.until - early - self.clock())
