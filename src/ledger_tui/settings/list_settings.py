"""How a list is shown, as the user chose it and the config file keeps it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from ledger_tui.formats.times import TimeStyle

Bad = Callable[[str, str], Exception]  # makes the error for an entry and the reason


def parse_times(value: Any, bad: Bad) -> TimeStyle | None:
    """Return how times are written; None when the file does not say."""
    if value is None:
        return None
    styles = {style.value: style for style in TimeStyle}
    if not isinstance(value, str) or value not in styles:
        raise bad("times", f"must be one of {', '.join(styles)}")
    return styles[value]


def parse_panes(table: Any, bad: Bad) -> PaneChoice:
    """Return how the list and the detail share the screen."""
    if not isinstance(table, dict):
        raise bad("panes", "must be a table")
    known = [each.name for each in fields(PaneChoice)]
    for entry, value in table.items():
        if entry not in known:
            raise bad(f"panes.{entry}", f"is not an entry of panes; the entries are {', '.join(known)}")
        if entry == "split" and not isinstance(value, bool):
            raise bad("panes.split", "must be true or false")
        if entry == "detail_width" and (type(value) is not int or value < LEAST_COLUMNS):
            raise bad("panes.detail_width", f"must be a number of columns from {LEAST_COLUMNS} on")
    return PaneChoice(**table)


def parse_lists(tables: Any, bad: Bad) -> dict[str, ListSettings]:
    """Return the settings of each list by its name."""
    if not isinstance(tables, dict):
        raise bad("lists", "must be a table")
    return {kind: _settings(kind, table, bad) for kind, table in tables.items()}


def _settings(kind: str, table: Any, bad: Bad) -> ListSettings:
    if not isinstance(table, dict):
        raise bad(f"lists.{kind}", "must be a table")
    known = [each.name for each in fields(ListSettings)]
    for entry, value in table.items():
        where = f"lists.{kind}.{entry}"
        if entry not in known:
            raise bad(where, f"is not an entry of a list; the entries are {', '.join(known)}")
        if entry == "sort":
            if not isinstance(value, str):
                raise bad(where, 'must be a column in quotes, like "-amount"')
        elif not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise bad(where, "must be a list of texts in quotes")
    return ListSettings(
        tuple(table.get("columns", ())), table.get("sort", ""), tuple(table.get("filters", ()))
    )


def entries_of(settings: ListSettings) -> Mapping[str, Any]:
    """Return the entries for the file: those that are set."""
    values = {"columns": [*settings.columns], "sort": settings.sort, "filters": [*settings.filters]}
    return {name: value for name, value in values.items() if value}


DETAIL_COLUMNS = 47


LEAST_COLUMNS = 24  # of either pane


@dataclass
class PaneChoice:
    """The user's choice, which holds for all screens: `split` is None while the width decides."""

    split: bool | None = None
    detail_width: int = DETAIL_COLUMNS


@dataclass(frozen=True, slots=True)
class ListSettings:
    """The settings of one list; empty values stand for what the program chooses.

    `sort` is the name of a column, with a `-` before it for descending.
    """

    columns: tuple[str, ...] = ()
    sort: str = ""
    filters: tuple[str, ...] = ()  # the bookmarks: lines of the filter

    @property
    def sorted_by(self) -> str:
        return self.sort.removeprefix("-")

    @property
    def descending(self) -> bool:
        return self.sort.startswith("-")

    def sorted_next(self, column: str) -> ListSettings:
        """Return the next sorting by this column: ascending, then descending, then none."""
        following = {column: f"-{column}", f"-{column}": ""}.get(self.sort, column)
        return replace(self, sort=following)

    def with_filter(self, line: str) -> ListSettings:
        """Return the settings with a bookmark added, or removed if it was there."""
        there = line in self.filters
        filters = tuple(each for each in self.filters if each != line) if there else (*self.filters, line)
        return replace(self, filters=filters)
