"""Places in the memory of one process: a single server's, or the parent's for all workers."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Sequence

from ledger_engine.limits import Full, Place


class HeldPlaces:
    """How many places of each name are held. Use it in one event loop."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        self._waiting: list[asyncio.Future[None]] = []

    @contextlib.asynccontextmanager
    async def hold(self, *places: Place, wait: bool = False) -> AsyncIterator[None]:
        await self.take(places, wait=wait)
        try:
            yield
        finally:
            self.give_back(places)

    async def take(self, places: Sequence[Place], *, wait: bool = False) -> None:
        """Take one place of each, until `give_back`. Raises Full, unless it is to `wait`."""
        while (full := self._full(places)) is not None:
            if not wait:
                raise Full(full)
            freed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(freed)
            await freed
        for place in places:
            self._held[place.name] += 1

    def give_back(self, places: Sequence[Place]) -> None:
        """Give back one place of each."""
        for place in places:
            self._held[place.name] -= 1
            if not self._held[place.name]:
                del self._held[place.name]
        waiting, self._waiting = self._waiting, []
        for freed in waiting:
            if not freed.done():  # whoever waited may have been cancelled
                freed.set_result(None)

    def held(self, name: str) -> int:
        """Return how many places of this name are held."""
        return self._held[name]

    def _full(self, places: Sequence[Place]) -> Place | None:
        return next((place for place in places if self._held[place.name] >= place.most), None)
