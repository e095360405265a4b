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
    while len(shown) > 1:
        last = max(reversed(shown), key=lambda column: column.rank)
        if _needed(shown, last.rank) <= width:
            break
        shown.remove(last)
    spare = max(0, width - _needed(shown, 0))
    widths = [column.width for column in shown]
    growing = [number for number, column in enumerate(shown) if column.grow]
    # First those that grow up to a maximum; what they leave goes to the others, such as descriptions.
    for number in sorted(growing, key=lambda number: not shown[number].most):
        shares = sum(shown[each].grow for each in growing)
        column = shown[number]
        extra = spare * column.grow // shares
        if column.most:
            extra = min(extra, max(0, column.most - column.width))
        widths[number] += extra
        spare -= extra
        growing = [each for each in growing if each != number]
    return [Fitted(column, width) for column, width in zip(shown, widths, strict=True)]


def _needed(columns: Sequence[Column], rank: int) -> int:
    """Return the width that the columns need for one of this rank to be shown, which is their highest."""
    widths = (max(each.width, each.easy) if each.rank < rank else each.width for each in columns)
    return MARGIN + sum(widths) + GAP * (len(columns) - 1) + 1
