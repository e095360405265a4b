"""Tasks of the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

AT_ONCE = 1000  # the most rows that a turn of `take_turns` changes; this takes some hundredths of a second
# The shortest pause between two turns, in seconds. A process that waits for the database tries to lock the
# database at intervals that are shorter than this pause. So at least one of these attempts falls into the
# pause.
LEAST_REST_S = 0.02


async def cancel(*tasks: asyncio.Future[Any] | None) -> None:
    """Cancel tasks and wait until they have ended, with or without an error; None is ignored."""
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def take_turns(turn: Callable[[], Awaitable[int]]) -> None:
    """Call `turn` until it finds no more rows. Each turn changes some rows in one commit.

    `turn` returns the number of rows that it found. Use this function to change many rows: every writer waits
    for the commit in progress, and one large commit would take too long. A pause for other writers follows
    each turn; it is as long as the turn, but at least LEAST_REST_S. Raises the exceptions of a turn; the
    changes of earlier turns stay.
    """
    while True:
        began = time.monotonic()
        if not await turn():
            return
        await asyncio.sleep(max(LEAST_REST_S, time.monotonic() - began))
