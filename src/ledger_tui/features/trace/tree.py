"""The tree of a trace: only the visible lines are drawn, and the cursor goes from node to node."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ledger_tui.features.trace.nodes import Node, guides
from ledger_tui.formats.text import fit
from ledger_tui.lists.paged_table import TONES
from ledger_tui.resources.base import Cell
from ledger_tui.ui.keys import TABLE_KEYS

_TIME_WIDTH = 12  # with a space at either side
_TIMES_FROM = 60  # columns; with fewer there is no room for them


class TraceTree(ScrollView, can_focus=True):
    """The nodes of a trace. Posts `Moved` when the cursor stands on another node, `Opened` on enter."""

    BINDINGS = TABLE_KEYS
    COMPONENT_CLASSES = {"table--cursor", "table--cursor-idle", *(f"table--{tone}" for tone in TONES)}

    class Moved(Message):
        """The cursor stands on another node."""

    class Opened(Message):
        """The node under the cursor was clicked twice."""

    def __init__(self) -> None:
        super().__init__(id="tree")
        self.nodes: Sequence[Node] = ()
        self.cursor = 0
        self._lines: list[tuple[int, tuple[Cell, ...]]] = []  # each with the number of its node

    @property
    def node(self) -> Node | None:
        """The node under the cursor."""
        return self.nodes[self.cursor] if self.cursor < len(self.nodes) else None

    def show(self, nodes: Sequence[Node], cursor: int, *, from_top: bool) -> None:
        """Draw these nodes, with the cursor on one of them; `from_top` shows its request from the top."""
        self.nodes, self.cursor = nodes, max(0, min(cursor, len(nodes) - 1))
        self._lines = []
        space = Cell(" " * _TIME_WIDTH)
        for number, (node, (own, under)) in enumerate(zip(nodes, guides(nodes), strict=True)):
            if node.gap:
                self._lines.append((number, (Cell(fit(node.gap, _TIME_WIDTH - 2, "right"), "dim"),)))
            time = Cell(fit(node.time, _TIME_WIDTH - 2, "right") + "  ", "dim")
            self._lines.append((number, (time, Cell(own, "dim"), *node.line)))
            self._lines += [(number, (space, Cell(under, "dim"), *line)) for line in node.below]
        self.virtual_size = Size(self.size.width, len(self._lines))
        if from_top:
            step = max((n for n, node in enumerate(nodes[: self.cursor + 1]) if not node.depth), default=0)
            self._look_at(self._lines_of(step)[0] if nodes else 0)
        self._bring_into_view()
        self.refresh()

    def _lines_of(self, node: int) -> list[int]:
        """Return the numbers of a node's lines."""
        return [at for at, (number, _cells) in enumerate(self._lines) if number == node]

    def _look_at(self, line: int) -> None:
        self.scroll_to(y=line, animate=False, immediate=True, force=True)

    # ------------------------------------------------------------------ the cursor

    def _go_to(self, number: int) -> None:
        before = self.cursor
        self.cursor = max(0, min(number, len(self.nodes) - 1))
        self._bring_into_view()
        self.refresh()
        if self.cursor != before:
            self.post_message(self.Moved())

    def _bring_into_view(self) -> None:
        lines, top, height = self._lines_of(self.cursor), round(self.scroll_y), self.size.height
        if lines and height:
            wanted = min(max(top, lines[-1] - height + 1), lines[0])
            if wanted != top:
                self._look_at(wanted)

    def action_move(self, rows: int) -> None:
        self._go_to(self.cursor + rows)

    def action_move_pages(self, pages: int) -> None:
        if self._lines:
            wanted = self._lines_of(self.cursor)[0] + pages * max(1, self.size.height - 1)
            self._go_to(self._lines[max(0, min(wanted, len(self._lines) - 1))][0])

    def action_newest(self) -> None:
        self._go_to(0)

    def action_oldest(self) -> None:
        self._go_to(len(self.nodes) - 1)

    def on_click(self, event: events.Click) -> None:
        line = round(self.scroll_y) + event.y
        if line < len(self._lines):
            self._go_to(self._lines[line][0])
            if event.chain == 2:
                self.post_message(self.Opened())

    def on_resize(self) -> None:
        self.virtual_size = Size(self.size.width, len(self._lines))
        self._bring_into_view()

    # ------------------------------------------------------------------ drawing

    def render_line(self, y: int) -> Strip:
        at, width = round(self.scroll_y) + y, self.scrollable_content_region.width
        if at >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        number, cells = self._lines[at]
        if width < _TIMES_FROM:
            cells = cells[1:]
        here = number == self.cursor
        first = here and at == self._lines_of(number)[1 if self.nodes[number].gap else 0]
        under = self._cursor_style() if first else self.rich_style
        gap = here and self.nodes[number].gap and at == self._lines_of(number)[0]
        mark = Segment("▌" if here and not gap else " ", under + self._tone("accent"))
        segments = [mark, *(Segment(cell.text, under + self._tone(cell.tone)) for cell in cells)]
        strip = Strip(segments)
        if strip.cell_length > width:
            cut = strip.crop(0, width - 1)
            return Strip([*cut, Segment("…", under)], width)
        return strip.extend_cell_length(width, under)

    def _tone(self, tone: str) -> Style:
        return self.get_component_rich_style(f"table--{tone}", partial=True)

    def _cursor_style(self) -> Style:
        name = "table--cursor" if self.has_focus else "table--cursor-idle"
        return self.rich_style + self.get_component_rich_style(name, partial=True)
