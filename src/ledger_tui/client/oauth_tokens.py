"""Keeps the tokens of an OAuth sign-in fresh, and stores them with the profile's secrets."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Protocol

from ledger_tui.client.api import Api
from ledger_tui.client.errors import ClientError
from ledger_tui.client.oauth import OAuthApp, Refused, ask_for_tokens
from ledger_tui.client.records import Record
from ledger_tui.client.token_pair import EARLY_SECONDS, Tokens
from ledger_tui.client.tokens import NoTokens, TokenManager
from ledger_tui.client.transport import is_key


class StoredPair(Protocol):
    """Tokens as they are stored between two runs; `expires_at` is Unix time in seconds."""

    @property
    def access_token(self) -> str | None: ...
    @property
    def refresh_token(self) -> str | None: ...
    @property
    def expires_at(self) -> float | None: ...


class TokenStoreFailed(ClientError):
    """Tokens cannot be stored or read; the message says why."""


class TokenStore(Protocol):
    """Storage for a pair of tokens. The calls may block; `read` and `keep` raise TokenStoreFailed."""

    def read(self) -> StoredPair | None: ...
    def keep(self, access: str, refresh: str | None, expires_at: float) -> None: ...

    def acquire_lock(self) -> AbstractContextManager[object]:
        """Wait for the lock of this profile, which other dashboards may hold; the context releases it."""
        ...


class OAuthTokenManager(TokenManager):
    """Like TokenManager, with the user's grant in place of the exchange of a key."""

    def __init__(self, api: Api, tokens: Tokens, app: OAuthApp, store: TokenStore) -> None:
        super().__init__(api, tokens)
        self.app = app
        self._store = store
        self._refused: str | None = None  # a refresh token that is still stored and no longer valid

    async def resume(self) -> str | None:
        """Return the stored access token, refreshed if it is about to expire; None: the user has to sign in.

        Raises TokenStoreFailed, and SignInFailed when tokens are stored but the server does not answer.
        """
        async with self._lock, self._turn():
            kept = await asyncio.to_thread(self._store.read)
            if kept is None or not is_key(kept.access_token or ""):
                return None
            if self._take_kept(kept) < EARLY_SECONDS:
                try:
                    await self._rotate()
                except Refused:
                    self.tokens.drop()
            return self.tokens.pair.access if self.tokens.pair is not None else None

    async def signed_in(self, answer: Record) -> None:
        """Store the tokens of a sign-in. They are used once the server is opened with them."""
        async with self._lock, self._turn():
            await self._take_and_keep(answer)
            self.tokens.rotations = 0

    def use_key(self) -> None:
        """Do nothing: an OAuth session has no key to return to."""

    async def exchange(self) -> None:
        raise NoTokens("This profile signs in through the browser; it has no key to exchange.")

    async def refresh(self) -> None:
        """Rotate the tokens, one call at a time. Raises SignInFailed; after `Refused`, sign in again."""
        async with self._lock, self._turn():
            # Another dashboard of this profile may have rotated: using a token a second time would end the
            # grant.
            kept = None
            with contextlib.suppress(
                TokenStoreFailed
            ):  # the tokens in memory are valid; storing reports the problem
                kept = await asyncio.to_thread(self._store.read)
            pair = self.tokens.pair
            worthless = (None, self._refused, pair.refresh if pair is not None else None)
            usable = kept is not None and is_key(kept.access_token or "")
            if kept is not None and usable and pair is not None and kept.refresh_token not in worthless:
                self._take_kept(kept)
                self._use()
                return
            try:
                await self._rotate()
            except Refused as error:
                # It would be refused again, so it is not sent until somebody signs in.
                self._refused = pair.refresh if pair is not None else None
                self.tokens.lose_refresh()
                self.tokens.problem = f"Sign in again. {error}"
                raise
            self._use()
            self.tokens.rotations += 1

    # ------------------------------------------------------------------ inside

    async def _rotate(self) -> None:
        pair = self.tokens.pair
        if pair is None or pair.refresh is None:
            raise NoTokens("There is no refresh token; sign in.")
        fields = {"grant_type": "refresh_token", "refresh_token": pair.refresh}
        answer = await ask_for_tokens(self.app, fields)
        await self._take_and_keep({"refresh_token": pair.refresh, **answer})

    async def _take_and_keep(self, answer: Record) -> None:
        try:
            pair = self.tokens.take(answer)
        except ValueError as error:
            raise NoTokens(str(error)) from None
        try:  # first stored, then used, because the former token is no longer valid
            await asyncio.to_thread(self._store.keep, pair.access, pair.refresh, time.time() + pair.lasts)
        except TokenStoreFailed as error:
            self.tokens.problem = f"The tokens could not be stored: {error}"

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        with await asyncio.to_thread(self._store.acquire_lock):
            yield

    def _take_kept(self, kept: StoredPair) -> int:
        """Use the tokens that an earlier run or another dashboard stored; returns their seconds left."""
        left = max(1, int((kept.expires_at or 0) - time.time()))
        answer = {"access_token": kept.access_token, "refresh_token": kept.refresh_token, "expires_in": left}
        self.tokens.take(answer)
        return left

    def _use(self) -> None:
        if self.tokens.pair is not None:
            self._api.use(self.tokens.pair.access)
