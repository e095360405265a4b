"""Tiles: boxes with a title and lines, and the view that lays them out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual import events
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Static

from ledger_tui.client.records import Record
from ledger_tui.formats.text import fit
from ledger_tui.resources.base import Cell, Link, Place
from ledger_tui.resources.registry import PLACES
from ledger_tui.ui.handlers import handles
from ledger_tui.ui.keys import TILE_KEYS, VIEW_KEYS
from ledger_tui.ui.status_bar import awaited
from ledger_tui.ui.view import TONE_STYLES, Context, View

MARGIN = 2  # cells to the left of the rows, for the mark of the row that enter opens


_MARK = "▸ "


_LEAST_WIDTH = 16


_CHOSEN = " chosen"


_STYLES = {
    **TONE_STYLES,
    "title": "bold",
    "title of current": "bold $accent",
    "rule": "$faint 60%",
    "rule of current": "$accent",
}


@dataclass(frozen=True, slots=True)
class TileRow:
    """A row of a tile. The user can choose only a row with a `link`. `record` is the row's object, if any."""

    cells: Sequence[Cell]
    link: Link | None = None
    record: Record | None = None


@dataclass(frozen=True, slots=True)
class TileContent:
    """The content of a tile: its rows, and a fact on the right of its title.

    `title` replaces the tile's title if that title does not describe these rows.
    """

    rows: Sequence[TileRow]
    fact: Sequence[Cell] = ()
    title: str = ""


class _Line(NamedTuple):
    """A drawn line: texts, each with the name of its style. `under` is a suffix for all these names:
    `_CHOSEN` for the line of the chosen row, which has another background, and "" for any other line.
    """

    parts: tuple[tuple[str, str], ...]
    under: str = ""


Draw = Callable[[int, int], TileContent]


_EMPTY = _Line(())


class Tile(Widget):
    """A box with a title and rows. `draw` returns the content for a width and a height.

    Enter opens the link of the chosen row, or the tile's own link if no row has a link. A chosen row stays
    chosen when other rows appear above it. There are two exceptions: in a tile that `follows`, and in a tile
    that is not the current one. If the first row of such a tile is chosen and another row appears above it,
    the new first row is chosen instead.

    If a tile is too low for all rows, it leaves out the last rows. A tile that `scrolls` instead shows the
    rows around the chosen row.
    """

    DEFAULT_CSS = "Tile { width: 1fr; height: 1fr; padding: 0 1; }"

    @dataclass
    class Clicked(Message):
        """A row of the tile was clicked; `at` is its number, -1 for the title."""

        tile: Tile
        at: int

    def __init__(
        self, title: str, draw: Draw, link: Link, *, id: str, follows: bool = False, scrolls: bool = False
    ) -> None:
        super().__init__(id=id)
        self._scrolls = scrolls
        self._top = 0  # the number of rows above the first visible row
        self._follows = follows
        self._title = title
        self._draw = draw
        self._link = link
        self._rows: Sequence[TileRow] = ()
        self._lines: list[_Line] = []
        self._size_drawn: Size | None = None
        self._styles: dict[str, RichStyle] = {}
        self._index = 0  # the position among the rows with a link
        self._wanted: Link | None = None  # the link of the row that the user has chosen
        self.current = False

    def on_click(self, event: events.Click) -> None:
        self.post_message(self.Clicked(self, event.y - 1))

    # ------------------------------------------------------------------ the chosen row

    @property
    def _stops(self) -> list[TileRow]:
        return [row for row in self._rows if row.link is not None]

    @property
    def chosen(self) -> TileRow | None:
        """The chosen row; None for a tile without a row that has a link."""
        stops = self._stops
        return stops[min(self._index, len(stops) - 1)] if stops else None

    @property
    def link(self) -> Link:
        """The link that enter opens."""
        choice = self.chosen
        return choice.link if choice is not None and choice.link is not None else self._link

    def move(self, step: int) -> None:
        """Choose the row that is `step` rows below the chosen row; a negative step moves up."""
        self._index = max(0, min(len(self._stops) - 1, self._index + step))
        self._wanted = self.chosen.link if self.chosen is not None else self._wanted
        self.show_changes()

    def choose_at(self, line: int) -> bool:
        """Choose the row on a clicked line, and return whether the click also opens something.

        A click on the row that was already chosen opens this row. A click on a line without a link opens the
        tile's own link if the tile has no row to choose; otherwise it does nothing.
        """
        at = line + self._top
        row = self._rows[at] if line >= 0 and at < len(self._rows) else None
        before = self.chosen
        if row is None or row.link is None:
            return before is None
        self._index, self._wanted = self._stops.index(row), row.link
        self.show_changes()
        return row is before

    def _keep_chosen(self, rows: Sequence[TileRow]) -> None:
        before = self.chosen
        self._rows = rows
        # When the user enters a tile, its first row must be chosen, even if this row has just arrived.
        if self._index == 0 and (self._follows or not self.current):
            return
        # The row that the user has chosen is away while the tile loads, and at a moment before it existed.
        links = [row.link for row in self._stops]
        kept = [self._wanted, before.link if before is not None else None]
        self._index = next((links.index(link) for link in kept if link in links), self._index)

    # ------------------------------------------------------------------ drawing

    def show_changes(self) -> None:
        """Redraw, but only the lines that have changed, to save time and output to the terminal."""
        before, size_before = self._lines, self._size_drawn
        self._compose_lines()
        if size_before != self._size_drawn or len(before) != len(self._lines):
            self.refresh()
            return
        width = self.content_size.width
        pairs = enumerate(zip(before, self._lines, strict=True))
        if regions := [Region(0, y, width, 1) for y, (old, new) in pairs if old != new]:
            self.refresh(*regions)

    def notify_style_update(self) -> None:
        self._styles = {}
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        if not self._styles:
            self._look_at_styles()
        if self._size_drawn != self.content_size:  # the size has changed, so draw all lines
            self._compose_lines()
        width = self.content_size.width
        line = self._lines[y] if y < len(self._lines) else _EMPTY
        segments: list[Segment] = []
        room = width
        for text, style in line.parts:
            if (length := cell_len(text)) > room:
                text, length = fit(text, room), room
            segments.append(Segment(text, self._styles[style + line.under]))
            room -= length
            if not room:
                break
        if room:
            segments.append(Segment(" " * room, self._styles["plain" + line.under]))
        return Strip(segments, width)

    def _look_at_styles(self) -> None:
        base, variables = self.visual_style, self.app.theme_variables
        chosen = "reverse" if self.app.native_ansi_color else "on $panel"
        for under, on in (("", ""), (_CHOSEN, chosen)):
            ground = base + Style.parse(on, variables)
            for name, text in _STYLES.items():
                self._styles[name + under] = (ground + Style.parse(text, variables)).rich_style

    def _compose_lines(self) -> None:
        self._size_drawn = self.content_size
        self._lines = self._lines_for(*self._size_drawn)

    def _lines_for(self, width: int, height: int) -> list[_Line]:
        if height < 2 or width < _LEAST_WIDTH:  # the tile gets no width until the screen is laid out
            return [self._head(TileContent(()), width)]
        content = self._draw(width - MARGIN, height - 1)
        room = height - 1
        self._keep_chosen(content.rows if self._scrolls else content.rows[:room])
        choice = self.chosen if self.current else None
        at = next((n for n, row in enumerate(self._rows) if row is choice), 0)
        self._top = max(0, min(max(self._top, at - room + 1), at, len(self._rows) - room))
        lines = [self._head(content, width)]
        for row in self._rows[self._top : self._top + room]:
            margin = (_MARK, "title of current") if row is choice else (" " * MARGIN, "plain")
            cells = ((cell.text, cell.tone) for cell in row.cells)
            lines.append(_Line((margin, *cells), _CHOSEN if row is choice else ""))
        return lines

    def _head(self, content: TileContent, width: int) -> _Line:
        of = " of current" if self.current else ""
        title = f"{_MARK if self.current else ''}{content.title or self._title} "
        fact = [(cell.text, cell.tone) for cell in content.fact]
        right = [(" ", "plain"), *fact] if fact else []
        room = width - cell_len(title) - sum(cell_len(text) for text, _style in right)
        if room < 0:
            room, right = width - cell_len(title), []
        return _Line(((title, f"title{of}"), ("─" * max(0, room), f"rule{of}"), *right))


def sentence(text: str, width: int) -> TileContent:
    """Return a text to show instead of rows, such as the reason why there are no rows."""
    return TileContent([TileRow([Cell(line, "dim")]) for line in wrap(text, max(1, width))])


class TiledView(View, can_focus=True):
    """A screen of tiles under a caption; enter opens the chosen row.

    One read gets the figures of all tiles, and ends with a call of `end_read` or `failed`. A subclass
    sets `tiles` before the view is mounted.
    """

    BINDINGS = [*TILE_KEYS, *VIEW_KEYS]

    tiles: tuple[Tile, ...]
    _at = 0

    def __init__(self, place: Place, context: Context) -> None:
        super().__init__(place, context)
        self.caption = Static(classes="caption")

    def on_mount(self) -> None:
        self.tiles[0].current = True

    # ------------------------------------------------------------------ reading

    @property
    @abstractmethod
    def has_figures(self) -> bool:
        """Whether there is something to draw."""

    @property
    def settled(self) -> bool:
        """Whether all figures of the shown moment are read.

        If this moment is in the past, no more polls are needed, because its figures do not change.
        """
        return self.has_figures

    @property
    def unread(self) -> bool:
        return not self.has_figures and not self.problem

    def may_poll(self) -> bool:
        return super().may_poll() and not (self.context.session.moment_ms is not None and self.settled)

    def end_read(self, requests: int) -> None:
        """End a read that took `requests` requests; the more requests it took, the later is the next read."""
        session = self.context.session
        self.problem, self.reading = "", False
        self.next_poll_at = session.clock() + session.pause_after(max(1, requests))

    # ------------------------------------------------------------------ drawing

    def draw(self) -> None:
        self.draw_caption()
        for tile in self.tiles:
            tile.show_changes()

    def draw_caption(self) -> None:
        self.caption.update(self.caption_text(), layout=False)  # a new layout would draw the whole screen

    @abstractmethod
    def caption_text(self) -> Content:
        """Return the line above the tiles: the title of the screen, and facts about all tiles."""

    def status(self, facts: Content) -> Content:
        """Return the reason why figures are missing; if none are missing, return `facts`."""
        if self.problem:
            return Content.styled(f"  ✕ {self.problem}", "bold $error")
        return facts if self.has_figures else Content("  ") + awaited(self.context.session)

    def session_changed(self) -> None:
        self.draw_caption()

    # ------------------------------------------------------------------ the current tile

    @property
    def tile(self) -> Tile:
        """The current tile."""
        return self.tiles[self._at]

    @property
    def selected(self) -> Record | None:
        choice = self.tile.chosen
        return choice.record if choice is not None else None

    def go_to(self, tile: Tile) -> None:
        """Make this tile the current tile."""
        before = self.tile
        before.current = False
        self._at = self.tiles.index(tile)
        tile.current = True
        before.show_changes()
        tile.show_changes()
        self.refresh_bindings()

    def action_tile(self, step: int) -> None:
        self.go_to(self.tiles[(self._at + step) % len(self.tiles)])

    def action_choose(self, step: int) -> None:
        self.tile.move(step)
        self.refresh_bindings()

    def action_open(self) -> None:
        """Open the chosen row."""

    @handles(Tile.Clicked)
    def tile_clicked(self, message: Tile.Clicked) -> None:
        """Choose the clicked row and its tile; open the row if it was already chosen."""
        message.stop()
        again = message.tile.choose_at(message.at) and message.tile is self.tile
        if again:
            self.action_open()
        else:
            self.go_to(message.tile)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        # On a main screen, which has a number key, esc does not go back. While an earlier moment is shown,
        # esc runs another action, which returns to the present.
        leads = self.place not in PLACES and self.context.session.moment_ms is None
        return action != "back" or leads


class TimedTiles(TiledView):
    """A screen of tiles with figures of a period. The period ends at the shown moment, which can be now."""

    spans: Sequence[tuple[int, str]]  # each period's length in minutes and its name, the shortest first
    span: int  # the index of the chosen period

    @property
    def end_ms(self) -> int:
        return round(self.context.session.server_time * 1000)

    @property
    def start_ms(self) -> int:
        return self.end_ms - self.spans[self.span][0] * 60_000

    def action_window(self, step: int) -> None:
        """Show the next longer period (`step` is 1) or the next shorter period (-1)."""
        span = max(0, min(len(self.spans) - 1, self.span + step))
        if span != self.span:
            self.span = span
            self.span_changed()

    def span_changed(self) -> None:
        """Read the figures of the new period."""
        self.moment_changed()
        self.draw_caption()
