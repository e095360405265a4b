"""The test helpers of one server; operations find them by the server's engine."""

from __future__ import annotations

import asyncio
import contextlib
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
from ledger_engine.events.webhooks import endpoints, sender_process
from ledger_engine.sandbox import emptying, moving
from ledger_engine.sandbox.clock import MovableClock, keep_clock
from ledger_engine.sandbox.emptying import Emptied
from ledger_engine.sandbox.faults import Faults
from ledger_engine.sandbox.faulty_sender import FaultySender
from ledger_engine.sandbox.snapshots import Snapshot, Snapshots
from ledger_engine.sandbox.turnstile import Turnstile
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine
from ledger_engine.upkeep.background import Background
from ledger_engine.upkeep.retention import Retention
from ledger_engine.upkeep.timekeeping import Timekeeper


class Helpers:
    """The helpers of the server that `engine` belongs to; only one of them changes something at a time."""

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
        """Make helpers for this engine, whose clock must be movable; `begin` completes them."""
        assert isinstance(clock, MovableClock), "the engine of a server with test helpers is opened with one"
        helpers = _OF[engine] = Helpers(engine, clock, database)
        return helpers

    @staticmethod
    def of(engine: Engine) -> Helpers:
        """Return the helpers of this engine."""
        return _OF[engine]

    def make_sender(
        self, report: sender_process.Report, make: sender_process.MakeSender = sender_process.new_sender
    ) -> sender_process.AnySender:
        """Return a sender of webhooks to whose jobs faults happen."""
        return FaultySender(self._engine, self.faults, make, report)

    def begin(self, background: Background, timekeeper: Timekeeper) -> None:
        """Take what runs beside the requests, to pause it while the ledger is replaced."""
        self._background = background
        self._retention = Retention(self._engine, timekeeper.now)

    async def move_to(self, moment: int) -> None:
        """Move the clock forward to `moment` (milliseconds), and return when what was due has happened."""
        async with self._turn:
            await self._move_to(moment)

    async def advance(self, milliseconds: int) -> None:
        """Move the clock forward by this, exactly, and return when what was due has happened."""
        async with self._turn:
            offset = self.clock.offset_ms() + milliseconds
            await self._move_to(self.clock.now() + milliseconds)
            self.clock.be_ahead(offset)  # some milliseconds have passed beside those that were asked for
            keep_clock(self._database, self.clock)

    async def _move_to(self, moment: int) -> None:
        assert self._retention is not None, "begin was called"
        await moving.move_to(self._engine, self.clock, moment, self._retention.clean_up)
        keep_clock(self._database, self.clock)

    async def freeze(self, *, frozen: bool) -> None:
        """Let the clock stand still, or go on."""
        async with self._turn:
            if frozen:
                self.clock.freeze()
            else:
                self.clock.unfreeze()
            keep_clock(self._database, self.clock)

    async def take_snapshot(self, id: str, name: str) -> Snapshot:
        """Copy the whole ledger. Raises InvalidRequest for a name that is taken."""
        async with self._turn:
            self.snapshots.check_new(name)
            return await self.snapshots.take(self._engine, self.clock, id, name)

    async def restore(self, name: str) -> Snapshot:
        """Make the whole ledger what it was. Raises NotFound."""
        self.snapshots.get(name)
        async with self._turn, self.turnstile.alone(), self._nothing_beside():
            await Followers.of(self._engine).end_those_there()
            restored = await self.snapshots.restore(self._engine, self.clock, name)
            keep_clock(self._database, self.clock)
            self.turnstile.replaced += 1
            for call in self.when_restored:
                call()
            await self._engine.write(_announce_all)
            return restored

    async def reset(self, tenant: Tenant) -> Emptied:
        """Empty the project and mode, and forget its faults."""
        async with self._turn, self.turnstile.alone():
            self.faults.clear(tenant)
            async with self._nothing_beside():
                return await self._engine.write(partial(emptying.empty, tenant=tenant))

    @contextlib.asynccontextmanager
    async def _nothing_beside(self) -> AsyncIterator[None]:
        assert self._background is not None, "begin was called"
        await self._background.pause()
        try:
            yield
        finally:
            self._background.resume()


def _announce_all(unit: Unit) -> None:
    """Let everyone look again: at credentials, events and webhook endpoints."""
    for topic in (api_keys.TOPIC, outbox.TOPIC, endpoints.TOPIC):
        unit.announce(topic)


_OF: WeakKeyDictionary[Engine, Helpers] = WeakKeyDictionary()
