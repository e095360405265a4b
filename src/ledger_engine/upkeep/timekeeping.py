"""Timekeeping: whether to trust the machine's clock, on which erasing and sending depend.

A wrong clock at a start makes everything look old: users would be erased, the request log emptied and every
retry sent. So the real time, as far as it is known, is stored in the database (`kept_time`). A clock at most
a day ahead of it is trusted. When it is further ahead, it may be wrong, or the ledger was not served for that
long; nobody can tell. Then erasing, and the webhook retries from before the start, wait until the clock has
run evenly for an hour, or until a person confirms it (`serve --accept-clock`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from ledger_engine.core.clock import DAY, iso, read_together
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.ids import moment_of
from ledger_engine.core.tasks import cancel
from ledger_engine.events import request_log
from ledger_engine.store import Unit, kept_time
from ledger_engine.store.engine import Engine

AHEAD_MAX = DAY
EVEN_FOR_MS = 3_600_000
UNEVEN_MS = 30_000  # how far the clock may drift between two checks; less is ordinary adjustment
POLL_INTERVAL_S = 10.0
KEEPS_EVERY_MS = 3_600_000

log = logging.getLogger("ledger_engine.upkeep.timekeeping")


class Timekeeper:
    """Keeps the real time as far as it is known. Call `begin` first, then `start` and `stop`.

    Of several servers one stores it; each decides for itself whether to trust its machine's clock.
    """

    def __init__(
        self, engine: Engine, *, accept: bool = False, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._engine = engine
        self._accept = accept
        self._monotonic = monotonic
        self._trusted, self._trusted_at = 0, self._passed()
        self._machine, self._looked_at = self._read_clocks()
        self._even_since = self._looked_at
        self._kept_at = self._looked_at
        self._clock_trusted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Decide whether to trust the machine's clock. Raises StorageUnavailable."""
        stored, newest = await self._engine.read(_look_up)
        self._engine.clock.advance_past(newest)
        machine = self._engine.clock.machine()
        if stored is None:  # the first server of this version: use the time of the last logged request
            stored = min(newest or machine, machine)
        self._trust(machine if self._accept else stored)
        if machine - self.now() <= AHEAD_MAX:
            self._trust(max(machine, self.now()))
            self._clock_trusted.set()
        else:
            days = round((machine - self.now()) / DAY)
            self._engine.notices["clock"] = (
                f"The clock shows {iso(machine)}. The last known time of this ledger is {iso(self.now())},"
                f" {days} days earlier. The clock may be wrong, so for an hour nothing is erased and earlier"
                " webhook retries wait. Everything else works. If the clock is right, start with"
                " --accept-clock to skip the wait."
            )
        await self._engine.write(self._keep)

    def now(self) -> int:
        """Return the real time as far as it is known, in milliseconds.

        It is based on the machine's clock if that is trusted, otherwise on the stored time, plus the time
        that passed since.
        """
        return self._trusted + self._passed() - self._trusted_at

    @property
    def is_trusted(self) -> bool:
        """Whether the clock that the server started with is trusted."""
        return self._clock_trusted.is_set()

    async def wait_until_trusted(self) -> None:
        """Wait until the clock that the server started with is trusted."""
        await self._clock_trusted.wait()

    def start(self) -> None:
        """Start watching the clock; needs a running event loop."""
        self._task = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """Store the time, and stop."""
        if self._task is not None:
            await cancel(self._task)
            await self._keep_if_possible()

    async def compare_clocks(self) -> None:
        """Compare the machine's clock with the time that passed, and trust it once they agree long enough."""
        machine, passed = self._read_clocks()
        if abs(machine - self._machine - (passed - self._looked_at)) > UNEVEN_MS:
            self._even_since = passed
        self._machine, self._looked_at = machine, passed
        is_little_ahead = 0 <= machine - self.now() <= AHEAD_MAX
        if is_little_ahead or passed - self._even_since >= EVEN_FOR_MS:
            self._trust(machine)
            if not self._clock_trusted.is_set():
                self._engine.notices.pop("clock", None)
                self._clock_trusted.set()
                log.warning("the clock is trusted now: erasing and earlier webhook retries continue")
                await self._keep_if_possible()
        if passed - self._kept_at >= KEEPS_EVERY_MS:
            await self._keep_if_possible()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(POLL_INTERVAL_S)
            await self.compare_clocks()

    async def _keep_if_possible(self) -> None:
        self._kept_at = self._passed()
        with contextlib.suppress(StorageUnavailable):
            if await self._engine.shared.leases.leads():
                await self._engine.write(self._keep)

    def _keep(self, unit: Unit) -> None:
        kept_time.trust(unit, self.now())

    def _trust(self, moment: int) -> None:
        self._trusted, self._trusted_at = moment, self._passed()

    def _read_clocks(self) -> tuple[int, int]:
        machine, passed = read_together(self._engine.clock.machine, self._monotonic)
        return machine, round(passed * 1000)

    def _passed(self) -> int:
        return round(self._monotonic() * 1000)


def _look_up(unit: Unit) -> tuple[int | None, int]:
    """Return the stored real time, and the time of the last logged request, 0 without one."""
    return kept_time.get(unit).trusted, max(map(moment_of, request_log.newest(unit)), default=0)
