"""Keeps the tokens of an OAuth sign-in fresh and in the profile's secrets."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from ledger_tui.client.api import Api
from ledger_tui.client.errors import ClientError
from ledger_tui.client.oauth import OAuthApp, Refused, ask_for_tokens
from ledger_tui.client.tokens import NoTokens, TokenKeeper
from ledger_tui.state.tokens import EARLY_SECONDS, Tokens
from ledger_tui.state.window import Record


class KeptPair(Protocol):
    """Tokens as they are kept between two runs; `expires_at` is Unix time."""

    @property
    def access_token(self) -> str | None: ...
    @property
    def refresh_token(self) -> str | None: ...
    @property
    def expires_at(self) -> float | None: ...


class ShelfFailed(ClientError):
    """Tokens cannot be kept or read; the message says why."""


class Shelf(Protocol):
    """Where a pair is kept. The calls may block; `read` and `keep` raise ShelfFailed."""

    def read(self) -> KeptPair | None: ...
    def keep(self, access: str, refresh: str | None, expires_at: float) -> None: ...

    def take_turn(self) -> Closeable:
        """Wait for the other dashboards of this profile; the turn ends when what this gives is closed."""
        ...


class Closeable(Protocol):
    def close(self) -> object: ...


class OAuthKeeper(TokenKeeper):
    """As its parent, with the grant of a user in place of the exchange of a key."""

    def __init__(self, api: Api, tokens: Tokens, app: OAuthApp, shelf: Shelf) -> None:
        super().__init__(api, tokens)
        self.app = app
        self._shelf = shelf
        self._refused: str | None = None  # a refresh token that is kept still and good no more

    async def resume(self) -> str | None:
        """The access token of an earlier run, made anew if it is about to end; None: sign in first.

        Raises ShelfFailed, and SignInFailed where there are tokens but the server does not answer.
        """
        async with self._lock, self._turn():
            kept = await asyncio.to_thread(self._shelf.read)
            if kept is None or kept.access_token is None:
                return None
            if self._take_kept(kept) < EARLY_SECONDS:
                try:
                    await self._rotate()
                except Refused:
                    self.tokens.drop()
            return self.tokens.pair.access if self.tokens.pair is not None else None

    async def signed_in(self, answer: Record) -> None:
        """A sign-in gave these tokens: keep them. They are used when the server is opened with them."""
        async with self._lock, self._turn():
            await self._take_and_keep(answer)
            self.tokens.rotations = 0

    def use_key(self) -> None:
        """There is no key to go back to."""

    async def exchange(self) -> None:
        raise NoTokens("This profile signs in through the browser; it has no key to exchange.")

    async def refresh(self) -> None:
        """Rotate, once at a time. Raises SignInFailed; after `Refused`, sign in again."""
        async with self._lock, self._turn():
            # Another dashboard of this profile may have rotated: a token used twice would end them all.
            kept = None
            with contextlib.suppress(
                ShelfFailed
            ):  # what is in memory is good; keeping it tells what is wrong
                kept = await asyncio.to_thread(self._shelf.read)
            pair = self.tokens.pair
            worthless = (None, self._refused, pair.refresh if pair is not None else None)
            if kept is not None and pair is not None and kept.refresh_token not in worthless:
                self._take_kept(kept)
                self._use()
                return
            try:
                await self._rotate()
            except Refused as error:
                # Sent again it would be refused again, so nothing is until somebody signs in.
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
        try:  # first kept, then used: what was rotated away is good no more
            await asyncio.to_thread(self._shelf.keep, pair.access, pair.refresh, time.time() + pair.lasts)
        except ShelfFailed as error:
            self.tokens.problem = f"The tokens could not be kept: {error}"

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        turn = await asyncio.to_thread(self._shelf.take_turn)
        try:
            yield
        finally:
            turn.close()

    def _take_kept(self, kept: KeptPair) -> int:
        """Use what an earlier run, or another dashboard, has kept; the seconds it still lasts."""
        left = max(1, int((kept.expires_at or 0) - time.time()))
        answer = {"access_token": kept.access_token, "refresh_token": kept.refresh_token, "expires_in": left}
        self.tokens.take(answer)
        return left

    def _use(self) -> None:
        if self.tokens.pair is not None:
            self._api.use(self.tokens.pair.access)
