"""Tasks of the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

AT_ONCE = 1000  # rows that one turn changes: this takes some hundredths of a second
# The shortest time between two turns, in seconds. Another process waits no longer than this between two
# attempts to lock the database, so it gets its turn.
LEAST_REST_S = 0.02


async def cancel(*tasks: asyncio.Future[Any] | None) -> None:
    """Cancel tasks and wait until they have ended, with or without an error; None is ignored."""
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def take_turns(turn: Callable[[], Awaitable[int]]) -> None:
    """Call `turn` until it finds no more rows. Each turn changes some rows in one commit.

    Use this to change many rows: every writer waits for the commit in progress, and one large commit would
    take too long. After each turn, other writers get as much time as the turn took. A turn returns the number
    of rows that it found. Raises the exceptions of a turn; the changes of earlier turns stay.
    """
    while True:
        began = time.monotonic()
        if not await turn():
            return
        await asyncio.sleep(max(LEAST_REST_S, time.monotonic() - began))
