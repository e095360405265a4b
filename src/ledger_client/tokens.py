"""The tokens that a client uses instead of a key, refreshed before they expire."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from ledger_client.addresses import is_key
from ledger_client.errors import LedgerError

if TYPE_CHECKING:
    from ledger_client.records import TokenPair

# the client refreshes an access token this long before the token expires (docs/interface.md#authentication)
EARLY_S = 300.0
AGAIN_S = 15.0  # the wait after a refresh that failed for a temporary reason


class NoTokens(LedgerError):
    """The client has no valid tokens and cannot get new tokens; the message gives the reason."""


class NotStored(LedgerError):
    """Tokens cannot be stored or read; the message gives the reason."""


class StoredTokens(Protocol):
    """A stored pair of tokens; `expires_at` is Unix time in seconds."""

    @property
    def access_token(self) -> str | None: ...
    @property
    def refresh_token(self) -> str | None: ...
    @property
    def expires_at(self) -> float | None: ...


class TokenStore(Protocol):
    """A place for tokens that several processes share.

    `Tokens` calls the methods in threads, because they may block. `read` and `keep` raise NotStored.
    """

    def read(self) -> StoredTokens | None:
        """Return the stored tokens; None if no tokens are stored."""
        ...

    def keep(self, pair: TokenPair, expires_at: float) -> None:
        """Store a pair in place of the former pair."""
        ...

    def acquire_lock(self) -> AbstractContextManager[object]:
        """Return a context that holds a lock. Each process holds this lock while it refreshes the tokens.

        One thread calls this method, enters the context and leaves it. Each of these steps may block.
        """
        ...


def is_final(error: LedgerError) -> bool:
    """Return whether `error` means that the server will never accept this refresh token."""
    return error.status in (400, 401)


class Tokens:
    """The tokens that a client uses. One refresh runs at a time: the server accepts a refresh token once.

    `exchange` gets the next pair for a refresh token. This class calls `on_change` with each new pair before
    a request uses the pair. Processes that share a `store` refresh one after the other, and use the pair that
    another process has stored. If a pair could not be stored, `problem` gives the reason in a sentence.
    `rotations` counts the pairs that `refresh` got since `begin`. `clock` shows seconds and never goes back.
    """

    def __init__(
        self,
        exchange: Callable[[str], Awaitable[TokenPair]],
        store: TokenStore | None = None,
        on_change: Callable[[TokenPair], object] = lambda pair: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._exchange = exchange
        self._store = store
        self._on_change = on_change
        self.clock = clock
        self.pair: TokenPair | None = None
        self.rotations = 0
        self.problem = ""
        self._lock = asyncio.Lock()
        # Times of `clock`: the access token expires at `_until`; before `_try_at` no refresh is due.
        self._until = self._try_at = 0.0
        self._dead_token: str | None = None  # the server refused this token; the store may still hold it

    def take(self, pair: TokenPair) -> None:
        """Use this pair for the next requests."""
        self.pair, self.problem = pair, ""
        self._until = self.clock() + pair.expires_in
        self._try_at = 0.0

    def drop(self) -> None:
        """Forget the pair."""
        self.pair, self.rotations, self.problem = None, 0, ""

    @property
    def left(self) -> float:
        """Return the seconds until the access token expires; 0 without an access token."""
        return max(0.0, self._until - self.clock()) if self.pair is not None else 0.0

    @property
    def due_in(self) -> float | None:
        """Return the seconds until the next refresh; None without a refresh token.

        The refresh is due five minutes before the access token expires. If the token lives less than ten
        minutes, the refresh is due at half the token's lifetime.
        """
        if self.pair is None or self.pair.refresh_token is None:
            return None
        return max(0.0, self.left - min(EARLY_S, self.pair.expires_in / 2))

    async def access(self) -> str:
        """Return a valid access token, refreshed if a refresh is due.

        Raises LedgerError if there is no valid token after the attempt to refresh.
        """
        if self.pair is None and not await self.resume():
            raise NoTokens("There are no tokens: sign in.")
        try:
            await self.refresh(when_due=True)
        except LedgerError:
            if not self.left:
                raise
        assert self.pair is not None
        return self.pair.access_token

    async def begin(self, pair: TokenPair) -> None:
        """Use and store the first pair of a sign-in."""
        async with self._lock, self._store_lock():
            await self._take_and_keep(pair)
            self.rotations = 0

    async def resume(self) -> bool:
        """Use the stored tokens, refreshed if they expire soon. Return whether valid tokens are in use now.

        Raises NotStored, and LedgerError if the refresh failed for a temporary reason.
        """
        async with self._lock, self._store_lock():
            tokens = await self._stored()
            if tokens is None:
                return False
            self._take_stored(tokens)
            if self.left < EARLY_S:
                try:
                    await self._rotate()
                except LedgerError as error:
                    if not is_final(error):
                        raise
                    self.drop()
        return self.pair is not None

    async def refresh(self, *, when_due: bool = False) -> bool:
        """Get the next pair, or use a pair that another process has stored. Return True.

        With `when_due`, do nothing and return False if no refresh is due. Raises LedgerError. If the server
        refuses the refresh token for good, the access token stays in use until it expires.
        """
        async with self._lock:
            if when_due and not self._is_due():
                return False
            self._try_at = self.clock() + AGAIN_S
            async with self._store_lock():
                await self._refresh()
        return True

    def _is_due(self) -> bool:
        if self.pair is None or self.clock() < self._try_at:
            return False
        # Once the access token has expired, try even without a refresh token: another process may have stored
        # the next pair.
        return self.due_in == 0 or (self._store is not None and self.left == 0)

    async def _refresh(self) -> None:
        try:
            tokens = await self._stored()
        # Use the refresh token in memory. If the store keeps failing, the attempt to store the next pair
        # sets `problem`.
        except NotStored:
            tokens = None
        own = self.pair.refresh_token if self.pair is not None else None
        if tokens is not None and tokens.refresh_token not in (None, own, self._dead_token):
            # another process has used our refresh token; after a second use the server would revoke all
            # tokens
            self._take_stored(tokens)
            return
        await self._rotate()
        self.rotations += 1

    async def _rotate(self) -> None:
        if self.pair is None or self.pair.refresh_token is None:
            raise NoTokens("There is no refresh token.")
        own = self.pair.refresh_token
        try:
            fresh = await self._exchange(own)
        except LedgerError as error:
            if is_final(error):  # do not send the refused token again
                self._dead_token, self.pair = own, replace(self.pair, refresh_token=None)
            raise
        await self._take_and_keep(fresh if fresh.refresh_token else replace(fresh, refresh_token=own))

    async def _take_and_keep(self, pair: TokenPair) -> None:
        self.take(pair)
        self._on_change(pair)
        if self._store is not None:
            # Store the pair before the client uses it. After a refresh the store still contains the former
            # refresh token, which the server no longer accepts. So if the process ended before it stored the
            # pair, the stored tokens could not be refreshed any more.
            try:
                await asyncio.to_thread(self._store.keep, pair, time.time() + pair.expires_in)
            except NotStored as error:
                self.problem = f"The tokens could not be stored: {error}"

    @asynccontextmanager
    async def _store_lock(self) -> AsyncIterator[None]:
        """Hold the store's lock, if there is a store.

        A lock may belong to a thread, so the same thread takes the lock and releases it. This thread does
        nothing else: in a shared pool all threads could wait for the lock, and no thread would be left to
        store the pair.
        """
        store = self._store
        if store is None:
            yield
            return
        lock, thread = ExitStack(), ThreadPoolExecutor(1, "ledger tokens")
        try:
            await asyncio.wrap_future(thread.submit(lambda: lock.enter_context(store.acquire_lock())))
            yield
        finally:
            # After a cancellation the thread may still wait for the store's lock. When the thread has got the
            # lock, it runs `lock.close`, which releases the lock.
            release = thread.submit(lock.close)
            thread.shutdown(wait=False)
        await asyncio.shield(asyncio.wrap_future(release))

    async def _stored(self) -> StoredTokens | None:
        tokens = None if self._store is None else await asyncio.to_thread(self._store.read)
        return tokens if tokens is not None and is_key(tokens.access_token or "") else None

    def _take_stored(self, tokens: StoredTokens) -> None:
        from ledger_client.records import TokenPair

        left = max(1, int((tokens.expires_at or 0) - time.time()))
        access, refresh = tokens.access_token or "", tokens.refresh_token
        self.take(TokenPair(access_token=access, refresh_token=refresh, expires_in=left))
