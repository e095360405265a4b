"""The lines of an invoice as they are typed: rows of a description, a quantity and a unit amount. Pure.

A form's values are text, so the rows are stored as JSON: what was typed, not what it means.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from ledger_tui.formats.money import LARGEST_AMOUNT, BadAmount, editable_amount, format_amount, parse_amount

LINES_MAX = 100


class TypedLine(NamedTuple):
    """One row. A new one has the quantity 1."""

    description: str = ""
    quantity: str = "1"
    unit_amount: str = ""

    @property
    def blank(self) -> bool:
        return not (self.description.strip() or self.unit_amount.strip())


def dump_lines(rows: Iterable[TypedLine]) -> str:
    """Return the rows that are not blank as one text; "" when there are none."""
    written = [[part.strip() for part in row] for row in rows if not row.blank]
    return json.dumps(written, ensure_ascii=False) if written else ""


def load_lines(text: str) -> list[TypedLine]:
    """Return the rows of a text that `dump_lines` made."""
    return [TypedLine(*row) for row in json.loads(text)] if text else []


def lines_as_typed(lines: object, currency: str) -> str | None:
    """Return a draft's lines as rows to edit, "" when it has none; None when they have another form."""
    if lines is None or lines == []:
        return ""
    rows = []
    for line in lines if isinstance(lines, list) else [None]:
        if not isinstance(line, dict):
            return None
        description, quantity, unit = (line.get(name) for name in ("description", "quantity", "unit_amount"))
        if not (isinstance(description, str) and isinstance(quantity, int) and isinstance(unit, int)):
            return None
        rows.append(TypedLine(description, str(quantity), editable_amount(unit, currency)))
    return dump_lines(rows)


def parse_lines(text: str, currency: str) -> list[dict[str, Any]]:
    """Return the lines to send. Raises ValueError with a sentence that names the line at fault."""
    rows = load_lines(text)
    if len(rows) > LINES_MAX:
        raise ValueError(f"An invoice has at most {LINES_MAX} lines.")
    parsed = []
    for number, row in enumerate(rows, 1):
        try:
            parsed.append(_parsed(row, currency))
        except ValueError as error:
            raise ValueError(f"Line {number}: {error}") from None
    total = _sum(parsed)
    if total < 1:
        raise ValueError("The sum of the lines must be more than zero.")
    if total > LARGEST_AMOUNT:
        raise ValueError(f"The largest sum is {format_amount(LARGEST_AMOUNT, currency)}.")
    return parsed


def sum_as_typed(rows: Iterable[TypedLine], currency: str | None) -> str:
    """Return the sum of the rows so far, to show under them while they are typed."""
    filled = [row for row in rows if not row.blank]
    if currency is None:
        return "choose an account first: its currency decides how amounts are read"
    parsed = []
    for row in filled:
        try:
            parsed.append(_parsed(row._replace(description="-"), currency))
        except ValueError:
            continue
    total = _sum(parsed)
    if total > LARGEST_AMOUNT:
        return (
            f"the sum is more than the largest amount, {format_amount(LARGEST_AMOUNT, currency)} {currency}"
        )
    missing = "" if len(parsed) == len(filled) else f" + {len(filled) - len(parsed)} not complete"
    return f"sum {format_amount(total, currency)} {currency}{missing}"


def _parsed(row: TypedLine, currency: str) -> dict[str, Any]:
    """Return the row as a line. Raises ValueError."""
    description, quantity = row.description.strip(), row.quantity.strip()
    if not description:
        raise ValueError("A description is required.")
    if not (quantity.isascii() and quantity.isdigit() and 1 <= int(quantity[:17]) <= LARGEST_AMOUNT):
        raise ValueError("The quantity must be a whole number, at least 1.")
    if not row.unit_amount.strip():
        raise BadAmount("A unit amount is required.")
    unit = parse_amount(row.unit_amount, currency, least=0)
    return {"description": description, "quantity": int(quantity), "unit_amount": unit}


def column_at_fault(row: TypedLine, currency: str) -> int | None:
    """Return the column of `TypedLine` that cannot be sent as it is, None where all can."""
    good = TypedLine("-", "1", "0")
    for column, value in enumerate(row):
        try:
            _parsed(TypedLine(*(*good[:column], value, *good[column + 1 :])), currency)
        except ValueError:
            return column
    return None


def _sum(lines: Iterable[dict[str, Any]]) -> int:
    return sum(line["quantity"] * line["unit_amount"] for line in lines)
