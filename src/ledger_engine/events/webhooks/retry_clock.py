"""The retry clock: keeps retries due at the time that was meant, whatever the machine's clock shows.

Retries are due by the ledger's clock minus the stored `put_off` (`kept_time`), and the wait is measured on
the monotonic clock. When the two differ, the clock was set and no time has passed: `put_off` grows by the
difference, so that a jump of 400 days makes nothing due. At a start `put_off` is set to how far the ledger's
clock is ahead of the real time, as far as that is known.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from ledger_engine.events.webhooks import attempts, endpoints
from ledger_engine.events.webhooks.attempts import JUMP_MS
from ledger_engine.store.engine import Engine

OVERDUE_EVERY_S = 1.0  # after a stop, one overdue retry for each endpoint; never slower than the first retry
SPREAD_AT_ONCE = 200

log = logging.getLogger("ledger_engine.events.webhooks.deliver")


class RetryClock:
    """The clock of one deliverer. Call `begin` first. Only one of several servers changes what is stored.

    `paused_before` is 0 or a ledger time: retries last attempted before it are paused.
    """

    def __init__(
        self,
        engine: Engine,
        retries_s: Sequence[float],
        monotonic: Callable[[], float],
        real_time: Callable[[], int],
    ) -> None:
        self._engine = engine
        self._leases = engine.shared.leases
        self._real_time = real_time
        self._monotonic = monotonic
        self._pace_ms = round(1000 * min(OVERDUE_EVERY_S, *retries_s))
        self._following = asyncio.Lock()
        self._clock_at, self._monotonic_at = engine.clock.now(), monotonic()
        self.paused_before = 0

    @property
    def followed_to(self) -> int:
        """The ledger's time at the last `follow`."""
        return self._clock_at

    async def begin(self, *, pause: bool) -> None:
        """Continue where the last deliverer stopped; `pause` pauses its retries until `resume`.

        Raises StorageUnavailable.
        """
        if pause:
            # An attempt may have been recorded after the time was last stored.
            self._engine.clock.advance_past(await self._engine.read(attempts.last_pending_attempt))
            self.paused_before = self._engine.clock.now()
        if await self._leases.leads() and self._leases.first:  # otherwise another server has gone on sending
            await self._engine.write(endpoints.begin_sending)
            await self._go_by_real_time()
            if not pause:
                await self._spread_overdue()
        self._note_clocks()

    async def resume(self) -> None:
        """Resume the paused retries, as the real time is known. Raises StorageUnavailable."""
        await self.follow()
        if await self._leases.leads():
            await self._go_by_real_time()
            await self._spread_overdue()
        self.paused_before = 0

    async def follow(self) -> int:
        """Postpone retries by as much as the clock was set forward; return the ledger's time.

        Compare only this time with stored times. Raises StorageUnavailable.
        """
        async with self._following:
            clock, monotonic = self._engine.clock.now(), self._monotonic()
            jump = clock - self._clock_at - round((monotonic - self._monotonic_at) * 1000)
            if jump > JUMP_MS and await self._leases.leads():
                log.warning(
                    "the clock was set forward by %d s: webhook retries are postponed by that",
                    jump // 1000,
                )
                await self._engine.write(partial(attempts.postpone, by=jump))
            self._clock_at, self._monotonic_at = clock, monotonic
            return clock

    async def _go_by_real_time(self) -> None:
        await self._engine.write(partial(attempts.go_by_real_time, real_time=self._real_time()))

    def _note_clocks(self) -> None:
        # A first write advances the clock past everything recorded, which is not a jump.
        self._clock_at, self._monotonic_at = self._engine.clock.now(), self._monotonic()

    async def _spread_overdue(self) -> None:
        """Make retries that became due while nothing was sent due one after the other, not all at once."""
        for endpoint, _ in await self._engine.read(endpoints.sealed_secrets):
            spread = await self._engine.read(
                partial(attempts.spread_overdue, endpoint=endpoint, pace_ms=self._pace_ms)
            )
            for first in range(0, len(spread), SPREAD_AT_ONCE):
                await self._engine.write(
                    partial(attempts.set_due, spread=spread[first : first + SPREAD_AT_ONCE])
                )
