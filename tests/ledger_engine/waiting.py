"""Waiting for conditions, however slow the machine is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 60  # after this time the condition will never hold


def wait_until(condition: Callable[[], object], *, every_s: float = 0.01) -> None:
    """Return once the condition holds; fail when it never does. It is looked at so often."""
    given_up_at = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < given_up_at, "it did not come to be"
        time.sleep(every_s)


async def until(condition: Callable[[], object]) -> None:
    """Wait as `wait_until` does, while the event loop runs on."""

    async def look() -> object:
        return condition()

    await looked_until(look, bool)


async def looked_until(look: Callable[[], Awaitable[T]], condition: Callable[[T], object]) -> T:
    """Return the result of `look` once the condition holds of it; fail when it never does."""
    for _ in range(PATIENCE_S * 100):
        found = await look()
        if condition(found):
            return found
        await asyncio.sleep(0.01)
    raise AssertionError(f"it did not come to be: {found}")
