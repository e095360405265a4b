"""Columns fitted into a width. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ledger_tui.resources.base import Column

GAP = 2
MARGIN = 2  # left of the first column: the cursor's mark and a space


class Fitted(NamedTuple):
    column: Column
    width: int


def fit_columns(columns: Sequence[Column], width: int) -> list[Fitted]:
    """The columns that fit, the least important gone first; those that grow share the rest of the room."""
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
