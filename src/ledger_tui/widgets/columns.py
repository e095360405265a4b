"""Fitting columns into a width, as pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ledger_tui.resources.base import Column

GAP = 2
MARGIN = 2  # cells left of the first column, for the cursor's mark and a space


class Fitted(NamedTuple):
    column: Column
    width: int


def fit_columns(columns: Sequence[Column], width: int) -> list[Fitted]:
    """Return the columns that fit, without the least important; those that grow share the remaining width."""
    shown = list(columns)
    while len(shown) > 1 and _needed(shown) > width:
        shown.remove(max(reversed(shown), key=lambda column: column.rank))
    spare = max(0, width - _needed(shown))
    shares = sum(column.grow for column in shown)
    fitted: list[Fitted] = []
    for column in shown:
        extra = spare * column.grow // shares if shares else 0
        spare, shares = spare - extra, shares - column.grow
        fitted.append(Fitted(column, column.width + extra))
    return fitted


def _needed(columns: Sequence[Column]) -> int:
    return MARGIN + sum(column.width for column in columns) + GAP * (len(columns) - 1) + 1
