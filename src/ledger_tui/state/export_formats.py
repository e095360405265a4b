"""Records as lines of a file: JSONL as they are, CSV with cells that a spreadsheet will not run. Pure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from ledger_tui.state.traffic import masked
from ledger_tui.state.window import Record

Format = Literal["csv", "jsonl"]

# A cell that begins so is a formula to a spreadsheet; the full-width signs are to some.
_FORMULA_STARTS = frozenset("=+-@\t\r\n＝＋－＠")


def json_line(record: Record) -> str:
    """One record as a line of JSONL; secrets in it are masked."""
    return masked(json.dumps(record)) + "\n"


def csv_lines(rows: Iterable[Sequence[str]]) -> str:
    """Rows as CSV (RFC 4180: comma, CRLF, quotes doubled)."""
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()


def columns_of(records: Iterable[Record], known: Sequence[str] = ()) -> list[str]:
    """The fields of the records, in the order they are met, after those already known."""
    return list(dict.fromkeys([*known, *(name for record in records for name in record)]))


def csv_row(record: Record, columns: Sequence[str]) -> list[str]:
    """A record's cells; an absent or null field is empty, what is nested is JSON."""
    return [cell(record.get(column)) for column in columns]


def cell(value: Any) -> str:
    """A value as the text of a cell. Text that a spreadsheet would run gets a `'` before it; numbers, which
    it cannot run, stay numbers."""
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
    """The format a file's name asks for, None for another."""
    for suffix in ("csv", "jsonl"):
        if file_name.lower().endswith(f".{suffix}"):
            return "csv" if suffix == "csv" else "jsonl"
    return None
