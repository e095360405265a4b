"""Following events as they happen: a commit wakes everyone who waits for the next event."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator
from weakref import WeakKeyDictionary

from ledger_engine.core.errors import PermissionDenied
from ledger_engine.database.engine import Engine
from ledger_engine.events import outbox

FOLLOWERS_MAX = 100
FOLLOWERS_OF_ONE_MAX = 25  # of one project, so that it cannot take the places of all others
POLL_INTERVAL_S = 1.0  # to find events of other processes, whose commits wake nobody here


class Followers:
    """All followers of one engine's events. Use `of` to get an engine's instance."""

    def __init__(self, engine: Engine) -> None:
        self._changed = asyncio.Event()
        self._counts: Counter[str] = Counter()  # by project
        self.ended = False
        engine.listen(self._notice_commit)

    @staticmethod
    def of(engine: Engine) -> Followers:
        """Return the instance of this engine."""
        followers = _OF.get(engine)
        if followers is None:
            followers = _OF[engine] = Followers(engine)
        return followers

    @contextlib.contextmanager
    def follow(self, project: str) -> Iterator[None]:
        """Count a follower of this project. Raises PermissionDenied when it, or the server, has too many."""
        for count, most, whose in (
            (self._counts[project], FOLLOWERS_OF_ONE_MAX, "this project's events"),
            (self._counts.total(), FOLLOWERS_MAX, "events"),
        ):
            if count >= most:
                raise PermissionDenied(
                    "quota_exceeded", f"{most} listeners already follow {whose}; try again later."
                )
        self._counts[project] += 1
        try:
            yield
        finally:
            self._counts[project] -= 1
            if not self._counts[project]:
                del self._counts[project]

    def next_change(self) -> asyncio.Event:
        """Return an event that the next change sets. Take it before reading the events."""
        return self._changed

    async def wait_for(self, change: asyncio.Event) -> None:
        """Wait for the change, or until it is time to look for events of other processes."""
        if not self.ended:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_INTERVAL_S):
                    await change.wait()

    def end(self) -> None:
        """Set `ended` and wake everyone, as the server is stopping."""
        self.ended = True
        self._changed.set()

    def _notice_commit(self, topics: frozenset[str]) -> None:
        if outbox.TOPIC in topics and self._counts:
            self._changed.set()
            self._changed = asyncio.Event()


_OF: WeakKeyDictionary[Engine, Followers] = WeakKeyDictionary()
