"""What works answer: refusals, and lists that are read page by page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ledger_engine.core.errors import LedgerError
from ledger_engine.store.pages import Page, PageRequest


async def refusal(attempt: Awaitable[Any]) -> tuple[str, str | None]:
    """Return the code and param of the refusal that `attempt` must end in."""
    with pytest.raises(LedgerError) as refused:
        await attempt
    return refused.value.code, refused.value.param


async def read_through(
    page: Callable[[PageRequest], Awaitable[Page[Any]]], limit: int = 2, cursor: str = "starting_after"
) -> list[Any]:
    """Return all that a list has, read in pages of `limit`, each but the last with more to come."""
    seen: list[Any] = []
    after = None
    while True:
        found = await page(PageRequest(limit, after, cursor=cursor))
        seen += found.items
        assert found.has_more == (found.next_cursor is not None)
        if not found.has_more:
            return seen
        after = found.next_cursor
