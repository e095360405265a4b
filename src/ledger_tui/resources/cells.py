"""Returns the cells and facts that show a record: its texts, amounts, times and status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record, records_of
from ledger_tui.formats import times
from ledger_tui.formats.money import format_amount
from ledger_tui.formats.text import literal
from ledger_tui.resources.base import Cell, Fact, Tone

_WHOLE_TIME = 19  # characters of a time in UTC or in the time zone of this machine


def currency_of(record: Record, names: AccountNames | None = None) -> str | None:
    """Return a record's currency; None if it is unknown.

    If the record names no currency, return the currency that all its prices share. If they share no currency,
    return the currency of the record's account.
    """
    own = record.get("currency")
    if isinstance(own, str):
        return own
    currencies = [item.get("currency") for item in records_of(record.get("items")) if "unit_amount" in item]
    if currencies and isinstance(currencies[0], str) and currencies.count(currencies[0]) == len(currencies):
        return currencies[0].upper()
    return names.currency(record.get("account")) if names is not None else None


def joined(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells of a line, with neighbouring cells of the same tone joined to draw fewer cells."""
    line: list[Cell] = []
    for cell in cells:
        if line and line[-1].tone == cell.tone:
            line[-1] = Cell(line[-1].text + cell.text, cell.tone)
        else:
            line.append(cell)
    return line


def text_of(record: Record, name: str, tone: Tone = "plain") -> Cell:
    """Return a field as text; a dim dash if the field is absent or null."""
    value: Any = record.get(name)
    return Cell("–", "dim") if value is None else Cell(literal(value), tone)


def money_of(record: Record, name: str, names: AccountNames | None = None, *, sign: bool = False) -> Cell:
    """Return an amount in the record's currency. With `sign` a positive amount shows a plus."""
    amount = record.get(name)
    if not isinstance(amount, int):
        return text_of(record, name)
    text = format_amount(amount, currency_of(record, names), sign=sign)
    return Cell(text, "minus" if amount < 0 else "plus" if sign and amount else "plain")


def time_of(record: Record, name: str) -> Cell:
    """Return a time field in the style that the user chose, such as `2026-11-20 04:31:00`."""
    value = record.get(name)
    text = times.written(value) if isinstance(value, str) else None
    return Cell(text, "dim") if text is not None else text_of(record, name, "dim")


def part_of_time(record: Record, name: str, start: int, stop: int | None = None) -> str:
    """Return the characters from `start` to `stop` of a time such as `2026-11-20 04:31:00`.

    Return a relative time, such as `5 min ago`, as a whole.
    """
    text = time_of(record, name).text
    return text[start:stop] if len(text) == _WHOLE_TIME else text


def facts_of(record: Record, *names: str) -> list[Fact]:
    """Return a fact for each field. The label of a fact is the field's name without `_at`."""
    return [Fact(name.removesuffix("_at"), _fact(record, name)) for name in names]


def _fact(record: Record, name: str) -> Cell:
    is_time = name == "created" or name.endswith("_at")
    return time_of(record, name) if is_time else text_of(record, name)


def clock_of(record: Record, name: str) -> Cell:
    """Return a time as `11-20 04:31:00`, without the year because logs cover only recent days."""
    return Cell(part_of_time(record, name, 5), "dim")


def status_of(record: Record, looks: Mapping[str, tuple[str, Tone]]) -> Cell:
    """Return the status of a record with a glyph, so that people can read it without the colour."""
    status = str(record.get("status"))
    glyph, tone = looks.get(status, ("·", "plain"))
    return Cell(f"{glyph} {literal(status)}", tone) if "status" in record else Cell("–", "dim")
