"""Timekeeping: whether to believe the machine's clock, on which erasing and sending depend.

A clock that is wrong at a start makes everything look old: it would have users erased, the request log
emptied and every retry sent. So the real time, as far as is known, is kept in the database (`kept_time`).
A clock that is at most a day ahead of it is believed. One that is further ahead may be wrong, or the
ledger was not served for so long; nobody can tell. Then erasing, and the webhook retries from before the
start, wait until the clock has run evenly for an hour, or until a person says that it is right
(`serve --accept-clock`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from ledger_engine.core.clock import DAY, iso
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.ids import moment_of
from ledger_engine.database import Unit, kept_time
from ledger_engine.database.engine import Engine
from ledger_engine.events import request_log

AHEAD_MAX = DAY
EVEN_FOR_MS = 3_600_000
UNEVEN_MS = 30_000  # between two looks, against the monotonic clock; less is a clock being kept right
POLL_INTERVAL_S = 10.0
KEEPS_EVERY_MS = 3_600_000

log = logging.getLogger("ledger_engine.upkeep.timekeeping")


class Timekeeper:
    """Tells the real time as far as is known. `begin` comes first, then `start` and `stop`."""

    def __init__(
        self, engine: Engine, *, accept: bool = False, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._engine = engine
        self._accept = accept
        self._monotonic = monotonic
        self._trusted, self._trusted_at = 0, self._passed()
        self._machine, self._looked_at = engine.clock.machine(), self._passed()
        self._even_since = self._looked_at
        self._kept_at = self._looked_at
        self._believed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Decide whether to believe the machine's clock. Raises StorageUnavailable."""
        kept, newest = await self._engine.read(_look_up)
        self._engine.clock.advance_past(newest)
        machine = self._engine.clock.machine()
        if kept is None:  # no server of this version ran here: what an older one logged last is as good
            kept = min(newest or machine, machine)
        self._trust(machine if self._accept else kept)
        if machine - self.now() <= AHEAD_MAX:
            self._trust(max(machine, self.now()))
            self._believed.set()
        else:
            days = round((machine - self.now()) / DAY)
            self._engine.notice = (
                f"The clock shows {iso(machine)}, and the last that is known of this ledger is from"
                f" {iso(self.now())}, {days} days before. In case the clock is wrong, nothing is erased and"
                " no webhook retry from before this start is sent until it has run evenly for an hour;"
                " everything else works. If it is right, start with --accept-clock to go on at once."
            )
        await self._engine.write(self._keep)

    def now(self) -> int:
        """The real time as far as is known: of the machine's clock if it is believed, else what was kept, and
        the time that passed since."""
        return self._trusted + self._passed() - self._trusted_at

    @property
    def is_believed(self) -> bool:
        """Whether the clock with which the server was started is believed."""
        return self._believed.is_set()

    async def wait_until_believed(self) -> None:
        """Wait until the clock with which the server was started is believed."""
        await self._believed.wait()

    def start(self) -> None:
        """Begin to watch the clock; needs a running event loop."""
        self._task = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """Keep the time, and stop."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            await self._keep_if_possible()

    async def look(self) -> None:
        """Compare the machine's clock with the time that passed, and believe it when that may be."""
        machine, passed = self._engine.clock.machine(), self._passed()
        if abs(machine - self._machine - (passed - self._looked_at)) > UNEVEN_MS:
            self._even_since = passed
        self._machine, self._looked_at = machine, passed
        is_little_ahead = 0 <= machine - self.now() <= AHEAD_MAX
        if is_little_ahead or passed - self._even_since >= EVEN_FOR_MS:
            self._trust(machine)
            if not self._believed.is_set():
                self._engine.notice = None
                self._believed.set()
                log.warning("the clock is believed now: erasing and earlier webhook retries go on")
                await self._keep_if_possible()
        if passed - self._kept_at >= KEEPS_EVERY_MS:
            await self._keep_if_possible()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(POLL_INTERVAL_S)
            await self.look()

    async def _keep_if_possible(self) -> None:
        self._kept_at = self._passed()
        with contextlib.suppress(StorageUnavailable):
            await self._engine.write(self._keep)

    def _keep(self, unit: Unit) -> None:
        kept_time.trust(unit, self.now())

    def _trust(self, moment: int) -> None:
        self._trusted, self._trusted_at = moment, self._passed()

    def _passed(self) -> int:
        return round(self._monotonic() * 1000)


def _look_up(unit: Unit) -> tuple[int | None, int]:
    """The real time that was kept, and when the last request was logged, 0 for never."""
    return kept_time.get(unit).trusted, max(map(moment_of, request_log.newest(unit)), default=0)
