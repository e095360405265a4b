"""Styled text from cells: the one place that defines the style of each tone."""

from __future__ import annotations

from collections.abc import Iterable

from textual.content import Content

from ledger_tui.resources.base import Cell

TONE_STYLES = {
    "plain": "$foreground",
    "dim": "$muted",
    "strong": "bold",
    "plus": "$plus",
    "minus": "$minus",
    "warn": "bold $warning",
    "bad": "bold $error",
    "accent": "$accent",
}


def toned(cell: Cell) -> Content:
    """Return a cell as styled text."""
    return Content.styled(cell.text, TONE_STYLES[cell.tone])


def toned_line(cells: Iterable[Cell]) -> Content:
    """Return cells side by side as styled text."""
    return Content("").join([toned(cell) for cell in cells])
