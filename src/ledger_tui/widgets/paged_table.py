"""A table over a window of rows: only the visible lines are drawn, however long the list."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from ledger_tui.actions import TABLE_KEYS
from ledger_tui.resources.base import Column
from ledger_tui.state.names import AccountNames
from ledger_tui.state.text import fit
from ledger_tui.state.window import Record, Window
from ledger_tui.widgets.columns import GAP, MARGIN, Fitted, fit_columns

TONES = ("plain", "dim", "strong", "plus", "minus", "warn", "bad", "accent")


class TableHeader(Widget):
    """The column titles, aligned with the table below."""

    columns: reactive[list[Fitted]] = reactive(list)

    def render_line(self, y: int) -> Strip:
        titles = [fit(fitted.column.title, fitted.width, fitted.column.align) for fitted in self.columns]
        text = " " * MARGIN + (" " * GAP).join(titles)
        return Strip([Segment(fit(text, self.size.width), self.rich_style)])


class PagedTable(ScrollView, can_focus=True):
    """Rows of a `Window` with a cursor. Posts `Moved` when scroll or cursor change, `Opened` on enter."""

    BINDINGS = TABLE_KEYS
    COMPONENT_CLASSES = {"table--cursor", "table--cursor-idle", *(f"table--{tone}" for tone in TONES)}

    class Moved(Message):
        """`by_hand`: the user moved the cursor; otherwise only the visible rows have changed."""

        def __init__(self, *, by_hand: bool = True) -> None:
            super().__init__()
            self.by_hand = by_hand

    class Opened(Message):
        pass

    class Fitted(Message):
        def __init__(self, columns: list[Fitted]) -> None:
            super().__init__()
            self.columns = columns

    def __init__(self, window: Window, columns: Sequence[Column], names: AccountNames) -> None:
        super().__init__()
        self.window = window
        self._columns = columns
        self._names = names
        self._fitted: list[Fitted] = []
        self._fitted_width = 0
        self._widest: dict[str, int] = {}
        self._shown: list[object] = []
        self._rows: list[Record | None] = []
        self._strips: dict[int, tuple[Record, Strip]] = {}
        self._styles: dict[str, Style] = {}
        self._styles_are_old = True

    # ------------------------------------------------------------------ the visible rows

    @property
    def top(self) -> int:
        return round(self.scroll_y)

    @property
    def height_in_rows(self) -> int:
        return max(1, self.size.height)

    def on_resize(self, event: events.Resize) -> None:
        if not event.size.height:  # hidden by the detail: keep the position for its return
            return
        if event.size.width != self._fitted_width:
            self._fit()
            self.redraw()
            self.repaint()
        self._keep_cursor_in_view()
        self.post_message(self.Moved(by_hand=False))

    def repaint(self, moved_by: int = 0) -> None:
        """Draw the rows the window holds now, and scroll by `moved_by` so that the same rows stay in view."""
        self.virtual_size = Size(self.size.width, len(self.window) + (0 if self.window.at_the_end else 1))
        if self.window.following:
            self._look_at(0)
        elif moved_by:
            self._look_at(self.top + moved_by)
        self.widen_columns()
        self._draw_what_changed()

    def redraw(self) -> None:
        """Draw every row anew, because names, columns or colours have changed."""
        self._strips.clear()
        self.refresh()

    def _draw_what_changed(self) -> None:
        # Most polls find nothing new, and drawing a screen of rows costs as much as a key press.
        top, window = self.top, self.window
        shown: list[object] = [top, window.cursor, len(window), window.loaded, window.at_the_end]
        rows = [self.window.row(index) for index in range(top, top + self.height_in_rows)]
        same = (
            shown == self._shown and all(map(operator.is_, rows, self._rows)) and len(rows) == len(self._rows)
        )
        self._shown, self._rows = shown, rows
        if not same:
            self.refresh()

    def widen_columns(self) -> None:
        """Widen the number columns so that no visible number is cut.

        They never shrink while a list is shown, or the columns would jump with every row.
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

    def text_of(self, record: Record) -> str:
        """Return the text of a row, one cell per line."""
        return "\n".join(fitted.column.cell(record, self._names).text for fitted in self._fitted)

    def start_over(self) -> None:
        """Reset the scroll position and the column widths for another list."""
        self._widest.clear()
        self._fit()
        self.redraw()
        self.repaint()

    def _fit(self) -> None:
        columns = [replace(c, width=self._widest.get(c.title, c.width)) for c in self._columns]
        # The scrollbar's column stays free, so that nothing moves when the scrollbar appears.
        self._fitted_width = self.size.width
        self._fitted = fit_columns(columns, self._fitted_width)
        self.post_message(self.Fitted(self._fitted))

    def notify_style_update(self) -> None:
        self._styles_are_old = True
        super().notify_style_update()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        # The wheel and the scrollbar move the view; the cursor follows, so that it is always visible.
        bottom = self.top + self.height_in_rows - 1
        held = max(self.top, min(self.window.cursor, bottom))
        dragged = held != self.window.cursor and len(self.window) > 0
        if dragged:
            self.window.move(held)
            self.refresh()
        self.widen_columns()
        self.post_message(self.Moved(by_hand=dragged))

    def _look_at(self, row: int) -> None:
        # Without waiting for a frame: rows that arrive before it are placed relative to this position.
        self.scroll_to(y=max(0, row), animate=False, immediate=True, force=True)

    def _keep_cursor_in_view(self) -> None:
        cursor, top, height = self.window.cursor, self.top, self.height_in_rows
        if cursor < top:
            self._look_at(cursor)
        elif cursor >= top + height:
            self._look_at(cursor - height + 1)

    # ------------------------------------------------------------------ the cursor

    def go_to(self, row: int) -> None:
        """Put the cursor on a row and scroll it into view."""
        before = self.window.cursor
        self.window.move(row)
        self._keep_cursor_in_view()
        for line in {before, self.window.cursor}:
            self.refresh_line(line)
        self.post_message(self.Moved())

    def action_move(self, rows: int) -> None:
        self.go_to(self.window.cursor + rows)

    def action_move_pages(self, pages: int) -> None:
        step = max(1, self.height_in_rows - 1)
        top = self.top + pages * step
        self.window.move(self.window.cursor + pages * step)
        self._look_at(min(top, max(0, len(self.window) - self.height_in_rows)))
        self._keep_cursor_in_view()
        self.refresh()
        self.post_message(self.Moved())

    def action_newest(self) -> None:
        self.go_to(0)

    def action_oldest(self) -> None:
        self.go_to(len(self.window) - 1)

    def on_click(self, event: events.Click) -> None:
        row = self.top + event.y
        if row < len(self.window):
            self.go_to(row)
            if event.chain == 2:
                self.post_message(self.Opened())

    # ------------------------------------------------------------------ drawing

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the visible lines, not from Textual's line cache, which a scroll makes useless."""
        strips = [self.render_line(y) for y in crop.line_range]
        background = self.background_colors[1]
        for line_filter in self.get_line_filters():
            strips = [strip.apply_filter(line_filter, background) for strip in strips]
        if crop.x or crop.width < self.size.width:
            strips = [strip.crop(crop.x, crop.right) for strip in strips]
        return strips

    def render_line(self, y: int) -> Strip:
        if self._styles_are_old:
            self._look_at_styles()
        index = self.top + y
        record = self.window.row(index)
        if record is None:
            return self._line_without_record(index)
        if index == self.window.cursor:
            return self._row_strip(record, "table--cursor" if self.has_focus else "table--cursor-idle")
        cached = self._strips.get(index)
        if cached is not None and cached[0] is record:
            return cached[1]
        strip = self._row_strip(record)
        if len(self._strips) > 8 * self.height_in_rows:
            self._strips.clear()
        self._strips[index] = (record, strip)
        return strip

    def _row_strip(self, record: Record, cursor: str = "") -> Strip:
        """Return a row in as few segments as possible, as each has a cost. `cursor` is the cursor's style."""
        segments = [
            Segment("▌ ", self._style("accent", cursor)) if cursor else Segment("  ", self._style(""))
        ]
        width = MARGIN
        for number, (column, column_width) in enumerate(self._fitted):
            cell = column.cell(record, self._names)
            text = fit(cell.text, column_width, column.align)
            if number:
                text = " " * GAP + text
                width += GAP
            width += column_width
            segments.append(Segment(text, self._style(cell.tone, cursor)))
        rest = self.size.width - width
        if rest > 0:
            segments.append(Segment(" " * rest, self._style("", cursor)))
        strip = Strip(segments, width + max(0, rest))
        return strip if rest >= 0 else strip.crop(0, self.size.width)

    def _style(self, tone: str, cursor: str = "") -> Style:
        """Return the style of a tone, also under the cursor."""
        return self._styles[tone + cursor]

    def _look_at_styles(self) -> None:
        """Compute the styles, and redraw all rows when one has changed.

        Textual announces new styles whenever a screen changes, and mostly they are the same.
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
