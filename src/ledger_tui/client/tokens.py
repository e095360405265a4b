"""The short-lived tokens of a session: how long they last, exchanging the key, rotating the refresh token."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ledger_client.tokens import AGAIN_S, due_in
from ledger_client.tokens import EARLY_S as EARLY_SECONDS
from ledger_tui.client.api import Api
from ledger_tui.client.errors import AuthenticationError, LedgerError, NotFound
from ledger_tui.client.records import Record

if TYPE_CHECKING:
    from ledger_client.records import TokenPair as TokenPair

__all__ = ["EARLY_SECONDS", "NoTokens", "TokenManager", "Tokens", "refusal_of"]


class Tokens:
    """The pair in use, if any; without one the key itself is sent to the server."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.pair: TokenPair | None = None
        self._until = 0.0
        self.rotations = 0
        self.problem = ""

    def take(self, pair: TokenPair) -> None:
        """Use a pair from now on."""
        self.pair = pair
        self._until = self.clock() + pair.expires_in
        self.problem = ""

    def lose_refresh(self) -> None:
        """Forget the refresh token: the access token lasts to its end, and none follows it."""
        if self.pair is not None:
            self.pair = replace(self.pair, refresh_token=None)

    def drop(self) -> None:
        """Forget the pair and use the key again."""
        self.pair = None
        self.rotations = 0
        self.problem = ""

    @property
    def left(self) -> float:
        """Return the seconds until the access token expires; 0 without one."""
        return max(0.0, self._until - self.clock()) if self.pair else 0.0

    @property
    def due_in(self) -> float | None:
        """Return the seconds until it should be refreshed; None when there is no refresh token."""
        if self.pair is None or self.pair.refresh_token is None:
            return None
        return due_in(self.left, self.pair.expires_in)


class NoTokens(LedgerError):
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
        """Exchange the API key for a pair of tokens and use them. Raises LedgerError."""
        async with self._lock:
            if not self.key:
                raise NoTokens("There is no API key to exchange.")
            self._take(await self._issue({"grant_type": "api_key", "api_key": self.key}))
            self.tokens.rotations = 0

    async def refresh(self) -> None:
        """Exchange the refresh token for the next pair. Raises LedgerError.

        When the server refuses it, it is used up or revoked, and the API key, if there is one, is used again.
        """
        async with self._lock:
            pair = self.tokens.pair
            if pair is None or pair.refresh_token is None:
                raise NoTokens("There is no refresh token; exchange the key first.")
            grant = {"grant_type": "refresh_token", "refresh_token": pair.refresh_token}
            try:
                fresh = await self._issue(grant)
            except (AuthenticationError, NotFound) as error:
                self.use_key()
                self.tokens.problem = f"The refresh token is not accepted: {error}"
                raise
            self._take(fresh)
            self.tokens.rotations += 1

    async def refresh_when_due(self) -> bool:
        """Refresh if it is time; returns whether it did. A failure is noted in `tokens.problem`."""
        due = self.tokens.due_in
        if due is None or due > 0 or self._lock.locked() or self.tokens.clock() < self._try_at:
            return False
        self._try_at = self.tokens.clock() + AGAIN_S
        try:
            await self.refresh()
        except LedgerError as error:
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

    async def _issue(self, grant: Mapping[str, str]) -> TokenPair:
        from ledger_client.records import token_pair

        answer = await self._api.write("POST", "/v1/auth/token", grant, None)
        try:
            return token_pair(answer.body)
        except ValueError as error:
            raise NoTokens(str(error)) from None

    def _take(self, pair: TokenPair) -> None:
        self.tokens.take(pair)
        self._api.use(pair.access_token)


def refusal_of(error: LedgerError) -> str:
    """Return why no tokens were issued, where the server's own message would mislead."""
    if error.status in (404, 405):
        return "This server issues no tokens."
    return str(error)
