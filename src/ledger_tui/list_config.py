"""The part of the config file about lists: columns, sorting and bookmarks, panes, and how times are written.

times = "local"           # utc, local or relative

[panes]
split = true
detail_width = 60

[lists.transactions]
columns = ["created", "amount", "cur", "description"]
sort = "-amount"
filters = ["type:debit after:2026-11-01"]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from ledger_tui.state.list_settings import ListSettings
from ledger_tui.state.pane_choice import LEAST_COLUMNS, PaneChoice
from ledger_tui.state.times import TimeStyle

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
