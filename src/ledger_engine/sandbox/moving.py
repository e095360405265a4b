"""Moving the clock so that what lives by time happens as if the time had passed.

The clock stops at each moment at which a webhook is due, until that was sent and its result recorded; a retry
that follows from it may be due before the end and is then sent in its turn. Then retention runs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

from ledger_engine.events.webhooks import attempts, endpoints
from ledger_engine.sandbox.clock import MovableClock
from ledger_engine.store import Unit, kept_time
from ledger_engine.store.engine import Engine

# A receiver that hangs takes 15 s for an attempt; what was not sent after this is sent later.
PATIENCE_S = 20.0
_LOOKS_EVERY_S = 0.005


async def move_to(
    engine: Engine, clock: MovableClock, moment: int, clean_up: Callable[[], Awaitable[None]]
) -> None:
    """Move the clock forward to `moment` (milliseconds) and return when what was due has happened.

    `clean_up` deletes and erases what has expired. Raises StorageUnavailable.
    """
    all_sent = await _until_all_is_sent(engine, clock)
    while (due := await engine.read(_next_due)) is not None and due <= moment:
        # A retry that fell due since the last look is sent like any other, as the clock runs on meanwhile.
        if not all_sent and due <= clock.now():  # it could not be sent
            break
        clock.move_to(due)
        await engine.write(_follow)
        all_sent = await _until_all_is_sent(engine, clock)
    clock.move_to(moment)
    await engine.write(_follow)
    await _until_all_is_sent(engine, clock)
    await clean_up()


async def _until_all_is_sent(engine: Engine, clock: MovableClock) -> bool:
    """Wait until every webhook that is due was sent and its result recorded; return False if some was not."""
    deadline = time.monotonic() + PATIENCE_S
    while not await engine.read(partial(_all_is_sent, now=clock.now())):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(_LOOKS_EVERY_S)
    return True


def _follow(unit: Unit) -> None:
    """Store the time, from which a server that starts again goes on, and wake the deliverer."""
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
    """Return when the next retry of all endpoints is due, in the ledger's time; None without one."""
    dues = [
        retry.due
        for subscription in endpoints.subscriptions(unit)
        for retry in attempts.pending(unit, subscription.endpoint, 1)
    ]
    return min(dues, default=None)
