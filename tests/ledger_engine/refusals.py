"""The refusals of works."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest

from ledger_engine.core.errors import LedgerError


async def refusal(attempt: Awaitable[Any]) -> tuple[str, str | None]:
    """Return the code and param of the refusal that `attempt` must end in."""
    with pytest.raises(LedgerError) as refused:
        await attempt
    return refused.value.code, refused.value.param
