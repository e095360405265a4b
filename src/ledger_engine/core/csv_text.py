"""CSV that is safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

_STARTS_A_FORMULA = tuple("=+-@\t\r\n＝＋－＠")  # some spreadsheets also accept the full-width signs


def as_text(cell: str) -> str:
    """Return the text of a cell, with a ' in front if a spreadsheet would read the text as a formula.

    Call this only for texts that callers wrote. The ledger's own negative numbers also begin with a sign, but
    must stay numbers.
    """
    return "'" + cell if cell.startswith(_STARTS_A_FORMULA) else cell


def csv_rows(rows: Iterable[tuple[str | int | None, ...]]) -> str:
    """Return the rows as lines of CSV; None is an empty cell."""
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()
