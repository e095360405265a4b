"""The line over a list: what is shown, how it is filtered, where the eye is, what waits on top."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content
from textual.widget import Widget

from ledger_tui.resources.filtering import filter_line
from ledger_tui.state.text import literal
from ledger_tui.widgets.status_bar import awaited

if TYPE_CHECKING:
    from ledger_tui.widgets.resource_view import ResourceView


class Caption(Widget):
    """Honest counts: what is not known is not claimed."""

    def __init__(self, view: ResourceView) -> None:
        super().__init__()
        self._view = view
        self._answered = False

    def session_changed(self) -> None:
        """Drawn anew where it tells of the way to the server: what is followed only while that answers."""
        if not self._view.window.loaded or self._answered != self._view.desk.session.answers:
            self.refresh()

    def has_room_for(self, sentence: str) -> bool:
        """Whether a sentence about what is wrong stands whole between the title and what is on the right."""
        taken = self._title().cell_length + self._right().cell_length + 1
        return taken + Content(f"  ✕ {sentence}").cell_length <= self.size.width

    def _title(self) -> Content:
        view = self._view
        left = Content.assemble(" ", (view.resource.title, "bold"))
        if view.filters:
            names = view.desk.names
            shown = {param: names.name(value) for param, value in view.filters.items()}
            line = literal(filter_line(shown, view.resource.filters))
            left = Content.assemble(left, "  ", (f" {line} ", "$tab-text on $tab"))
        return left

    def render(self) -> Content:
        view, window = self._view, self._view.window
        self._answered = view.desk.session.answers
        left, right = self._title(), self._right()
        if view.problem and view.lacks_list:
            left = Content.assemble(left, ("  not offered by this server", "$muted"))
        elif view.problem and self.has_room_for(view.problem):
            left = Content.assemble(left, "  ", (f"✕ {view.problem}", "bold $error"))
        elif not view.problem and not window.loaded:
            left = Content.assemble(left, "  ", awaited(view.desk.session))
        elif not view.problem and not len(window):
            left = Content.assemble(left, (f"  {self._empty()}", "$muted"))
        room = self.size.width - left.cell_length - right.cell_length
        if room < 1:
            left = left.truncate(max(0, self.size.width - right.cell_length - 1), ellipsis=True)
            room = self.size.width - left.cell_length - right.cell_length
        return Content.assemble(left, " " * max(1, room), right)

    def _right(self) -> Content:
        view, window = self._view, self._view.window
        # Where the detail covers the list, what is shown is the one row under the cursor.
        covered = view.opened and not view.wide
        eye = (window.cursor, 1) if covered else (view.table.top, view.table.height_in_rows)
        return Content.assemble(view.news(), self._news(), (window.position(*eye), ""), " ")

    def _empty(self) -> str:
        return "Nothing matches this filter." if self._view.filters else self._view.resource.empty

    def _news(self) -> Content:
        window = self._view.window
        if self._view.paused:
            return Content.styled(f"❚❚ paused, {window.waiting:,} wait   ", "bold $warning")
        if window.waiting:
            more = "+" if window.waiting_is_least else ""
            return Content.styled(f"▲ {window.waiting}{more} new   ", "bold $accent")
        still = self._view.resource.still or self._view.lacks_list
        if window.following and len(window) and not still and self._view.desk.session.answers:
            return Content.assemble(("● ", "$plus"), ("following   ", "$muted"))
        return Content("")
