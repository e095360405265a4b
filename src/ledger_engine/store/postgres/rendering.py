"""Renders statements and values for PostgreSQL: `:name` becomes `$1`, and hints for SQLite are removed.

Values are whole numbers, text, and NULL. All whole numbers are sent as int8, so one prepared statement serves
all values. `store/sql_text.py` explains the one character that PostgreSQL's text cannot contain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from psycopg.pq.abc import PGresult

from ledger_engine.store import Value
from ledger_engine.store.sql_text import KEPT, described, restored, substituted

_PLACEHOLDERS = re.compile(
    r"(?P<text>'(?:[^']|'')*')"
    r"|(?P<cast>::)"
    r"|:(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<hint>\s+NOT INDEXED\b|\bCROSS (?=JOIN \w+ AS \w+\s+ON\b))",
)
_BY_TYPE = re.compile(r" INDEXED BY transactions_by_type WHERE type = :type AND book = ")
_OF_TYPE = " WHERE type || book = :type || "  # the expression of the index `transactions_by_type`
_RETURNS = re.compile(r"\bRETURNING\b", re.IGNORECASE)
INT8, INT8_ARRAY, TEXT, UNKNOWN = 20, 1016, 25, 0  # PostgreSQL's numbers of these types
_BOOL, _INT2, _INT4, _NUMERIC = 16, 21, 23, 1700
_FLOATS = (700, 701)


@dataclass(frozen=True, slots=True, eq=False)
class SqlStatement:
    """A statement and the names of its parameters, in the order of their numbers.

    `reads` is true if the statement changes nothing, and `has_rows` is true if the statement returns rows.
    `words` are the words of the statement, including the names of its tables.
    """

    text: bytes
    names: tuple[str, ...]
    reads: bool
    has_rows: bool
    words: frozenset[str] = frozenset()


@lru_cache(maxsize=KEPT)
def rendered(sql: str) -> SqlStatement:
    """Return PostgreSQL's form of a statement with `:name` parameters."""
    numbers: dict[str, int] = {}

    def replacement(match: re.Match[str]) -> str:
        if (name := match["name"]) is not None:
            return f"${numbers.setdefault(name, len(numbers) + 1)}"
        return "" if match["hint"] else match[0]

    text = _PLACEHOLDERS.sub(replacement, _BY_TYPE.sub(_OF_TYPE, sql))
    words, reads = described(sql)
    has_rows = reads or _RETURNS.search(sql) is not None
    return SqlStatement(text.encode(), tuple(numbers), reads, has_rows, words)


@lru_cache(maxsize=256)
def insertion(table: str, columns: tuple[str, ...], numeric: frozenset[str] | None) -> SqlStatement:
    """Return a statement that inserts rows.

    If `numeric` is None, the statement inserts one row, and each parameter is a value. Otherwise the
    statement inserts any number of rows, and each parameter is an array with the values of one column.
    `numeric` then contains the names of the columns of whole numbers, which determine the types of the
    arrays.
    """
    if numeric is None:
        rows = f"VALUES ({', '.join(f'${number}' for number in range(1, len(columns) + 1))})"
    else:
        arrays = ", ".join(
            f"${number}::{'bigint' if column in numeric else 'text'}[]"
            for number, column in enumerate(columns, 1)
        )
        rows = f"SELECT * FROM unnest({arrays})"
    sql = f"INSERT INTO {table} ({', '.join(columns)}) {rows}"
    return SqlStatement(sql.encode(), columns, False, False, frozenset([table]))


def dumped(value: Value) -> bytes | None:
    """Return a value in PostgreSQL's text form."""
    if value is None:
        return None
    if isinstance(value, str):
        return substituted(value).encode()
    return b"%d" % value  # int or bool


def type_of(value: Value) -> int:
    """Return PostgreSQL's number of a value's type.

    For None this is UNKNOWN, with which PostgreSQL chooses the type from the statement.
    """
    if value is None:
        return UNKNOWN
    return TEXT if value.__class__ is str else INT8


def array(values: Sequence[Value]) -> bytes:
    """Return the values of one column as an array in PostgreSQL's text form."""
    return b"{" + b",".join([element(value) for value in values]) + b"}"


def element(value: Value) -> bytes:
    """Return a value in the form of an array's element."""
    if value is None:
        return b"NULL"
    if not isinstance(value, str):
        return b"%d" % value
    return b'"' + substituted(value).encode().replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


class RenderedRow(tuple[Any, ...]):
    """A row of a result, by column name or position. `rows_of` returns such rows."""

    __slots__ = ()
    _index: dict[str, int] = {}

    def __getitem__(self, key: Any) -> Any:
        return tuple.__getitem__(self, self._index[key] if key.__class__ is str else key)

    def keys(self) -> list[str]:
        """Return the names of the columns."""
        return list(self._index)

    def __iter__(self) -> Iterator[Any]:
        return tuple.__iter__(self)


def rows_of(result: PGresult) -> list[RenderedRow]:
    """Return the rows of a result."""
    count = result.ntuples
    if not count:
        return []
    columns = range(result.nfields)
    names = tuple([result.fname(column) or b"" for column in columns])
    loads = [_LOADS.get(result.ftype(column), _load_text) for column in columns]
    make, get = _row_class(names), result.get_value
    if count == 1:
        return [make([loads[column](get(0, column)) for column in columns])]
    return [make([loads[column](get(row, column)) for column in columns]) for row in range(count)]


@cache
def _row_class(names: tuple[bytes, ...]) -> type[RenderedRow]:
    # If two columns have the same name, the name means the first of them.
    index = {name.decode(): position for position, name in reversed(list(enumerate(names)))}
    index = dict(reversed(index.items()))
    return type("Row", (RenderedRow,), {"_index": index, "__slots__": ()})


def _load_int(value: bytes | None) -> int | None:
    return None if value is None else int(value)


def _load_text(value: bytes | None) -> str | None:
    return None if value is None else restored(value.decode())


def _load_bool(value: bytes | None) -> int | None:
    return None if value is None else int(value == b"t")


def _load_numeric(value: bytes | None) -> int | float | None:
    if value is None:
        return None
    return float(value) if b"." in value else int(value)  # a sum of whole numbers has no point


def _load_float(value: bytes | None) -> float | None:
    return None if value is None else float(value)


_LOADS: dict[int, Callable[[bytes | None], Any]] = {
    INT8: _load_int, _INT2: _load_int, _INT4: _load_int, _BOOL: _load_bool, _NUMERIC: _load_numeric,
    **dict.fromkeys(_FLOATS, _load_float),
}  # fmt: skip
