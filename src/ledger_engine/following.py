"""Following events as they happen: whoever waits for the next one is woken by its commit."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from weakref import WeakKeyDictionary

from ledger_engine import events
from ledger_engine.engine import Engine
from ledger_engine.errors import PermissionDenied

FOLLOWERS_MAX = 100
LOOKS_EVERY_S = 1.0  # for what other processes wrote, which nobody tells us


class Followers:
    """All who follow the events of one engine; `of` finds them."""

    def __init__(self, engine: Engine) -> None:
        self._changed = asyncio.Event()
        self._count = 0
        self.ended = False
        engine.listen(self._notice_commit)

    @staticmethod
    def of(engine: Engine) -> Followers:
        """The engine's followers."""
        followers = _OF.get(engine)
        if followers is None:
            followers = _OF[engine] = Followers(engine)
        return followers

    def require_room(self) -> None:
        """Raise PermissionDenied when there are too many already."""
        if self._count >= FOLLOWERS_MAX:
            raise PermissionDenied(
                "quota_exceeded", f"{FOLLOWERS_MAX} listeners follow the events already; try again later."
            )

    @contextlib.contextmanager
    def one_more(self) -> Iterator[None]:
        """Count as one of them."""
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1

    def next_change(self) -> asyncio.Event:
        """Set when something happens from now on. Take it before looking at what there is."""
        return self._changed

    async def wait_for(self, change: asyncio.Event) -> None:
        """Until the change, or until it is time to look whether another process wrote something."""
        if not self.ended:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOKS_EVERY_S):
                    await change.wait()

    def end(self) -> None:
        """The server stops: wake everyone, to find `ended` true."""
        self.ended = True
        self._changed.set()

    def _notice_commit(self, topics: frozenset[str]) -> None:
        if events.TOPIC in topics and self._count:
            self._changed.set()
            self._changed = asyncio.Event()


_OF: WeakKeyDictionary[Engine, Followers] = WeakKeyDictionary()
