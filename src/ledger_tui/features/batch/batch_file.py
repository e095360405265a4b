"""Transactions read from a CSV or JSONL file. Pure; the accounts are still what the file calls them.

The columns, or the names in each JSON object, are `account` (an id or a name), `type` (credit or debit),
either `amount` (in the smallest unit, as exports and the API write it) or `decimal_amount` (such as 12.50),
and where wanted `description` and `destination`. The other columns of an export are passed over, but
`currency` must be the account's, and a side of a transfer is refused: the transfer would be made twice.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

ROWS_MOST = 100_000
PROBLEMS_SAID = 5
_USED = ("account", "type", "amount", "decimal_amount", "description", "destination", "currency")
_PASSED_OVER = ("id", "object", "balance_after", "created", "livemode", "transfer", "reverses")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # an export writes a ' before them


class BadFile(ValueError):
    """The file cannot be posted; the message is a sentence for each problem, one below the other."""


@dataclass(frozen=True, slots=True)
class FileRow:
    """One transaction of the file. `amount` is an int, or the text of a decimal amount."""

    line: int
    account: str
    type: str
    amount: int | str
    description: str | None
    destination: str | None
    currency: str | None


def read_rows(name: str, text: str) -> list[FileRow]:
    """Return the transactions of a file. Raises BadFile."""
    lines = _json_lines(text) if name.lower().endswith(".jsonl") else _csv_lines(text)
    rows: list[FileRow] = []
    problems: list[str] = []
    for line, values in lines:
        try:
            rows.append(_row(line, values))
        except ValueError as error:
            problems.append(f"Line {line}: {error}")
            if len(problems) > PROBLEMS_SAID:
                break
        if len(rows) > ROWS_MOST:
            raise BadFile(f"The file has more than {ROWS_MOST:,} transactions.")
    if problems:
        more = ["There are more."] if len(problems) > PROBLEMS_SAID else []
        raise BadFile("\n".join([*problems[:PROBLEMS_SAID], *more]))
    if not rows:
        raise BadFile("The file has no transactions.")
    return rows


def _csv_lines(text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        columns = reader.fieldnames or ()
        missing = [name for name in ("account", "type") if name not in columns]
        if missing or not {"amount", "decimal_amount"} & set(columns):
            raise BadFile("The first line must name the columns: account, type, amount or decimal_amount.")
        _check_names(columns)
        for values in reader:
            if None in values or None in values.values():
                raise BadFile(f"Line {reader.line_num}: it has another number of cells than the first line.")
            yield reader.line_num, {name: _cell(name, value) for name, value in values.items() if value}
    except csv.Error as error:
        raise BadFile(f"Line {reader.line_num}: it is not CSV: {error}.") from None


def _cell(name: str, value: str) -> Any:
    if value[:1] == "'" and value[1:].startswith(_FORMULA):
        value = value[1:]
    return int(value) if name == "amount" and value.isascii() and value.isdigit() else value


def _json_lines(text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            values = json.loads(line, object_pairs_hook=_once)
        except BadFile as error:
            raise BadFile(f"Line {number}: {error}") from None
        except (ValueError, RecursionError):
            raise BadFile(f"Line {number}: it is not JSON.") from None
        if not isinstance(values, dict):
            raise BadFile(f"Line {number}: it is no JSON object.")
        _check_names(values, f"Line {number}: ")
        yield number, {name: value for name, value in values.items() if value is not None}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object. Raises BadFile for a name that is there twice."""
    values = dict(pairs)
    if len(values) != len(pairs):
        raise BadFile("a name is given twice.")
    return values


def _check_names(names: Any, where: str = "") -> None:
    unknown = [name for name in names if name not in (*_USED, *_PASSED_OVER)]
    if unknown:
        raise BadFile(f"{where}“{unknown[0]}” is not one of {', '.join(_USED)}.")


def _row(line: int, values: Mapping[str, Any]) -> FileRow:
    """Return a transaction. Raises ValueError with a sentence."""
    texts = {name: values.get(name) for name in _USED if name != "amount"}
    for name, value in texts.items():
        if value is not None and not isinstance(value, str):
            raise ValueError(f"{name} must be a text.")
        if value is not None and not _can_be_sent(value):
            raise ValueError(f"{name} holds half of a character.")
    if values.get("transfer"):
        raise ValueError("It is a side of a transfer; write account and destination once, without transfer.")
    if not texts["account"]:
        raise ValueError("An account is required.")
    if texts["type"] not in ("credit", "debit"):
        raise ValueError("The type must be credit or debit.")
    amount = values.get("amount")
    if isinstance(amount, str):
        raise ValueError(f"“{amount}” is not in the smallest unit; 12.50 is written under decimal_amount.")
    if (amount is None) == (texts["decimal_amount"] is None):
        raise ValueError("Give either amount or decimal_amount.")
    if amount is not None and (not isinstance(amount, int) or isinstance(amount, bool) or amount < 1):
        raise ValueError("The amount must be a whole number of the smallest unit, at least 1.")
    return FileRow(
        line,
        str(texts["account"]),
        str(texts["type"]),
        amount if amount is not None else str(texts["decimal_amount"]),
        texts["description"],
        texts["destination"],
        texts["currency"],
    )


def _can_be_sent(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
