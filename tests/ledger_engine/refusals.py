"""What a work refuses."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest

from ledger_engine.core.errors import LedgerError


async def refusal(asked: Awaitable[Any]) -> tuple[str, str | None]:
    """The code and param of the refusal that `asked` must end in."""
    with pytest.raises(LedgerError) as refused:
        await asked
    return refused.value.code, refused.value.param
