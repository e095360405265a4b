"""Statements of the packages above as PostgreSQL reads them: numbered parameters, and no hints for SQLite."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ledger_engine.store.sql_words import KEPT, described

_PARTS = re.compile(
    r"(?P<text>'(?:[^']|'')*')"
    r"|(?P<cast>::)"
    r"|:(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<hint>\s+NOT INDEXED\b|\bCROSS (?=JOIN \w+ AS \w+\s+ON\b))",
)
_BY_TYPE = re.compile(r" INDEXED BY transactions_by_type WHERE type = :type AND book = ")
_OF_TYPE = " WHERE type || book = :type || "  # as in the index, which is on an expression here
_RETURNS = re.compile(r"\bRETURNING\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """A statement and the names of its parameters, in the order of their numbers.

    `reads` says that it changes nothing, `has_rows` that it has a result to wait for; `words` has the names
    of its tables among others.
    """

    text: bytes
    names: tuple[str, ...]
    reads: bool
    has_rows: bool
    words: frozenset[str] = frozenset()


@lru_cache(maxsize=KEPT)
def rendered(sql: str) -> Statement:
    """Return a statement with `:name` parameters as PostgreSQL reads it."""
    numbers: dict[str, int] = {}

    def part(match: re.Match[str]) -> str:
        if (name := match["name"]) is not None:
            return f"${numbers.setdefault(name, len(numbers) + 1)}"
        return "" if match["hint"] else match[0]

    text = _PARTS.sub(part, _BY_TYPE.sub(_OF_TYPE, sql))
    words, reads = described(sql)
    has_rows = reads or _RETURNS.search(sql) is not None
    return Statement(text.encode(), tuple(numbers), reads, has_rows, words)


@lru_cache(maxsize=256)
def insertion(table: str, columns: tuple[str, ...], numeric: frozenset[str] | None) -> Statement:
    """Return the statement that inserts a row, or many with the values of each column as an array.

    `numeric` has the columns of whole numbers; None is for one row.
    """
    if numeric is None:
        values = f"VALUES ({', '.join(f'${number}' for number in range(1, len(columns) + 1))})"
    else:
        arrays = ", ".join(
            f"${number}::{'bigint' if column in numeric else 'text'}[]"
            for number, column in enumerate(columns, 1)
        )
        values = f"SELECT * FROM unnest({arrays})"
    sql = f"INSERT INTO {table} ({', '.join(columns)}) {values}"
    return Statement(sql.encode(), columns, False, False, frozenset([table]))
