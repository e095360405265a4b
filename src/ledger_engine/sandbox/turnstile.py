"""The turnstile: holds requests back while the ledger under them is replaced."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

PATIENCE_S = 5.0  # a request that takes longer is not waited for: it fails, or works on what is there then


class Turnstile:
    """Counts the requests under way; `alone` lets them end and the others wait."""

    def __init__(self) -> None:
        self.replaced = 0  # how often the ledger was replaced
        self._under_way = 0
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    async def wait(self) -> None:
        """Wait while it is closed."""
        await self._is_open.wait()

    @contextlib.asynccontextmanager
    async def passing(self) -> AsyncIterator[None]:
        """Count a request as under way; it waits first while the turnstile is closed."""
        await self._is_open.wait()
        self._under_way += 1
        self._is_empty.clear()
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._is_empty.set()

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Hold new requests back, after those under way have ended."""
        self._is_open.clear()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_S):
                    await self._is_empty.wait()
            yield
        finally:
            self._is_open.set()
