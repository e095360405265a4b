"""Finds the credential for an `Authorization` header (docs/interface.md#authentication)."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from time import monotonic
from typing import Any

from ledger_engine.access import api_keys, credentials
from ledger_engine.access.credentials import Credential
from ledger_engine.core.errors import AuthenticationError, LedgerError, StorageUnavailable
from ledger_engine.store.engine import Engine

_REMEMBERED_MAX = 10_000  # the most credentials in the cache
_REFUSALS_MAX = 1_000  # the most refused values in the cache
# An entry is valid for half a second, because this process must refuse a key within 1 s after another process
# has revoked the key (docs/decisions.md#commands).
_REMEMBERED_FOR_S = 0.5
_LOOKED_UP_AT_ONCE = 16  # lookups in the database at a time
_LOOKED_UP_IN_S = 10  # seconds for a lookup, including the wait for its turn (docs/storage.md)
_SCHEME = "Bearer "
_WELL_FORMED = re.compile(rf"{_SCHEME}(?:sk_test|sk_live|at)_[A-Za-z0-9]{{{api_keys.SECRET_LENGTH}}}")


class Authenticator:
    """Finds the credentials of requests, and caches each credential for half a second.

    If this process changes a credential, the change takes effect at once, because the engine announces it and
    `_forget` then clears the cache. Invalid values cost the database little: a malformed value is not looked
    up, and the refusal of any other value is cached too. Only a few values are looked up at a time, so that a
    flood of guesses waits here and does not keep the database's readers busy. The monotonic clock measures
    the age of an entry, because the ledger's clock may stand still in tests.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._credentials: dict[str, tuple[float, Credential]] = {}
        # The refusals are separate from the valid credentials, so that a flood of invalid values does not
        # evict valid ones. A refusal is stored as code and message, because an exception that is raised
        # repeatedly would collect tracebacks.
        self._refusals: dict[str, tuple[float, str, str]] = {}
        # How often the cache was cleared. If the cache is cleared during a lookup, the result of this lookup
        # may be out of date, and is not stored in the cache.
        self._generation = 0
        self._look_ups = asyncio.Semaphore(_LOOKED_UP_AT_ONCE)
        # The lookups in progress, by header. The result of a future is the reason why the storage is
        # unavailable, or None if the storage has answered.
        self._under_way: dict[str, asyncio.Future[str | None]] = {}
        engine.listen(self._forget)

    def remembered(self, header: str | None, now: int) -> Credential | LedgerError | None:
        """Return the credential or error for a header, without the database.

        Return None if only the database can tell: `find` looks up such a header.
        """
        if header is None:
            return AuthenticationError(
                "missing_credential", "Send your API key in the header Authorization: Bearer <key>."
            )
        entry = self._credentials.get(header)
        if entry is not None:
            found_at, credential = entry
            still_good = credential.expires_at is None or now < credential.expires_at
            return credential if still_good and _is_new(found_at) else None
        refusal = self._refusals.get(header)
        if refusal is not None and _is_new(refusal[0]):
            return AuthenticationError(refusal[1], refusal[2])
        if _WELL_FORMED.fullmatch(header) is None:
            return _malformed_error(header)
        return None

    async def find(self, header: str) -> Credential | LedgerError:
        """Return the credential for a header that is not cached, or the error that refuses the header."""
        under_way = self._under_way.get(header)
        if under_way is not None:
            # When the cache entry of a busy caller expires, all connections of the caller need the credential
            # at the same time. One lookup serves them all.
            unavailable = await asyncio.shield(under_way)
            if unavailable is not None:  # a second lookup would wait as long as the first
                return StorageUnavailable(unavailable)
            answer = self.remembered(header, self._engine.clock.now())
            if answer is not None:
                return answer
        outcome = self._under_way[header] = asyncio.get_running_loop().create_future()
        unavailable = None
        try:
            async with asyncio.timeout(_LOOKED_UP_IN_S):
                return await self._look_up(header)
        except (TimeoutError, StorageUnavailable) as error:
            unavailable = error.reason if isinstance(error, StorageUnavailable) else "it does not answer"
            return StorageUnavailable(unavailable)
        finally:
            outcome.set_result(unavailable)
            if self._under_way.get(header) is outcome:
                del self._under_way[header]

    async def _look_up(self, header: str) -> Credential | LedgerError:
        value = header.removeprefix(_SCHEME)
        async with self._look_ups:
            generation = self._generation
            try:
                credential = await self._engine.read_short(partial(credentials.find, value=value))
            except AuthenticationError as error:
                if generation == self._generation:
                    _make_room(self._refusals, _REFUSALS_MAX)
                    self._refusals[header] = (monotonic(), error.code, error.message)
                return error
            if generation == self._generation:
                _make_room(self._credentials, _REMEMBERED_MAX)
                self._credentials[header] = (monotonic(), credential)
            return credential

    def _forget(self, topics: frozenset[str]) -> None:
        if api_keys.TOPIC in topics:
            self._generation += 1
            self._credentials.clear()
            self._refusals.clear()


def _is_new(found_at: float) -> bool:
    return monotonic() - found_at <= _REMEMBERED_FOR_S


def _make_room(entries: dict[str, Any], most: int) -> None:
    """Drop all entries of a cache that already has `most` entries.

    This loses little, because an entry is valid for only half a second.
    """
    if len(entries) >= most:
        entries.clear()


def _malformed_error(header: str) -> AuthenticationError:
    if header.startswith(f"{_SCHEME}sk_"):  # often the sk_test_… of an example
        return AuthenticationError(
            "invalid_credential",
            'An API key is "sk_test_" or "sk_live_", followed by 32 letters and digits. '
            "If you copied an example, write your own key in place of the example's.",
        )
    if header.startswith(_SCHEME) and header[len(_SCHEME) :].isidentifier():
        return AuthenticationError("invalid_credential", "This API key or token is not valid.")
    return AuthenticationError(
        "invalid_credential", 'The Authorization header must be "Bearer", one space and the key.'
    )
