"""A dialog that shows the JSON of a record, to scroll and to copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.segment import Segment
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ledger_tui.screens.dialog import Dialog
from ledger_tui.state.raw import json_text, literal_lines
from ledger_tui.widgets.key_bar import KeyBar


class Lines(ScrollView, can_focus=True):
    """Any number of lines of text; only the visible ones are drawn."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__()
        self._strips = [Strip([Segment(line)]) for line in lines]
        self.virtual_size = Size(max((strip.cell_length for strip in self._strips), default=0), len(lines))

    def render_line(self, y: int) -> Strip:
        left, top = round(self.scroll_x), round(self.scroll_y)
        width = self.size.width
        if top + y >= len(self._strips):
            return Strip.blank(width, self.rich_style)
        strip = self._strips[top + y].crop_extend(left, left + width, None)
        return strip.apply_style(self.rich_style)


class RawScreen(Dialog[None]):
    """Shows `value`, decoded from JSON. `title` must not contain data: Textual reads markup in it."""

    BINDINGS = [
        Binding("escape,q,J", "dismiss", "close", show=True),
        Binding("y", "copy", "copy", show=True),
    ]

    def __init__(self, title: str, value: Any) -> None:
        super().__init__()
        self._title = title
        self._text = json_text(value)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog", id="raw") as box:
            box.border_title = self._title
            yield Lines(literal_lines(self._text))
            yield KeyBar()

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self._text)
        self.notify("Copied the JSON", markup=False)
