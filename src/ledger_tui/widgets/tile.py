"""A tile of the overview: a title with a fact beside it, and rows that lead to other screens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import wrap

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from ledger_tui.resources.base import Cell, Link
from ledger_tui.state.window import Record
from ledger_tui.widgets.toned import toned, toned_line

MARGIN = 2  # cells left of each row, for the mark of the one that enter opens
_MARK = "▸ "
_LEAST_WIDTH = 16


@dataclass(frozen=True, slots=True)
class TileRow:
    """A row of a tile; with a `link` it can be chosen. `record` is the object it shows, if it is one."""

    cells: Sequence[Cell]
    link: Link | None = None
    record: Record | None = None


@dataclass(frozen=True, slots=True)
class TileContent:
    """What a tile shows: its rows, and a fact on the right of its title."""

    rows: Sequence[TileRow]
    fact: Sequence[Cell] = ()


Draw = Callable[[int, int], TileContent]


class Tile(Widget):
    """`draw` returns the content for a width and a height; `link` is opened where no row is chosen.

    The chosen row stays chosen while rows come in above it; the first one stays the first.
    """

    DEFAULT_CSS = "Tile { width: 1fr; height: 1fr; padding: 0 1; }"

    class Clicked(Message):
        """A row of the tile was clicked; `at` is its number, -1 for the title."""

        def __init__(self, tile: Tile, at: int) -> None:
            super().__init__()
            self.tile = tile
            self.at = at

    def __init__(self, title: str, draw: Draw, link: Link, *, id: str) -> None:
        super().__init__(id=id)
        self._title = title
        self._draw = draw
        self._link = link
        self._rows: Sequence[TileRow] = ()
        self._drawn: TileContent | None = None
        self._chosen = 0  # among the rows that have a link
        self.current = False

    def on_click(self, event: events.Click) -> None:
        self.post_message(self.Clicked(self, event.y - 1))

    # ------------------------------------------------------------------ the chosen row

    @property
    def _stops(self) -> list[TileRow]:
        return [row for row in self._rows if row.link is not None]

    @property
    def chosen(self) -> TileRow | None:
        """The chosen row; None for a tile whose rows lead nowhere of their own."""
        stops = self._stops
        return stops[min(self._chosen, len(stops) - 1)] if stops else None

    @property
    def link(self) -> Link:
        """Where enter leads."""
        chosen = self.chosen
        return chosen.link if chosen is not None and chosen.link is not None else self._link

    def move(self, step: int) -> None:
        """Choose another row."""
        self._chosen = max(0, min(len(self._stops) - 1, self._chosen + step))
        self.refresh()

    def choose_at(self, line: int) -> bool:
        """Choose the row on this line; returns whether it was chosen already, or none is there."""
        row = self._rows[line] if 0 <= line < len(self._rows) else None
        before = self.chosen
        if row is None or row.link is None:
            return before is None
        self._chosen = self._stops.index(row)
        self.refresh()
        return row is before

    def _keep_chosen(self, rows: Sequence[TileRow]) -> None:
        before = self.chosen
        self._rows = rows
        if self._chosen == 0 or before is None:
            return
        links = [row.link for row in self._stops]
        self._chosen = links.index(before.link) if before.link in links else max(0, len(links) - 1)

    # ------------------------------------------------------------------ drawing

    def show_changes(self) -> None:
        """Draw again if that changes anything: what is drawn crosses the line to the terminal."""
        width, height = self.content_size
        if self._drawn is None or self._drawn != self._draw(width - MARGIN, height - 1):
            self.refresh()

    def render(self) -> Content:
        width, height = self.content_size
        if height < 2 or width < _LEAST_WIDTH:  # while the screen is laid out
            return self._head((), width)
        content = self._drawn = self._draw(width - MARGIN, height - 1)
        self._keep_chosen(content.rows[: max(0, height - 1)])
        chosen = self.chosen if self.current else None
        lines = [self._head(content.fact, width)]
        for row in self._rows:
            line = Content.assemble(" " * MARGIN, toned_line(row.cells))
            if row is chosen:
                line = Content.assemble((_MARK, "bold $accent"), toned_line(row.cells))
                line = line.pad_right(max(0, width - line.cell_length)).stylize("on $panel")
            lines.append(line.truncate(width, ellipsis=True))
        return Content("\n").join(lines)

    def _head(self, fact: Sequence[Cell], width: int) -> Content:
        style, rule = ("bold $accent", "$accent") if self.current else ("bold", "$faint")
        title = Content.assemble((_MARK if self.current else "", style), (self._title, style), " ")
        right = Content("").join([Content(" "), *map(toned, fact)]) if fact else Content("")
        if title.cell_length + right.cell_length > width:
            right = Content("")
        line = "─" * max(0, width - title.cell_length - right.cell_length)
        return Content.assemble(title, (line, rule), right).truncate(width, ellipsis=True)


def sentence(text: str, width: int) -> TileContent:
    """Return a text in place of rows, such as why there are none."""
    return TileContent([TileRow([Cell(line, "dim")]) for line in wrap(text, max(1, width))])
