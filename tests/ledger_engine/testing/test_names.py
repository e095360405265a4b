"""What `ledger_engine.testing` offers is imported when it is used, and nothing else is there."""

from __future__ import annotations

import pytest

from ledger_engine import testing


def test_each_name_that_is_offered_is_there() -> None:
    for name in testing.__all__:
        assert getattr(testing, name).__name__ == name


def test_another_name_is_no_attribute() -> None:
    for name in ("Leger", "ledgerserver"):
        with pytest.raises(AttributeError, match=rf"'ledger_engine\.testing' has no attribute '{name}'"):
            getattr(testing, name)
