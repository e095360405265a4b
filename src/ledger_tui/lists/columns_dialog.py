"""A dialog to sort a list and to choose its columns and their order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from ledger_tui.formats import times
from ledger_tui.resources.base import Resource
from ledger_tui.settings.config import ListSettings
from ledger_tui.ui.dialogs import Dialog
from ledger_tui.ui.keys import KeyBar

_NOTE = "No server sorts its lists: the rows that are loaded are sorted, and m loads older ones."


class ColumnsScreen(Dialog[ListSettings]):
    """Returns the settings. `preview` is called after each change, so that the list shows it at once."""

    BINDINGS = [
        Binding("enter", "sort", "sort by it", show=True, priority=True),
        Binding("space", "show_or_hide", "show, hide", show=True),
        Binding("left_square_bracket,shift+up,K", "shift(-1)", "left, ] right", show=True),
        Binding("right_square_bracket,shift+down,J", "shift(1)", "to the right", show=False),
        Binding("0", "reset", "reset", show=True),
        Binding("escape,q,o", "close", "done", show=True),
    ]

    def __init__(
        self, resource: Resource, settings: ListSettings, preview: Callable[[ListSettings], None]
    ) -> None:
        super().__init__()
        self._all = [column.name for column in resource.columns]
        self._titles = {column.name: times.heading(column.title) for column in resource.columns}
        self._settings = settings
        self._preview = preview
        chosen = [name for name in settings.columns if name in self._all] or self._all
        self._shown = set(chosen)
        self._order = [*chosen, *(name for name in self._all if name not in self._shown)]

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog", id="choose") as box:
            box.border_title = "Sort and columns"
            yield OptionList(*map(Option, self._lines()), markup=False, compact=True)
            yield Static(Content.styled(_NOTE, "$muted"), id="columns-note")
            yield KeyBar()

    def on_mount(self) -> None:
        options = self.query_one(OptionList)
        options.highlighted = 0
        options.focus()

    def _lines(self) -> list[Content]:
        arrow = "▼" if self._settings.descending else "▲"
        return [
            Content.assemble(
                "[x] " if name in self._shown else ("[ ] ", "$muted"),
                self._titles[name].ljust(18),
                (f"{arrow} sorted" if name == self._settings.sorted_by else "", "bold $accent"),
            )
            for name in self._order
        ]

    @property
    def _here(self) -> int:
        return self.query_one(OptionList).highlighted or 0

    def _changed(self, settings: ListSettings, at: int) -> None:
        self._settings = settings
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options(map(Option, self._lines()))
        options.highlighted = at
        self._preview(settings)

    def _columns(self) -> tuple[str, ...]:
        """Return the chosen columns; none when they are what the program shows anyway."""
        columns = [name for name in self._order if name in self._shown]
        return () if columns == self._all else tuple(columns)

    @on(OptionList.OptionSelected)
    def clicked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.action_sort()

    def action_sort(self) -> None:
        """Sort by the highlighted column; again: the other way round; a third time: not at all."""
        at = self._here
        self._changed(self._settings.sorted_next(self._order[at]), at)

    def action_show_or_hide(self) -> None:
        at = self._here
        name = self._order[at]
        if self._shown != {name}:  # one column stays
            self._shown ^= {name}
        self._changed(replace(self._settings, columns=self._columns()), at)

    def action_shift(self, step: int) -> None:
        at, to = self._here, self._here + step
        if 0 <= to < len(self._order):
            self._order[at], self._order[to] = self._order[to], self._order[at]
            self._changed(replace(self._settings, columns=self._columns()), to)

    def action_reset(self) -> None:
        self._order, self._shown = [*self._all], {*self._all}
        self._changed(replace(self._settings, columns=(), sort=""), 0)

    def action_close(self) -> None:
        self.dismiss(self._settings)
