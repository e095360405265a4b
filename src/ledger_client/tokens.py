"""The tokens that a client uses in place of a key, refreshed before they expire."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING

from ledger_client.errors import AuthenticationError, InvalidRequest, LedgerError

if TYPE_CHECKING:
    from ledger_client.records import TokenPair

# an access token is refreshed this long before it expires (docs/interface.md#authentication)
EARLY_S = 300.0
AGAIN_S = 15.0  # after a refresh that failed for a reason that may pass


def due_in(left: float, lasts: float) -> float:
    """Return in how many seconds a token is to be refreshed that lasts so long and has so long left.

    One that lasts no longer than the margin is refreshed at half its lifetime, not at once.
    """
    return max(0.0, left - min(EARLY_S, lasts / 2))


class Tokens:
    """A pair of tokens; `refresh` exchanges a refresh token, and `changed` gets each new pair before its use.

    Requests wait while a refresh is under way, so that the refresh token, which counts once, is sent once.
    """

    def __init__(
        self,
        pair: TokenPair,
        refresh: Callable[[str], Awaitable[TokenPair]],
        changed: Callable[[TokenPair], object] = lambda pair: None,
    ) -> None:
        self._refresh = refresh
        self._changed = changed
        self._lock = asyncio.Lock()
        self._take(pair)

    def _take(self, pair: TokenPair) -> None:
        self.pair = pair
        self._until = monotonic() + pair.expires_in
        self._try_at = monotonic() + due_in(pair.expires_in, pair.expires_in)

    async def access(self) -> str:
        """Return the access token. Raises LedgerError when it has expired and none could be had."""
        async with self._lock:
            if self.pair.refresh_token is not None and monotonic() >= self._try_at:
                await self._renew(self.pair.refresh_token)
        return self.pair.access_token

    async def _renew(self, refresh_token: str) -> None:
        try:
            pair = await self._refresh(refresh_token)
        except LedgerError as error:
            self._try_at = monotonic() + AGAIN_S
            if isinstance(error, AuthenticationError | InvalidRequest):  # it would be refused again
                self._try_at = float("inf")
            if monotonic() >= self._until:
                raise
            return
        if pair.refresh_token is None:
            pair = replace(pair, refresh_token=refresh_token)
        self._changed(pair)
        self._take(pair)
