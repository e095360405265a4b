"""The pace of the deliverer: its pauses, and what it does when a step fails."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from ledger_engine.core.errors import StorageUnavailable

PACE_S = 0.01  # pause between two reads or two records, so that each covers more
BUSY_PACE_S = 0.05  # the same while the event loop is busy, as requests come before webhooks
BUSY = 0.2  # share of the time; sending alone to one endpoint uses a third of that
RETRY_AFTER_S = 1.0

log = logging.getLogger("ledger_engine.events.webhooks.deliver")


class Pace:
    """The pause in seconds between two steps, by how busy the thread was before."""

    def __init__(self) -> None:
        self.pause_s = PACE_S
        self._measured_at = time.perf_counter(), time.thread_time()

    def measure(self) -> None:
        """Set the pause by how busy the thread was since the last call."""
        before, self._measured_at = self._measured_at, (time.perf_counter(), time.thread_time())
        passed, worked = (now - then for now, then in zip(self._measured_at, before, strict=True))
        self.pause_s = BUSY_PACE_S if worked > BUSY * passed else PACE_S


async def try_until_done(step: Callable[[], Awaitable[object]]) -> None:
    """Run the step until it succeeds."""
    while not await try_step(step):
        await wait_to_retry()


async def try_step(step: Callable[[], Awaitable[object]]) -> bool:
    """Run the step and return whether it succeeded; log its error otherwise."""
    try:
        await step()
    except StorageUnavailable as error:
        log.warning("webhooks are paused: %s", error)
        return False
    except Exception:
        log.exception("webhooks: a step failed")
        return False
    return True


async def wait_to_retry() -> None:
    """Wait before a step that failed is tried again."""
    await asyncio.sleep(RETRY_AFTER_S)
