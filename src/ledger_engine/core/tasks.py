"""Tasks of the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

AT_ONCE = 1000  # rows in one turn: some hundredths of a second
LEAST_REST_S = 0.02  # another process looks for the database's lock that often, or less often


async def cancel(*tasks: asyncio.Future[Any] | None) -> None:
    """Cancel tasks and wait until they have ended, whatever comes of them; None stands for no task."""
    begun = [task for task in tasks if task is not None]
    for task in begun:
        task.cancel()
    await asyncio.gather(*begun, return_exceptions=True)


async def take_turns(turn: Callable[[], Awaitable[int]]) -> None:
    """Change many rows in short turns, each a commit of its own: call `turn` until it finds no row any more.

    Every writer waits for the commit under way. So what grows with the ledger is never changed in one commit,
    and after each turn the others have as much time as it took. A turn returns how many rows it found. Raises
    what a turn raises; what earlier turns did stays done.
    """
    while True:
        began = time.monotonic()
        if not await turn():
            return
        await asyncio.sleep(max(LEAST_REST_S, time.monotonic() - began))
