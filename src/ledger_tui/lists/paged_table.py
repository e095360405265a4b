"""The table of a list. It draws only the visible lines, even of a very long list."""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record
from ledger_tui.formats import times
from ledger_tui.formats.text import fit
from ledger_tui.lists.list_model import ListModel
from ledger_tui.resources.base import Column
from ledger_tui.ui.keys import LIST_TABLE_KEYS

GAP = 2
MARGIN = 2  # cells to the left of the first column: the cursor's edge and the mark
FLASH_SECONDS = 1.0
_WATCHED = ("balance", "status")  # fields that flash when they change, in the columns of the same names
_NO_FIELDS: frozenset[str] = frozenset()


class FittedColumn(NamedTuple):
    """A column with its width on the screen."""

    column: Column
    width: int


_SHORTENED_FROM = 2  # columns of a higher rank are hidden before any column is shortened


def fit_columns(columns: Sequence[Column], width: int) -> list[FittedColumn]:
    """Return the columns that fit into `width`, with their widths.

    If the columns do not all fit, leave out the column with the highest rank, and so on until the remaining
    columns fit. But before leaving out a column of rank 2 or lower, shorten the columns with a `short` width.
    Columns with `grow` share the remaining width.
    """
    columns_left = list(columns)
    while len(columns_left) > 1:
        last = max(reversed(columns_left), key=lambda column: column.rank)
        if _needed(columns_left, last.rank) <= width:
            break
        shortenable = next((each for each in columns_left if each.short and each.width > each.short), None)
        if shortenable is not None and last.rank <= _SHORTENED_FROM:
            columns_left[columns_left.index(shortenable)] = replace(shortenable, width=shortenable.short)
        elif last.short and _needed(columns_left, 0) <= width:
            break  # keep `last`, which fits if some columns get less than their `easy` width
        else:
            columns_left.remove(last)
    spare = max(0, width - _needed(columns_left, 0))
    widths = [column.width for column in columns_left]
    for number, column in enumerate(columns_left):
        eased = min(spare, max(0, column.easy - column.width))
        widths[number] += eased
        spare -= eased
    growing = [number for number, column in enumerate(columns_left) if column.grow]
    # Columns with a maximum width grow first. Other columns, such as descriptions, get the rest.
    for number in sorted(growing, key=lambda number: not columns_left[number].most):
        shares = sum(columns_left[each].grow for each in growing)
        column = columns_left[number]
        extra = spare * column.grow // shares
        if column.most:
            extra = min(extra, max(0, column.most - widths[number]))
        widths[number] += extra
        spare -= extra
        growing = [each for each in growing if each != number]
    return [FittedColumn(column, width) for column, width in zip(columns_left, widths, strict=True)]


def _needed(columns: Sequence[Column], rank: int) -> int:
    """Return the width that the columns need together.

    A column whose rank is lower than `rank` counts with its `easy` width, any other column with its `width`.
    """
    widths = (max(each.width, each.easy) if each.rank < rank else each.width for each in columns)
    return MARGIN + sum(widths) + GAP * (len(columns) - 1) + 1


_FLASH = Style(reverse=True)
TONES = ("plain", "dim", "strong", "plus", "minus", "warn", "bad", "accent")


class TableHeader(Widget):
    """The column titles, aligned with the table below.

    `sort` names the column that the list is sorted by. As in the config file, a `-` before the name means
    the descending order.
    """

    columns: reactive[list[FittedColumn]] = reactive(list)
    sort: reactive[str] = reactive("")

    def _title(self, fitted_column: FittedColumn) -> str:
        title = times.heading(fitted_column.column.title)
        if len(title) > fitted_column.width:
            title = title.partition(" (")[0]  # without the time zone
        if fitted_column.column.name != self.sort.removeprefix("-"):
            return fit(title, fitted_column.width, fitted_column.column.align)
        arrow = "▼" if self.sort.startswith("-") else "▲"
        # If the column is too narrow for the title and the arrow, cut off the title.
        text = fit(title, min(len(title), max(0, fitted_column.width - 2)))
        return fit(f"{text} {arrow}", fitted_column.width, fitted_column.column.align)

    @dataclass
    class Clicked(Message):
        """The user clicked the heading of a column."""

        column: Column

    def on_click(self, event: events.Click) -> None:
        left = MARGIN
        for fitted_column in self.columns:
            if left <= event.x < left + fitted_column.width:
                self.post_message(self.Clicked(fitted_column.column))
                return
            left += fitted_column.width + GAP

    def render_line(self, y: int) -> Strip:
        titles = [self._title(fitted_column) for fitted_column in self.columns]
        text = " " * MARGIN + (" " * GAP).join(titles)
        return Strip([Segment(fit(text, self.size.width), self.rich_style)])


class PagedTable(ScrollView, can_focus=True):
    """The rows of a `ListModel` with a cursor.

    It posts `Moved` when the cursor or the scroll position changes, and `Opened` on a double click.
    """

    BINDINGS = LIST_TABLE_KEYS
    COMPONENT_CLASSES = {"table--cursor", "table--cursor-idle", *(f"table--{tone}" for tone in TONES)}

    @dataclass
    class Moved(Message):
        """The cursor or the scroll position has changed.

        `by_hand` is True if the user moved the cursor, and False if only other rows came into view.
        """

        by_hand: bool = True

    class Opened(Message):
        """The user wants to open the object under the cursor."""

    class OldestWanted(Message):
        """The user is on the last loaded row and wants to go to the oldest row of the whole list."""

    class Marked(Message):
        """The marks have changed."""

    @dataclass
    class ColumnsFitted(Message):
        columns: list[FittedColumn]

    def __init__(self, model: ListModel, columns: Sequence[Column], names: AccountNames) -> None:
        super().__init__()
        self.model = model
        self.window = model.window
        self._columns = columns
        self._names = names
        self._fitted_columns: list[FittedColumn] = []
        self._fitted_width = 0
        self._widest: dict[str, int] = {}  # by title: the width that a right-aligned column has reached
        self._drawn_state: list[object] = []  # the position and the size of the list at the last drawing
        self._rows: list[Record | None] = []  # the rows on the screen at the last drawing
        self._strips: dict[int, tuple[Record, Strip]] = {}  # by row number: a record and its drawn row
        self._styles: dict[str, Style] = {}
        self._styles_are_old = True
        self.flashing: dict[object, frozenset[str]] = {}  # by id: the record's fields that just changed
        self._went_to: int | None = None  # the row that `action_oldest` last went to

    def show_columns(self, columns: Sequence[Column]) -> None:
        """Replace the shown columns."""
        self._columns = columns
        self.start_over()

    # ------------------------------------------------------------------ the visible rows

    @property
    def top(self) -> int:
        return round(self.scroll_y)

    @property
    def height_in_rows(self) -> int:
        return max(1, self.size.height)

    def on_resize(self, event: events.Resize) -> None:
        if not event.size.height:  # the detail hides the table: keep the position until the table is shown
            return
        if event.size.width != self._fitted_width:
            self._fit()
            self.redraw()
            self.repaint()
        self._keep_cursor_in_view()
        self.post_message(self.Moved(by_hand=False))

    def repaint(self, moved_by: int = 0) -> None:
        """Draw the present rows of the window.

        Scroll by `moved_by` rows, so that the same objects stay in view; if the list follows new rows, scroll
        to the top instead.
        """
        self.virtual_size = Size(self.size.width, len(self.window) + (0 if self.window.at_the_end else 1))
        if self.window.following:
            self._scroll_to_line(0)
        elif moved_by:
            self._scroll_to_line(self.top + moved_by)
        self.widen_columns()
        self._draw_if_changed()

    def redraw(self) -> None:
        """Draw every row again, because names, columns or colours have changed."""
        self._strips.clear()
        self.refresh()

    def _draw_if_changed(self) -> None:
        # Draw nothing if nothing has changed: most polls return nothing new, and drawing a screen of rows
        # costs as much as handling a key.
        top, window = self.top, self.window
        state: list[object] = [top, window.cursor, len(window), window.loaded, window.at_the_end]
        rows = [self.window.row(index) for index in range(top, top + self.height_in_rows)]
        same = (
            state == self._drawn_state
            and all(map(operator.is_, rows, self._rows))
            and len(rows) == len(self._rows)
        )
        if not same:
            if self.app.animation_level != "none":
                self._flash(rows)
            self.refresh()
        self._drawn_state, self._rows = state, rows

    def _flash(self, rows: Sequence[Record | None]) -> None:
        """Highlight the balances and statuses that have changed since the last drawing, for a second."""
        before = {row["id"]: row for row in self._rows if row is not None and "id" in row}
        flashes = {}
        for row in filter(None, rows):
            old = before.get(row.get("id"), row)
            if old is not row and (fields := frozenset(n for n in _WATCHED if old.get(n) != row.get(n))):
                flashes[row.get("id")] = fields
        if flashes:
            self.flashing |= flashes
            self.set_timer(FLASH_SECONDS, self._end_flash)

    def _end_flash(self) -> None:
        self.flashing.clear()
        self.redraw()

    def widen_columns(self) -> None:
        """Widen the right-aligned columns so that no visible number is cut off.

        A column never becomes narrower while the same list is shown: otherwise scrolling would shift the
        columns with every row.
        """
        before = dict(self._widest)
        rows = [*self.window.rows_between(self.top, self.top + self.height_in_rows)]
        for column in self._columns:
            if column.align == "right":
                widest = max((len(column.cell(row, self._names).text) for row in rows), default=0)
                self._widest[column.title] = max(column.width, widest, self._widest.get(column.title, 0))
        if self._widest != before:
            self._fit()
            self.redraw()

    def start_over(self) -> None:
        """Reset the scroll position and the column widths for another list."""
        self._widest.clear()
        self._fit()
        self.redraw()
        self.repaint()

    def _fit(self) -> None:
        columns = [replace(c, width=self._widest.get(c.title, c.width)) for c in self._columns]
        # `fit_columns` leaves the last cell of the width free for the scrollbar, so that nothing moves when
        # the scrollbar appears.
        self._fitted_width = self.size.width
        self._fitted_columns = fit_columns(columns, self._fitted_width)
        self.post_message(self.ColumnsFitted(self._fitted_columns))

    def notify_style_update(self) -> None:
        self._styles_are_old = True
        super().notify_style_update()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        # The wheel and the scrollbar move the view. The cursor moves with the view, so that it stays visible.
        bottom = self.top + self.height_in_rows - 1
        visible = max(self.top, min(self.window.cursor, bottom))
        is_dragged = visible != self.window.cursor and len(self.window) > 0
        if is_dragged:
            self.model.move(visible)
            self.refresh()
        self.widen_columns()
        self.post_message(self.Moved(by_hand=is_dragged))

    def _scroll_to_line(self, row: int) -> None:
        # Scroll at once, because rows that arrive before the next frame are placed relative to this position.
        self.scroll_to(y=max(0, row), animate=False, immediate=True, force=True)

    def _keep_cursor_in_view(self) -> None:
        cursor, top, height = self.window.cursor, self.top, self.height_in_rows
        if cursor < top:
            self._scroll_to_line(cursor)
        elif cursor >= top + height:
            self._scroll_to_line(cursor - height + 1)

    # ------------------------------------------------------------------ the cursor

    def go_to(self, row: int) -> None:
        """Put the cursor on a row and scroll it into view."""
        before = self.window.cursor
        self.model.move(row)
        self._keep_cursor_in_view()
        for line in {before, self.window.cursor}:
            self.refresh_line(line)
        self.post_message(self.Moved())

    def action_move(self, rows: int) -> None:
        self.go_to(self.window.cursor + rows)

    def action_move_pages(self, pages: int) -> None:
        step = max(1, self.height_in_rows - 1)
        top = self.top + pages * step
        self.model.move(self.window.cursor + pages * step)
        self._scroll_to_line(min(top, max(0, len(self.window) - self.height_in_rows)))
        self._keep_cursor_in_view()
        self.refresh()
        self.post_message(self.Moved())

    def action_newest(self) -> None:
        self.go_to(0)

    def action_oldest(self) -> None:
        """Go to the last loaded row or, on a second press, to the oldest row of the whole list."""
        if self.window.cursor in (self._went_to, len(self.window) - 1):
            self.post_message(self.OldestWanted())
        else:
            self.go_to(len(self.window) - 1)
            # `go_to` makes the list load older rows, so at the second press this row may no longer be the
            # last.
            self._went_to = self.window.cursor

    # ------------------------------------------------------------------ marks

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("mark", "mark_all"):
            return True if len(self.window) else None
        return super().check_action(action, parameters)

    def action_mark(self) -> None:
        """Mark the row under the cursor, or remove its mark, and go to the next row."""
        if self.model.toggle_mark():
            self._marks_changed()
            self.action_move(1)

    def action_mark_all(self) -> None:
        """Mark all loaded rows; if all are marked already, remove all marks."""
        self.model.toggle_all_marks()
        self._marks_changed()

    def unmark(self, ids: Collection[str]) -> None:
        self.model.unmark(ids)
        self._marks_changed()

    def _marks_changed(self) -> None:
        self.redraw()
        self.post_message(self.Marked())

    def on_click(self, event: events.Click) -> None:
        row = self.top + event.y
        if row < len(self.window):
            self.go_to(row)
            if event.chain == 2:
                self.post_message(self.Opened())

    # ------------------------------------------------------------------ drawing

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the visible lines. Textual's line cache is not used, because each scroll invalidates it."""
        strips = [self.render_line(y) for y in crop.line_range]
        background = self.background_colors[1]
        for line_filter in self.get_line_filters():
            strips = [strip.apply_filter(line_filter, background) for strip in strips]
        if crop.x or crop.width < self.size.width:
            strips = [strip.crop(crop.x, crop.right) for strip in strips]
        return strips

    def render_line(self, y: int) -> Strip:
        if self._styles_are_old:
            self._compute_styles()
        index = self.top + y
        record = self.window.row(index)
        if record is None:
            return self._line_without_record(index)
        if index == self.window.cursor:
            return self._row_strip(record, "table--cursor" if self.has_focus else "table--cursor-idle")
        if record.get("id") in self.flashing:
            return self._row_strip(record)
        cache_entry = self._strips.get(index)
        if cache_entry is not None and cache_entry[0] is record:
            return cache_entry[1]
        strip = self._row_strip(record)
        if len(self._strips) > 8 * self.height_in_rows:
            self._strips.clear()
        self._strips[index] = (record, strip)
        return strip

    def _row_strip(self, record: Record, cursor: str = "") -> Strip:
        """Return a row in as few segments as possible, because each segment costs time.

        `cursor` is the style of the cursor, or "" for a row without the cursor.
        """
        mark = "●" if record.get("id") in self.model.marks else " "
        # Without colours, the edge alone shows which pane has the focus.
        edge = {"": " ", "table--cursor": "▌"}.get(cursor, "│") + mark
        tone = "dim" if edge == "│ " else "accent"
        segments = [Segment(edge, self._style(tone, cursor) if edge.strip() else self._style(""))]
        flashing = self.flashing.get(record.get("id"), _NO_FIELDS)
        width = MARGIN
        for number, (column, column_width) in enumerate(self._fitted_columns):
            cell = column.cell(record, self._names)
            text = cell.text[-column_width:] if column.short else cell.text
            text = fit(text, column_width, column.align)
            if number:
                text = " " * GAP + text
                width += GAP
            width += column_width
            style = self._style(cell.tone, cursor)
            if column.name in flashing:
                gap = GAP if number else 0
                segments.append(Segment(text[:gap], style))
                segments.append(Segment(text[gap:], style + _FLASH))
            else:
                segments.append(Segment(text, style))
        rest = self.size.width - width
        if rest > 0:
            segments.append(Segment(" " * rest, self._style("", cursor)))
        strip = Strip(segments, width + max(0, rest))
        return strip if rest >= 0 else strip.crop(0, self.size.width)

    def _style(self, tone: str, cursor: str = "") -> Style:
        """Return the style of a tone. `cursor` is the cursor's style, or "" for a row without the cursor."""
        return self._styles[tone + cursor]

    def _compute_styles(self) -> None:
        """Compute the styles, and redraw all rows if a style has changed.

        Textual announces new styles whenever the screen changes, but usually the styles are the same.
        """
        self._styles_are_old = False
        base, part = self.rich_style, self.get_component_rich_style
        styles = {}
        for cursor in ("", "table--cursor", "table--cursor-idle"):
            under = base + part(cursor, partial=True) if cursor else base
            styles[cursor] = under
            styles |= {tone + cursor: under + part(f"table--{tone}", partial=True) for tone in TONES}
        if styles != self._styles:
            self._styles = styles
            self._strips.clear()

    def _line_without_record(self, index: int) -> Strip:
        waits = index < len(self.window) or (index == len(self.window) and not self.window.at_the_end)
        text = "  ·····" if waits and self.window.loaded else ""
        return Strip([Segment(fit(text, self.size.width), self._style("dim"))])
