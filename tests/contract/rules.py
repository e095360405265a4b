"""The rules of `docs/interface.md` and `docs/decisions.md`, and the tests that prove them.

The pages are the catalogue: a rule is a line that begins with its name. `tests/house/test_rules.py` fails on
a rule without a test, and on a name that no rule has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Test = TypeVar("Test", bound=Callable[..., Any])


def holds(*rules: str) -> Callable[[Test], Test]:
    """Name the rules that a test proves."""
    return lambda test: test
