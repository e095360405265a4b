"""The clock of the tests of limits."""

from __future__ import annotations

import pytest

from tests.ledger_engine.limits.counters import Wall


@pytest.fixture
def wall() -> Wall:
    return Wall()
