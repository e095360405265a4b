"""The test helpers of one server. The routes find the helpers by the server's engine (`Helpers.of`).

If a test moves the clock, everything that depends on time happens as if the time had passed. During the move
the clock stops at each moment at which a retry of a webhook is due. The clock goes on when the webhook is
sent and the result is recorded. When the clock has reached the new time, retention runs and deletes expired
data.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from weakref import WeakKeyDictionary

from ledger_engine.access import api_keys
from ledger_engine.core.clock import Clock
from ledger_engine.core.ids import IdSource
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.events.following import Followers
from ledger_engine.events.webhooks import attempts, endpoints, sender_process
from ledger_engine.sandbox import snapshots
from ledger_engine.sandbox.clock import MovableClock, store_clock
from ledger_engine.sandbox.faults import Faults, FaultySender
from ledger_engine.sandbox.guard import Turnstile
from ledger_engine.sandbox.snapshots import EmptiedProject, Snapshot, Snapshots
from ledger_engine.store import Unit, kept_time
from ledger_engine.store.engine import Engine
from ledger_engine.upkeep.background import Background
from ledger_engine.upkeep.retention import Retention

# The longest time, in seconds, that the clock waits for due webhooks to be sent. A webhook that takes longer
# is sent later. The time is longer than the 15 s that an attempt takes if the receiver hangs.
PATIENCE_S = 20.0
_POLL_S = 0.005


class Helpers:
    """The helpers of the server of `engine`. Calls that change something run one at a time."""

    def __init__(self, engine: Engine, clock: MovableClock, database: Path) -> None:
        self.clock = clock
        self.faults = Faults()
        self.turnstile = Turnstile()
        self.ids = IdSource()
        self.snapshots = Snapshots(database)
        self.when_restored: list[Callable[[], None]] = []
        self._engine = engine
        self._database = database
        self._turn = asyncio.Lock()
        self._background: Background | None = None
        self._retention: Retention | None = None

    @staticmethod
    def offer(engine: Engine, clock: Clock, database: Path) -> Helpers:
        """Make and register the helpers for this engine, whose clock must be movable. Call `begin` later."""
        assert isinstance(clock, MovableClock), (
            "a server with test helpers opens its engine with a MovableClock"
        )
        helpers = _HELPERS[engine] = Helpers(engine, clock, database)
        return helpers

    @staticmethod
    def of(engine: Engine) -> Helpers:
        """Return the helpers of this engine."""
        return _HELPERS[engine]

    def make_sender(
        self, report: sender_process.Report, make: sender_process.MakeSender = sender_process.SenderProcess
    ) -> sender_process.AnySender:
        """Return a sender of webhooks that applies faults to its jobs."""
        return FaultySender(self._engine, self.faults, make, report)

    def begin(self, background: Background) -> None:
        """Complete the helpers with the background tasks, which are paused while the ledger is replaced."""
        self._background = background
        self._retention = Retention(self._engine)

    async def move_to(self, moment: int) -> None:
        """Move the clock forward to `moment` (milliseconds), and return when everything due has happened."""
        async with self._turn:
            await self._move_to(moment)

    async def advance(self, milliseconds: int) -> None:
        """Move the clock forward by exactly this time, and return when everything due has happened."""
        async with self._turn:
            offset = self.clock.offset_ms() + milliseconds
            await self._move_to(self.clock.now() + milliseconds)
            # The move itself has taken some time. Add this time, so that a running clock is exactly
            # `milliseconds` further ahead of the machine's clock than before the move.
            self.clock.raise_offset(offset)
            store_clock(self._database, self.clock)

    async def _move_to(self, moment: int) -> None:
        assert self._retention is not None, "begin was called"
        await _move_clock(self._engine, self.clock, moment)
        await self._retention.clean_up()
        store_clock(self._database, self.clock)

    async def freeze(self, *, frozen: bool) -> None:
        """Freeze the clock, or let it continue."""
        async with self._turn:
            if frozen:
                self.clock.freeze()
            else:
                self.clock.unfreeze()
            store_clock(self._database, self.clock)

    async def take_snapshot(self, id: str, name: str) -> Snapshot:
        """Copy the whole ledger. Raises InvalidRequest for a name that is taken."""
        async with self._turn:
            self.snapshots.check_new(name)
            return await self.snapshots.take(self._engine, self.clock, id, name)

    async def restore(self, name: str) -> Snapshot:
        """Set the whole ledger back to a snapshot. Raises NotFound."""
        self.snapshots.get(name)
        async with self._turn, self.turnstile.hold_requests(), self._pause_background():
            await Followers.of(self._engine).end_current()
            snapshot = await self.snapshots.restore(self._engine, self.clock, name)
            store_clock(self._database, self.clock)
            self.turnstile.replacements += 1
            for call in self.when_restored:
                call()
            await self._engine.write(_announce_all)
            return snapshot

    async def reset(self, tenant: Tenant) -> EmptiedProject:
        """Empty the tenant's project and mode, and remove the tenant's faults."""
        async with self._turn, self.turnstile.hold_requests():
            self.faults.clear(tenant)
            async with self._pause_background():
                counts = await self._engine.write(partial(snapshots.empty, tenant=tenant))
                await self._engine.forget_newest()
                return counts

    @contextlib.asynccontextmanager
    async def _pause_background(self) -> AsyncIterator[None]:
        assert self._background is not None, "begin was called"
        await self._background.pause()
        try:
            yield
        finally:
            self._background.resume()


def _announce_all(unit: Unit) -> None:
    """Announce changes, so that the server reads credentials, events and webhook endpoints again."""
    for topic in (api_keys.TOPIC, outbox.TOPIC, endpoints.TOPIC):
        unit.announce(topic)


async def _move_clock(engine: Engine, clock: MovableClock, moment: int) -> None:
    """Move the clock to `moment`, and return when the webhooks that become due during the move are sent.

    Raises StorageUnavailable.
    """
    all_sent = await _wait_until_all_is_sent(engine, clock)
    while (due := await engine.read(_next_due)) is not None and due <= moment:
        # If the last wait timed out and `due` has already passed, the wait was for this retry too: stop
        # waiting for retries. If the last wait succeeded and `due` has already passed, the retry has become
        # due since then, because the clock keeps running: wait again.
        if not all_sent and due <= clock.now():
            break
        clock.move_to(due)
        await engine.write(_store_time)
        all_sent = await _wait_until_all_is_sent(engine, clock)
    clock.move_to(moment)
    await engine.write(_store_time)
    await _wait_until_all_is_sent(engine, clock)


async def _wait_until_all_is_sent(engine: Engine, clock: MovableClock) -> bool:
    """Wait until every due webhook is sent and its result recorded.

    Return True, or False if this takes longer than PATIENCE_S seconds.
    """
    deadline = time.monotonic() + PATIENCE_S
    while not await engine.read(partial(_all_is_sent, now=clock.now())):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(_POLL_S)
    return True


def _store_time(unit: Unit) -> None:
    """Store the clock's time, so that the ledger's time never becomes earlier.

    Also announce a change of endpoints: this wakes the deliverer, which then sends the webhooks that are due.
    """
    kept_time.reach(unit)
    unit.announce(endpoints.TOPIC)


def _all_is_sent(unit: Unit, now: int) -> bool:
    for subscription in endpoints.subscriptions(unit):
        if attempts.feed(unit, subscription, subscription.cursor, 1, 1).messages:
            return False
        if any(retry.due <= now for retry in attempts.pending(unit, subscription.endpoint, 1)):
            return False
    return True


def _next_due(unit: Unit) -> int | None:
    """Return when the next retry of any endpoint is due, in the ledger's time; None if there is none."""
    dues = [
        retry.due
        for subscription in endpoints.subscriptions(unit)
        for retry in attempts.pending(unit, subscription.endpoint, 1)
    ]
    return min(dues, default=None)


_HELPERS: WeakKeyDictionary[Engine, Helpers] = WeakKeyDictionary()
