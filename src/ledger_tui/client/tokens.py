"""The short-lived tokens of a session: how long they last, exchanging the key, rotating the refresh token."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from ledger_tui.client.api import Api
from ledger_tui.client.errors import ClientError, NotFound, Refusal, Unauthorized
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


PATH = "/v1/auth/token"
_AGAIN_SECONDS = 15.0  # after a refresh that failed for a reason that may pass


class NoTokens(ClientError):
    """No key or refresh token can be exchanged; the message says why."""


class TokenManager:
    """Exchanges and refreshes under one lock: a refresh token works once, so two refreshes would lose one."""

    def __init__(self, api: Api, tokens: Tokens) -> None:
        self._api = api
        self.tokens = tokens
        self.key: str | None = None
        self._lock = asyncio.Lock()
        self._try_at = 0.0

    async def exchange(self) -> None:
        """Exchange the API key for a pair of tokens and use them. Raises ClientError."""
        async with self._lock:
            if not self.key:
                raise NoTokens("There is no API key to exchange.")
            answer = await self._api.write("POST", PATH, {"grant_type": "api_key", "api_key": self.key}, None)
            self._take(answer.record)
            self.tokens.rotations = 0

    async def refresh(self) -> None:
        """Exchange the refresh token for the next pair. Raises ClientError.

        When the server refuses it, it is used up or revoked, and the API key, if there is one, is used again.
        """
        async with self._lock:
            pair = self.tokens.pair
            if pair is None or pair.refresh is None:
                raise NoTokens("There is no refresh token; exchange the key first.")
            grant = {"grant_type": "refresh_token", "refresh_token": pair.refresh}
            try:
                answer = await self._api.write("POST", PATH, grant, None)
            except (Unauthorized, NotFound) as error:
                self.use_key()
                self.tokens.problem = f"The refresh token is not accepted: {error}"
                raise
            self._take(answer.record)
            self.tokens.rotations += 1

    async def refresh_when_due(self) -> bool:
        """Refresh if it is time; returns whether it did. A failure is noted in `tokens.problem`."""
        due = self.tokens.due_in
        if due is None or due > 0 or self._lock.locked() or self.tokens.clock() < self._try_at:
            return False
        self._try_at = self.tokens.clock() + _AGAIN_SECONDS
        try:
            await self.refresh()
        except ClientError as error:
            self.tokens.problem = self.tokens.problem or f"The token was not refreshed: {error}"
            return False
        return True

    def use_key(self) -> None:
        """Use the API key itself again; the tokens are forgotten."""
        self.tokens.drop()
        if self.key:
            self._api.use(self.key)

    def is_own(self, api_key: Record) -> bool:
        """Return whether a key's record has the last characters of the key in use here."""
        last = api_key.get("last4")
        return bool(self.key and isinstance(last, str) and last and self.key.endswith(last))

    def replace_key(self, key: str) -> None:
        """Use the new key after the former one was rolled."""
        self.key = key
        self.use_key()

    def _take(self, answer: Record) -> None:
        try:
            pair = self.tokens.take(answer)
        except ValueError as error:
            raise NoTokens(str(error)) from None
        self._api.use(pair.access)


def refusal_of(error: ClientError) -> str:
    """Return why no tokens were issued, where the server's own message would mislead."""
    if isinstance(error, Refusal) and error.status in (404, 405):
        return "This server issues no tokens."
    return str(error)
