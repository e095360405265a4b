"""A titled part of a screen without a list: lines drawn to fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.content import Content
from textual.widget import Widget

from ledger_tui.formats.text import fit
from ledger_tui.resources.base import Cell
from ledger_tui.ui.toned import toned_line

Lines = Sequence[Sequence[Cell]]
Draw = Callable[[int, int], Lines]
_LABEL_WIDTH = 14


class Panel(Widget):
    """`draw` returns the lines for a width and a height, and is called at each refresh."""

    DEFAULT_CSS = "Panel { width: 1fr; height: 1fr; padding: 0 1; }"

    def __init__(self, title: str, draw: Draw, *, id: str) -> None:
        super().__init__(id=id)
        self._title = title
        self._draw = draw

    def render(self) -> Content:
        width, height = self.content_size
        title = Content.styled(fit(self._title, width), "$muted underline")
        lines = [toned_line(cells).truncate(width, ellipsis=True) for cells in self._draw(width, height - 1)]
        return Content("\n").join([title, *lines[: max(0, height - 1)]])


def fact(label: str, *value: Cell) -> list[Cell]:
    """Return a line with its label, aligned with the lines around it."""
    return [Cell(fit(label, _LABEL_WIDTH - 1) + " ", "dim"), *value]
