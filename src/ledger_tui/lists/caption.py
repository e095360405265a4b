"""The caption of a list: the title, the filter, the position, and the number of new rows not shown yet."""

from __future__ import annotations

from collections.abc import Callable

from textual.content import Content
from textual.widget import Widget

from ledger_tui.formats.text import literal
from ledger_tui.lists.record_list import RecordList
from ledger_tui.lists.window import Window
from ledger_tui.resources.filtering import filter_line, usage
from ledger_tui.resources.registry import short_id
from ledger_tui.ui.status_bar import awaited

_KEY_OF_NEWS = ", f shows them"


class Caption(Widget):
    """The line above a list with the title, the filter, a problem, and the position if it is known.

    `counts` returns a text to show to the left of the position, such as the server's counts. `is_covered`
    returns whether the detail covers the list.
    """

    def __init__(
        self,
        record_list: RecordList,
        *,
        counts: Callable[[], Content],
        is_covered: Callable[[], bool],
    ) -> None:
        super().__init__()
        self._list = record_list
        self._model = record_list.model
        self._counts = counts
        self._is_covered = is_covered
        self._was_answering = False

    def session_changed(self) -> None:
        """Redraw if the server began or stopped answering, or while the list is loading.

        The caption shows `following` only while the server answers.
        """
        if not self._model.window.loaded or self._was_answering != self._model.context.session.answers:
            self.refresh()

    def fits(self, sentence: str) -> bool:
        """Return whether a sentence fits between the title and the position."""
        used_width = self._title().cell_length + self._right().cell_length + 1
        return used_width + Content(f"  ✕ {sentence}").cell_length <= self.size.width

    def _title(self) -> Content:
        model = self._model
        left = Content.assemble(" ", (model.resource.title, "bold"))
        if model.filters:
            names = model.context.names
            texts = {
                p: short_id(names.user(value) or names.name(value)) for p, value in model.filters.items()
            }
            line = literal(filter_line(texts, model.resource.filters))
            left = Content.assemble(left, "  ", (f" {line} ", "$tab-text on $tab"))
        if model.text:
            left = Content.assemble(left, "  ", (f" “{literal(model.text)}” ", "$tab-text on $tab"))
        return left

    def render(self) -> Content:
        model, window = self._model, self._model.window
        self._was_answering = model.context.session.answers
        left, right = self._title(), self._right()
        if model.problem and model.is_missing:
            left = Content.assemble(left, ("  not offered by this server", "$muted"))
        elif model.problem and self.fits(model.problem):
            left = Content.assemble(left, "  ", (f"✕ {model.problem}", "bold $error"))
        elif not model.problem and not (window.loaded and not model.is_old):
            left = Content.assemble(left, "  ", awaited(model.context.session))
        elif not model.problem and not len(window):
            left = Content.assemble(left, (f"  {self.why_empty}", "$muted"))
        width_left = self.size.width - left.cell_length - right.cell_length
        if window.waiting and width_left > len(_KEY_OF_NEWS):
            right = self._right(names_key=True)
            width_left = self.size.width - left.cell_length - right.cell_length
        if width_left < 1:
            left = left.truncate(max(0, self.size.width - right.cell_length - 1), ellipsis=True)
            width_left = self.size.width - left.cell_length - right.cell_length
        return Content.assemble(left, " " * max(1, width_left), right)

    def _right(self, *, names_key: bool = False) -> Content:
        """Return the server's counts, the marks, the search or the new rows, and the position.

        With `names_key`, also name the key that shows the new rows.
        """
        model, window = self._model, self._model.window
        # If the detail covers the list, show the position of the row under the cursor.
        rows = (
            (window.cursor, 1)
            if self._is_covered()
            else (self._list.table.top, self._list.table.height_in_rows)
        )
        news = self._search_text() if model.searching else self._window_news(names_key=names_key)
        place = self._sort_text() + position(window, *rows)
        return Content.assemble(self._counts(), self._marks_text(), news, place, " ")

    def _sort_text(self) -> str:
        settings = self._model.settings
        if not self._model.window.sorted:
            return ""
        return f"by {settings.sorted_by} {'▼' if settings.descending else '▲'}  "

    def _marks_text(self) -> Content:
        marks = len(self._model.marks)
        return Content.styled(f"● {marks:,} marked   ", "bold $accent") if marks else Content("")

    def _search_text(self) -> Content:
        """Return the progress of the search in older pages, in words."""
        window = self._model.window
        return Content.styled(f"⌕ searching, {window.resident:,} rows read; esc stops   ", "bold $accent")

    @property
    def why_empty(self) -> str:
        """Why the list is empty, in a sentence."""
        model = self._model
        if not (model.filters or model.text):
            resource, forbidden = model.resource, model.context.session.forbids_changes
            return resource.empty if forbidden else f"{resource.empty} {resource.invites}".rstrip()
        if model.window.searches and model.window.has_older:
            return "Nothing yet; m searches older rows."
        if model.text and model.resource.filters:
            return f"No row contains this text. Filters: {usage(model.resource.filters)}"
        return "Nothing matches this filter."

    def _window_news(self, *, names_key: bool) -> Content:
        window = self._model.window
        if window.waiting:
            more = "+" if window.waiting_is_minimum else ""
            key = _KEY_OF_NEWS if names_key else ""
            return Content.styled(f"▲ {window.waiting}{more} new{key}   ", "bold $accent")
        past = self._model.context.session.moment_ms is not None
        still = self._model.resource.still or self._model.is_missing or past
        if window.following and len(window) and not still and self._model.context.session.answers:
            return Content.assemble(("● ", "$plus"), ("following   ", "$muted"))
        return Content("")


def position(window: Window, top: int, height: int) -> str:
    """Return the range of rows on the screen and the number of rows, as far as known: `41–60 of 200+`."""
    if not window.loaded:
        return ""
    rows = len(window)
    if not rows:
        return f"0 of {window.resident:,} loaded" if window.arranged else "0"
    last = min(top + height, rows)
    first = min(top + 1, last)
    at = f"{first:,}–{last:,}" if first < last else f"{last:,}"
    if window.searches:
        return f"{at} of {rows:,} among {window.resident:,} loaded"
    if window.arranged:
        return f"{at} of {rows:,} loaded" if window.has_older else f"{at} of {rows:,}"
    if window.newer is not None:  # the number of rows above is unknown
        return f"in the middle, {rows:,} loaded"
    if window.complete:
        return f"{at} of {rows:,}"
    if window.total is not None and window.total > rows:
        return f"{at} of {window.total:,}"
    return f"{at} of {rows:,}+"
