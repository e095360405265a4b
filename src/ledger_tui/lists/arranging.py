"""The columns and the order of a list, the dialog to choose them, and the filters that the dashboard applies.

The dashboard applies a filter to the loaded rows if the server has no such filter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from itertools import chain

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record
from ledger_tui.formats import times
from ledger_tui.formats.money import as_number
from ledger_tui.lists.window import Keep, Order
from ledger_tui.resources.base import Column, FilterContext, Filters, Resource
from ledger_tui.resources.filtering import WordMeaning, check_date, complete_value
from ledger_tui.resources.registry import BY_KIND
from ledger_tui.settings.config import BadConfig, ListSettings
from ledger_tui.ui.dialogs import Dialog


def columns_of(resource: Resource, settings: ListSettings) -> tuple[Column, ...]:
    """Return the columns that the user chose, in the chosen order; all columns if the user chose none."""
    by_name = {column.name: column for column in resource.columns}
    choice = [by_name[name] for name in settings.columns if name in by_name]
    if not choice:
        return resource.columns
    # When space is short, the list hides columns from the end of the order that the user chose.
    return tuple(replace(column, rank=rank) for rank, column in enumerate(choice))


def order_of(resource: Resource, settings: ListSettings, names: AccountNames) -> Order | None:
    """Return the key function of the column to sort by; None if the user sorts by no column."""
    column = next((each for each in resource.columns if each.name == settings.sorted_by), None)
    return None if column is None else _Order(column, names)


class _Order:
    """A function that returns the sort key of a record, for one column.

    A column with `by` sorts by that field of the record. Any other column sorts by its cells. Numbers in the
    field, or in the cells of a right-aligned column, sort by their value and come before all texts.
    """

    def __init__(self, column: Column, names: AccountNames) -> None:
        self._column = column
        self._names = names

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Order) and self._column == other._column

    def __hash__(self) -> int:
        return hash(self._column.title)

    def __call__(self, record: Record) -> tuple[int, Decimal, str]:
        column = self._column
        if column.by:
            value = record.get(column.by)
            if isinstance(value, int | float):
                return 0, Decimal(str(value)), ""
            return 1, Decimal(0), str(value or "")
        text = column.cell(record, self._names).text
        if column.align == "right":
            try:
                return 0, as_number(text), ""
            except InvalidOperation:
                pass
        return 1, Decimal(0), text.casefold()


def selected_by(resource: Resource, filters: Filters, context: FilterContext, text: str = "") -> Keep | None:
    """Return a function that tells whether to show a record; None if all records are shown.

    The function tests whether the record contains the text, and whether the record passes the filters that
    the dashboard, not the server, applies.
    """
    tests: list[Keep] = []
    for filter_ in resource.filters:
        value = filters.get(filter_.param, filter_.default)
        if filter_.matches is not None and value and not filter_.is_sent(value):
            tests.append(_test(filter_.matches, value, context))
    if text:
        tests.append(_has_text(resource, text, context.names))
    if not tests:
        return None
    return lambda record: all(test(record) for test in tests)


def _test(matches: Callable[[Record, str, FilterContext], bool], value: str, context: FilterContext) -> Keep:
    return lambda record: matches(record, value, context)


def _has_text(resource: Resource, text: str, names: AccountNames) -> Keep:
    """Return a test for records that contain the text in a field or in a column, even a hidden column."""
    folded = text.casefold()

    def has_text(record: Record) -> bool:
        cells = (column.cell(record, names).text for column in resource.columns)
        return any(folded in part.casefold() for part in chain(_texts_in(record), cells))

    return has_text


def contains_besides(resource: Resource, word: str, meaning: WordMeaning, context: FilterContext) -> Keep:
    """Return a test for records that contain a typed word outside the column of the filter `meaning.filter`.

    The test looks for the typed word as a whole word. But if the user typed only the beginning of the
    filter's value, the test looks for any word that begins in this way.

    For the word `open`, the name `Open Air GmbH` passes the test. The name `Copenhagen` does not, and the
    filter's own column, with the status `open`, does not count. If the dashboard applies the filter, the test
    returns False for all records that pass the filter.
    """
    end = "" if meaning.is_beginning else r"(?!\w)"
    pattern = re.compile(rf"(?<!\w){re.escape(word)}{end}", re.IGNORECASE)
    filter_ = meaning.filter
    value = complete_value(meaning.value, filter_)

    def contains(record: Record) -> bool:
        if filter_.matches is not None and filter_.matches(record, value, context):
            return False
        rest = {name: part for name, part in record.items() if name != filter_.param}
        # A date in the column of the times is the time that the filter compares.
        own = filter_.check is check_date
        columns = (each for each in resource.columns if each.name != filter_.name and not (own and each.by))
        cells = (column.cell(record, context.names).text for column in columns)
        return any(map(pattern.search, chain(_texts_in(rest), cells)))

    return contains


def _texts_in(value: object) -> Iterator[str]:
    """Yield the texts in a record and the keys of its metadata.

    Leave out the field `object`, the kind of the record, because no list shows this field.
    """
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts_in(item)
    elif isinstance(value, dict):
        for name, part in value.items():
            if name == "metadata" and isinstance(part, dict):
                yield from part
            if name != "object" or not isinstance(part, str):
                yield from _texts_in(part)


def check_lists(lists: Mapping[str, ListSettings], file: str) -> None:
    """Raise BadConfig if the settings name an unknown list, or a column that the list lacks."""
    for kind, settings in lists.items():
        if kind not in BY_KIND:
            raise BadConfig(
                f"{file}: lists.{kind}: there is no such list; choose one of {', '.join(BY_KIND)}."
            )
        column_names = [column.name for column in BY_KIND[kind].columns]
        for entry, entry_names in (("columns", settings.columns), ("sort", (settings.sorted_by,))):
            for name in entry_names:
                if name and name not in column_names:
                    where = f"{file}: lists.{kind}.{entry}"
                    choices = ", ".join(column_names)
                    raise BadConfig(f'{where}: there is no column "{name}"; choose one of {choices}.')


_NOTE = "Only the rows loaded so far are sorted. m loads older rows."


_SORTED = "bold $accent"


def _direction(column: Column, settings: ListSettings) -> str:
    """Return the present direction of the sorting by a column, in words."""
    if column.title != column.name:  # a column of times
        words = ("oldest first", "newest first")
    else:
        words = ("smallest first", "largest first") if column.largest_first else ("A to Z", "Z to A")
    return f"{'▲▼'[settings.descending]} {words[settings.descending]}"


class ColumnsScreen(Dialog[ListSettings]):
    """A dialog to choose a list's columns, their order and the sorting; it returns the list's new settings.

    After each change, the dialog calls `preview`, so that the list shows the change at once.
    """

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
        super().__init__("choose", "Sort and columns")
        self._all = [column.name for column in resource.columns]
        self._columns_by_name = {column.name: column for column in resource.columns}
        self._settings = settings
        self._preview = preview
        choice = [name for name in settings.columns if name in self._all] or self._all
        self._visible_names = set(choice)
        self._order = [*choice, *(name for name in self._all if name not in self._visible_names)]

    def content(self) -> ComposeResult:
        yield OptionList(*map(Option, self._lines()), markup=False, compact=True)
        yield Static(Content.styled(_NOTE, "$muted"), id="columns-note")

    def on_mount(self) -> None:
        options = self.query_one(OptionList)
        options.highlighted = 0
        self.set_focus(options)

    def _lines(self) -> list[Content]:
        return [
            Content.assemble(
                "[x] " if name in self._visible_names else ("[ ] ", "$muted"),
                times.heading((column := self._columns_by_name[name]).title).ljust(18),
                (_direction(column, self._settings) if name == self._settings.sorted_by else "", _SORTED),
            )
            for name in self._order
        ]

    @property
    def _highlighted(self) -> int:
        return self.query_one(OptionList).highlighted or 0

    def _change(self, settings: ListSettings, at: int) -> None:
        self._settings = settings
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options(map(Option, self._lines()))
        options.highlighted = at
        self._preview(settings)

    def _columns(self) -> tuple[str, ...]:
        """Return the names of the chosen columns; an empty tuple for the default columns."""
        columns = [name for name in self._order if name in self._visible_names]
        return () if columns == self._all else tuple(columns)

    @on(OptionList.OptionSelected)
    def clicked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.action_sort()

    def action_sort(self) -> None:
        """Sort by the highlighted column.

        A second press reverses the order, and a third press restores the server's order.
        """
        at = self._highlighted
        name = self._order[at]
        largest_first = self._columns_by_name[name].largest_first
        self._change(self._settings.sorted_next(name, largest_first=largest_first), at)

    def action_show_or_hide(self) -> None:
        at = self._highlighted
        name = self._order[at]
        if self._visible_names != {name}:  # the last visible column cannot be hidden
            self._visible_names ^= {name}
        self._change(replace(self._settings, columns=self._columns()), at)

    def action_shift(self, step: int) -> None:
        at, to = self._highlighted, self._highlighted + step
        if 0 <= to < len(self._order):
            self._order[at], self._order[to] = self._order[to], self._order[at]
            self._change(replace(self._settings, columns=self._columns()), to)

    def action_reset(self) -> None:
        self._order, self._visible_names = [*self._all], {*self._all}
        self._change(replace(self._settings, columns=(), sort=""), 0)

    def action_close(self) -> None:
        self.dismiss(self._settings)
