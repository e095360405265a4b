"""Reads the transactions of a CSV or JSON Lines file, for `post --file`.

The columns, or the names in each JSON object, are:

- `account`, an id or a whole name;
- `type`, credit or debit;
- `amount`, in the smallest unit as in exports and in the API, or instead `decimal_amount`, such as 12.50;
- optionally `description`, `destination`, and `currency`, which must be the currency of the account.

The other columns of an export are ignored. A row that is one side of a transfer is refused: an export
contains both sides, so the transfer would be posted twice.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledger_engine.core.money import MAX_AMOUNT

SUFFIXES = (".csv", ".jsonl")
ROWS_MAX = 100_000
_FILE_BYTES_MAX = 64_000_000
_DESCRIPTION_MAX = 500  # characters; the server has the same limit (docs/decisions.md#transactions-amount)
_USED = ("account", "type", "amount", "decimal_amount", "description", "destination", "currency")
_IGNORED = ("id", "object", "balance_after", "created", "livemode", "transfer", "reverses")
# An export writes a ' before a text that begins with one of these characters; `_cell` removes the '.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_DECIMAL_AMOUNT = re.compile(r"[0-9]{1,16}(?:\.[0-9]*)?|\.[0-9]+")
# A longer amount is cut to this many digits. MAX_AMOUNT has fewer digits, so the amount is still too large.
_DIGITS_MAX = 20


class BadFile(ValueError):
    """The whole file is refused, for instance because it is not UTF-8; the message is a full sentence."""


@dataclass(frozen=True, slots=True, order=True)
class RowFault:
    """A reason not to post the file; `line` is the faulty line, 0 for the whole file."""

    line: int
    message: str

    def __str__(self) -> str:
        return f"Line {self.line}: {self.message}" if self.line else self.message


@dataclass(frozen=True, slots=True)
class FileRow:
    """One transaction of the file. `amount` is an int in the smallest unit, or a decimal amount as text."""

    line: int
    account: str
    type: str
    amount: int | str
    description: str | None
    destination: str | None
    currency: str | None


@dataclass(frozen=True, slots=True)
class PostedContent:
    """The readable rows of a file, and its faults."""

    rows: list[FileRow]
    faults: list[RowFault]


def read_file(file: Path) -> PostedContent:
    """Return the rows and faults of a file. Raises BadFile if it cannot be read at all."""
    try:
        with file.open("rb") as text_file:
            content = text_file.read(_FILE_BYTES_MAX + 1)
        if len(content) > _FILE_BYTES_MAX:
            raise BadFile(f"The file is larger than {_FILE_BYTES_MAX // 1_000_000} MB. Split it.")
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadFile("The file is not UTF-8.") from None
    except OSError as error:
        raise BadFile(f"The file cannot be read: {error.strerror}.") from None
    return read_rows(file.name, text)


def read_rows(name: str, text: str) -> PostedContent:
    """Return the rows and faults of a text; `name` is the name of its file. Raises BadFile."""
    lines = _json_lines(text) if name.lower().endswith(".jsonl") else _csv_lines(text)
    content = PostedContent([], [])
    for line, values in lines:
        try:
            if isinstance(values, str):
                raise ValueError(values)
            content.rows.append(_row(line, values))
        except ValueError as error:
            content.faults.append(RowFault(line, str(error)))
        if len(content.rows) > ROWS_MAX:
            raise BadFile(f"The file has more than {ROWS_MAX:,} transactions. Split it.")
    if not content.rows and not content.faults:
        raise BadFile("The file has no transactions.")
    return content


def _csv_lines(text: str) -> Iterator[tuple[int, Mapping[str, Any] | str]]:
    """Yield the number of each line, and its values or a sentence about its fault. Raises BadFile."""
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        columns = reader.fieldnames or ()
        has_amount = "amount" in columns or "decimal_amount" in columns
        if "account" not in columns or "type" not in columns or not has_amount:
            raise BadFile("The first line must name the columns: account, type, amount or decimal_amount.")
        fault = _fault_of_names(columns)
        if fault is not None:
            raise BadFile(f"The first line: {fault}")
        for values in reader:
            if None in values or None in values.values():
                yield reader.line_num, "The line has another number of cells than the first line."
            else:
                yield reader.line_num, {name: _cell(name, value) for name, value in values.items() if value}
    except csv.Error as error:
        # Stop here, because the rest of the file cannot be divided into lines.
        yield reader.line_num, f"It is not CSV: {error}."


def _cell(name: str, value: str) -> Any:
    if value[:1] == "'" and value[1:].startswith(_FORMULA):
        value = value[1:]
    if name == "amount" and value.isascii() and value.isdigit():
        # Cut the text, because Python refuses to convert thousands of digits.
        return int(value.lstrip("0")[:_DIGITS_MAX] or "0")
    return value


def _json_lines(text: str) -> Iterator[tuple[int, Mapping[str, Any] | str]]:
    """Yield the number of each line, and its values or a sentence about its fault."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, _values_of(line)


def _values_of(line: str) -> Mapping[str, Any] | str:
    """Return the values of a line of JSON, or a sentence about its fault."""
    try:
        pairs = json.loads(line, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return "It is not JSON."
    if not isinstance(pairs, _Pairs):
        return "It is not a JSON object."
    fault = _fault_of_names([name for name, _ in pairs])
    return fault or {name: value for name, value in pairs if value is not None}


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as a list of its names and values. A dict would hide a name that occurs twice."""


def _fault_of_names(names: Iterable[str]) -> str | None:
    names_so_far = set[str]()
    for name in names:
        if name in names_so_far:
            return f"“{name}” is given twice."
        if name not in _USED and name not in _IGNORED:
            return f"“{name}” is not one of {', '.join(_USED)}."
        names_so_far.add(name)
    return None


def _row(line: int, values: Mapping[str, Any]) -> FileRow:
    """Return the transaction of a row. Raises ValueError with a sentence."""
    texts = {name: values.get(name) for name in _USED if name != "amount"}
    for name, value in texts.items():
        if value is not None and not isinstance(value, str):
            raise ValueError(f"{name} must be a text.")
        if value is not None and not _can_be_sent(value):
            raise ValueError(f"{name} has an invalid character.")
    if values.get("transfer"):
        raise ValueError("It is a side of a transfer; write account and destination once, without transfer.")
    if not texts["account"]:
        raise ValueError("An account is required.")
    if texts["type"] not in ("credit", "debit"):
        raise ValueError("The type must be credit or debit.")
    if len(texts["description"] or "") > _DESCRIPTION_MAX:
        raise ValueError(f"The description has more than {_DESCRIPTION_MAX} characters.")
    rest = (texts[name] or None for name in ("description", "destination", "currency"))
    return FileRow(line, str(texts["account"]), str(texts["type"]), _amount(values), *rest)


def _amount(values: Mapping[str, Any]) -> int | str:
    """Return the amount of a row, or the text of its decimal amount. Raises ValueError with a sentence."""
    amount, decimal_amount = values.get("amount"), values.get("decimal_amount")
    if isinstance(amount, str | float):
        raise ValueError(
            f"“{amount}” is not a whole number of the smallest unit. An amount like 12.50 belongs in the"
            " column decimal_amount."
        )
    if (amount is None) == (decimal_amount is None):
        raise ValueError("Give either amount or decimal_amount.")
    if amount is None:
        return str(decimal_amount)
    if not isinstance(amount, int) or isinstance(amount, bool) or amount < 1:
        raise ValueError("The amount must be a whole number of the smallest unit, at least 1.")
    if amount > MAX_AMOUNT:
        raise ValueError("The amount is too large.")
    return amount


def _can_be_sent(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def in_smallest_unit(decimal_amount: str, currency: str, decimals: int) -> int:
    """Return a decimal amount in the smallest unit: 1250 for `12.50` in a currency with 2 decimals.

    Raises ValueError with a sentence.
    """
    text = decimal_amount.strip()
    example = "12." + "50000"[:decimals] if decimals else "1250"
    if not _DECIMAL_AMOUNT.fullmatch(text):
        raise ValueError(f"“{decimal_amount}” is not an amount like {example}, without thousands separators.")
    whole, _, fraction = text.partition(".")
    if len(fraction) > decimals:
        count = {0: "no decimals", 1: "one decimal"}.get(decimals, f"{decimals} decimals")
        raise ValueError(f"“{decimal_amount}” is too exact: {currency} has {count}.")
    amount = int(whole + fraction.ljust(decimals, "0"))
    if amount < 1:
        raise ValueError("The amount must be more than zero.")
    if amount > MAX_AMOUNT:
        raise ValueError("The amount is too large.")
    return amount
