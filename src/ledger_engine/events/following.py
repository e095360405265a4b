"""Follows events as they happen: a commit wakes each follower that waits for the next event."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from weakref import WeakKeyDictionary

from ledger_engine.core.errors import PermissionDenied
from ledger_engine.events import outbox
from ledger_engine.limits import Full, Semaphore
from ledger_engine.store.engine import Engine

FOLLOWERS_MAX = 100
FOLLOWERS_OF_ONE_MAX = 25  # followers of one project, so that places remain for other projects
# The commits of other processes wake no follower in this process, so each follower also looks for new events
# at this interval.
POLL_INTERVAL_S = 1.0


class Followers:
    """All followers of one engine's events. `Followers.of` returns the one instance of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._change = asyncio.Event()
        self._semaphores = engine.shared_state.semaphores
        self.count = 0  # the followers in this process
        self.ended = False
        engine.listen(self._notice_commit)

    @staticmethod
    def of(engine: Engine) -> Followers:
        """Return the instance of this engine; the first call creates it."""
        followers = _OF.get(engine)
        if followers is None:
            followers = _OF[engine] = Followers(engine)
        return followers

    @contextlib.asynccontextmanager
    async def follow(self, project: str) -> AsyncIterator[None]:
        """Count one more follower of this project until the block ends.

        Raises PermissionDenied if the project or the server already has the highest number of followers.
        """
        of_project = Semaphore(f"followers/{project}", FOLLOWERS_OF_ONE_MAX)
        of_all = Semaphore("followers", FOLLOWERS_MAX)
        async with contextlib.AsyncExitStack() as resources:
            try:
                await resources.enter_async_context(self._semaphores.hold(of_project, of_all))
            except Full as full:
                whose = "this project's events" if full.semaphore == of_project else "events"
                raise PermissionDenied(
                    "quota_exceeded",
                    f"{full.semaphore.most} streams of {whose} are already open; try again later.",
                ) from None
            self.count += 1
            try:
                yield
            finally:
                self.count -= 1

    def next_change(self) -> asyncio.Event:
        """Return an asyncio.Event that is set when the next ledger events are recorded.

        Call this before reading the ledger events, so that events recorded during the read are noticed.
        """
        return self._change

    async def wait_for(self, change: asyncio.Event) -> None:
        """Wait until `change` is set, or until it is time to look for the events of other processes."""
        if not self.ended:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_INTERVAL_S):
                    await change.wait()

    def end(self) -> None:
        """Set `ended` and wake all followers, because the server is stopping."""
        self.ended = True
        self._change.set()

    async def end_current(self) -> None:
        """End all current followers, because the ledger is being replaced. Then allow new followers."""
        self.end()
        # 500 waits take a second in total. If a follower has not ended by then, its client does not read the
        # events, and waiting longer would not help.
        for _ in range(500):
            if not self.count:
                break
            await asyncio.sleep(0.002)
        self.ended = False
        self._change = asyncio.Event()

    def _notice_commit(self, topics: frozenset[str]) -> None:
        if outbox.TOPIC in topics and self.count:
            self._change.set()
            self._change = asyncio.Event()


_OF: WeakKeyDictionary[Engine, Followers] = WeakKeyDictionary()
