"""Which columns of a list are shown, how its rows are sorted, and which of them a filter here selects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation

from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record
from ledger_tui.formats.money import MINUS
from ledger_tui.lists.arranged_window import Keep, Order
from ledger_tui.resources.base import Column, Filters, Resource
from ledger_tui.resources.registry import BY_KIND
from ledger_tui.settings.config import BadConfig, ListSettings


def columns_of(resource: Resource, settings: ListSettings) -> tuple[Column, ...]:
    """Return the chosen columns in their order; all of the resource's where none were chosen."""
    by_name = {column.name: column for column in resource.columns}
    chosen = [by_name[name] for name in settings.columns if name in by_name]
    if not chosen:
        return resource.columns
    # When space is short the last ones are hidden first, as the user put them there.
    return tuple(replace(column, rank=rank) for rank, column in enumerate(chosen))


def order_of(resource: Resource, settings: ListSettings, names: AccountNames) -> Order | None:
    """Return the key that sorts the rows as the settings say; None where they are not sorted."""
    column = next((each for each in resource.columns if each.name == settings.sorted_by), None)
    return None if column is None else _Order(column, names)


class _Order:
    """The sort key of a column: numbers by value, anything else as it is written, nothing last."""

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
            return 1, Decimal(0), str(record.get(column.by) or "")
        text = column.cell(record, self._names).text
        if column.align == "right":
            number = text.replace(MINUS, "-").replace(",", "").rstrip("u")
            try:
                return 0, Decimal(number), ""
            except InvalidOperation:
                pass
        return 1, Decimal(0), text.casefold()


def selected_by(
    resource: Resource,
    filters: Filters,
    names: AccountNames,
    text: str = "",
    text_of: Callable[[Record], str] = str,
) -> Keep | None:
    """Return the condition of the filters that no server has, and of a text to find; None without any."""
    tests: list[Keep] = []
    for filter_ in resource.filters:
        value = filters.get(filter_.param, filter_.default)
        if filter_.matches is not None and value:
            tests.append(_test(filter_.matches, value, names))
    if text:
        wanted = text.casefold()
        tests.append(lambda record: wanted in text_of(record).casefold())
    if not tests:
        return None
    return lambda record: all(test(record) for test in tests)


def _test(matches: Callable[[Record, str, AccountNames], bool], value: str, names: AccountNames) -> Keep:
    return lambda record: matches(record, value, names)


def check_lists(lists: Mapping[str, ListSettings], file: str) -> None:
    """Raise BadConfig for a list, a column or a sorting that does not exist."""
    for kind, settings in lists.items():
        if kind not in BY_KIND:
            raise BadConfig(f"{file}: lists.{kind}: is not a list; they are {', '.join(BY_KIND)}.")
        known = [column.name for column in BY_KIND[kind].columns]
        for entry, named in (("columns", settings.columns), ("sort", (settings.sorted_by,))):
            for name in named:
                if name and name not in known:
                    where = f"{file}: lists.{kind}.{entry}"
                    raise BadConfig(f'{where}: "{name}" is not a column; they are {", ".join(known)}.')
