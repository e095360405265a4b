"""The rules of `docs/interface.md` and `docs/decisions.md`, and the tests that prove them.

A rule is a line of these pages that begins with its name. Those of the interface, the contract, are one
catalogue with `ledger-engine conform`: `ledger_engine.tools.conform.examiner`. `tests/house/test_rules.py`
fails on a rule without a test, on a name that no rule has, and when the catalogue and the page differ.

"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Test = TypeVar("Test", bound=Callable[..., Any])


def holds(*rules: str) -> Callable[[Test], Test]:
    """Name the rules that a test proves."""
    return lambda test: test
