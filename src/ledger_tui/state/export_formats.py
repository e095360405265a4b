"""Records as lines of a file: unchanged as JSONL, or as CSV whose cells no spreadsheet evaluates. Pure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from ledger_tui.state.traffic import masked
from ledger_tui.state.window import Record

Format = Literal["csv", "jsonl"]

# A spreadsheet reads a cell that begins with one of these as a formula; some also with full-width signs.
_FORMULA_STARTS = frozenset("=+-@\t\r\n＝＋－＠")


def json_line(record: Record) -> str:
    """Return one record as a line of JSONL, with its secrets masked."""
    return masked(json.dumps(record)) + "\n"


def csv_lines(rows: Iterable[Sequence[str]]) -> str:
    """Return rows as CSV (RFC 4180: comma, CRLF, quotes doubled)."""
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()


def columns_of(records: Iterable[Record], known: Sequence[str] = ()) -> list[str]:
    """Return the fields of the records, in the order they are met, after those already known."""
    return list(dict.fromkeys([*known, *(name for record in records for name in record)]))


def csv_row(record: Record, columns: Sequence[str]) -> list[str]:
    """Return a record's cells; an absent or null field is empty, a nested value is JSON."""
    return [cell(record.get(column)) for column in columns]


def cell(value: Any) -> str:
    """Return a value as the text of a cell.

    Text that a spreadsheet would evaluate gets a `'` before it; numbers stay numbers.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = masked(text)
    return "'" + text if text[:1] in _FORMULA_STARTS and text else text


def format_of(file_name: str) -> Format | None:
    """Return the format that a file's name asks for, None for another name."""
    for suffix in ("csv", "jsonl"):
        if file_name.lower().endswith(f".{suffix}"):
            return "csv" if suffix == "csv" else "jsonl"
    return None
