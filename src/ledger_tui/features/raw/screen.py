"""A dialog that shows the JSON of a record: coloured, to fold, to search and to copy."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Input, Static

from ledger_tui.features.raw.text import JsonTree, json_text
from ledger_tui.ui.dialogs import Dialog
from ledger_tui.ui.keys import KeyBar

_KINDS = ("name", "text", "number", "word", "cursor", "found")


class JsonLines(ScrollView, can_focus=True):
    """The lines of a `JsonTree` with a cursor; only the visible ones are drawn."""

    COMPONENT_CLASSES = {f"json--{kind}" for kind in _KINDS}
    BINDINGS = [
        Binding("up,k", "step(-1)", "up", show=False),
        Binding("down,j", "step(1)", "down", show=False),
        Binding("pageup,ctrl+b", "pages(-1)", "page up", show=False),
        Binding("pagedown,ctrl+f", "pages(1)", "page down", show=False),
        Binding("home,g", "end(-1)", "the beginning", show=False),
        Binding("end,G", "end(1)", "the end", show=False),
        Binding("enter,space", "fold", "fold", show=True),
        Binding("left,h", "fold_to(True)", "fold", show=False),
        Binding("right,l", "fold_to(False)", "unfold", show=False),
        Binding("minus", "fold_all(True)", "fold all", show=True),
        Binding("plus", "fold_all(False)", "unfold all", show=False),
        Binding("less_than_sign", "sideways(-1)", "to the left", show=False),
        Binding("greater_than_sign", "sideways(1)", "to the right", show=False),
    ]

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.json = JsonTree(value)
        self.at = 0  # the line that the cursor is on
        self.text = ""  # what is searched
        self._width = max((cell_len(line.text) for line in self.json.lines), default=0)
        self._measure()

    def _measure(self) -> None:
        self.virtual_size = Size(self._width, len(self.json.visible))

    @property
    def _row(self) -> int:
        """The row of the cursor among the visible lines."""
        return max(0, bisect_right(self.json.visible, self.at) - 1)

    def go_to(self, line: int) -> None:
        """Put the cursor on a line and scroll it into view."""
        self._measure()
        self.at = line
        row, top, height = self._row, round(self.scroll_y), max(1, self.size.height)
        self.at = self.json.visible[row]
        wanted = max(min(top, row), row - height + 1)
        self.scroll_to(y=wanted, animate=False, immediate=True, force=True)
        self.refresh()

    def action_step(self, step: int) -> None:
        rows = self.json.visible
        self.go_to(rows[max(0, min(self._row + step, len(rows) - 1))])

    def action_pages(self, pages: int) -> None:
        self.action_step(pages * max(1, self.size.height - 1))

    def action_end(self, step: int) -> None:
        self.go_to(self.json.visible[0 if step < 0 else -1])

    def action_sideways(self, step: int) -> None:
        self.scroll_to(x=max(0, self.scroll_x + step * 20), animate=False, immediate=True, force=True)

    def action_fold(self) -> None:
        self.go_to(self.json.fold(self.at))

    def action_fold_to(self, folded: bool) -> None:
        self.go_to(self.json.fold(self.at, folded))

    def action_fold_all(self, folded: bool) -> None:
        self.json.fold_all(folded)
        self.go_to(self.at)

    def on_click(self, event: events.Click) -> None:
        row = round(self.scroll_y) + event.y
        if row < len(self.json.visible):
            self.go_to(self.json.visible[row])

    def render_line(self, y: int) -> Strip:
        left, row, width = round(self.scroll_x), round(self.scroll_y) + y, self.size.width
        base = self.rich_style
        if row >= len(self.json.visible):
            return Strip.blank(width, base)
        number = self.json.visible[row]
        if number == self.at:
            base += self._part("cursor")
        segments = []
        for text, kind in self.json.pieces(number):
            style = base if kind == "plain" else base + self._part(kind)
            segments += self._with_found(text, style)
        return Strip(segments).crop_extend(left, left + width, base)

    def _with_found(self, text: str, style: Style) -> list[Segment]:
        """Return a text with what is searched marked in it."""
        folded, wanted = text.casefold(), self.text.casefold()
        # Where folding changes the length, positions in it are not those in the text.
        if not wanted or wanted not in folded or len(folded) != len(text):
            return [Segment(text, style)]
        segments, at = [], 0
        while (found := folded.find(wanted, at)) >= 0:
            end = found + len(wanted)
            marked = style + self._part("found")
            segments += [Segment(text[at:found], style), Segment(text[found:end], marked)]
            at = end
        return [*segments, Segment(text[at:], style)]

    def _part(self, kind: str) -> Style:
        return self.get_component_rich_style(f"json--{kind}", partial=True)


class RawScreen(Dialog[None]):
    """Shows `value`, decoded from JSON. `title` must not contain data: Textual reads markup in it."""

    BINDINGS = [
        Binding("escape", "leave", "close", show=True),
        Binding("q,J", "dismiss", "close", show=False),
        Binding("y", "copy", "copy", show=True),
        Binding("slash", "search", "search", show=True),
        Binding("n", "next(1)", "next", show=False),
        Binding("N", "next(-1)", "the one before", show=False),
    ]

    def __init__(self, title: str, value: Any) -> None:
        super().__init__()
        self._title = title
        self._value = value
        self._from = 0  # the line from which the typed text is searched

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog", id="raw") as box:
            box.border_title = self._title
            yield JsonLines(self._value)
            yield Input(placeholder="text to find", compact=True)
            yield Static(id="raw-note")
            yield KeyBar()

    def on_mount(self) -> None:
        self.query_one(Input).display = False
        self.query_one("#raw-note").display = False
        self.query_one(JsonLines).focus()

    @property
    def _lines(self) -> JsonLines:
        return self.query_one(JsonLines)

    def action_leave(self) -> None:
        """End the search, or close."""
        search = self.query_one(Input)
        if not search.display:
            self.dismiss()
            return
        self._lines.text = ""
        self._end_typing()
        self.query_one("#raw-note").display = False

    def _end_typing(self) -> None:
        self.query_one(Input).display = False
        self._lines.focus()
        self._lines.refresh()

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(json_text(self._value))
        self.notify("Copied the JSON", markup=False)

    # ------------------------------------------------------------------ searching

    def action_search(self) -> None:
        search = self.query_one(Input)
        search.display = True
        search.value = self._lines.text
        self._from = self._lines.at
        search.focus()

    @on(Input.Changed)
    def typed(self, event: Input.Changed) -> None:
        """Go to the first line with the text, from the cursor on, while it is typed."""
        event.stop()
        self._lines.text = event.value
        self._find(self._from, 1)

    @on(Input.Submitted)
    def entered(self, event: Input.Submitted) -> None:
        event.stop()
        self._end_typing()

    def action_next(self, step: int) -> None:
        self._find(self._lines.at + step, step)

    def _find(self, start: int, step: int) -> None:
        lines, note = self._lines, self.query_one("#raw-note", Static)
        note.display = bool(lines.text)
        lines.refresh()
        if not lines.text:
            return
        found = lines.json.find(lines.text, start, step)
        if found is None:
            note.update(Content.styled("✕ no line has it", "bold $error"))
        else:
            count = lines.json.count(lines.text)
            there = f"{count:,} lines have it; n and N go on" if count != 1 else "1 line has it"
            note.update(Content.styled(there, "$muted"))
            lines.go_to(found)
