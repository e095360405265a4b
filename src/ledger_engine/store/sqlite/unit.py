"""The transaction of a work on a SQLite connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import cache
from typing import Any

from ledger_engine.core.clock import Clock
from ledger_engine.core.ids import IdSource
from ledger_engine.store import Columns, Parameters, Row, Value
from ledger_engine.store.group_cache import HoldingUnit
from ledger_engine.store.index_hashes import Prints
from ledger_engine.store.sql_words import described
from ledger_engine.store.sqlite import inspection

_NOTHING: Parameters = {}  # a dict, as sqlite3 accepts no MappingProxyType


class SqliteUnit(HoldingUnit):
    """The `Unit` of a SQLite connection."""

    __slots__ = ("_connection",)
    reads_indexes = True

    def __init__(self, connection: sqlite3.Connection, clock: Clock, ids: IdSource) -> None:
        super().__init__(clock, ids)
        self._connection = connection

    def execute(self, sql: str, parameters: Parameters = _NOTHING, /) -> list[Row]:
        if self._holders or self._rows:
            words, reads = described(sql)
            self._prepare(words, reads=reads)
        return self._run(sql, parameters)

    def first(self, sql: str, parameters: Parameters = _NOTHING, /) -> Row | None:
        rows = self.execute(sql, parameters)
        return rows[0] if rows else None

    def execute_many(self, sql: str, rows: list[dict[str, Value]], /) -> None:
        if self._holders or self._rows:
            words, reads = described(sql)
            self._prepare(words, reads=reads)
        self._run_many(sql, rows)

    def columns(
        self, expressions: Columns, source: str, parameters: Parameters = _NOTHING, /, *, longest: int = 0
    ) -> list[str]:
        selected = ", ".join(f"group_concat({each})" for each in expressions)
        with inspection.no_text_longer(self._connection, longest):
            row: Any = self.execute(f"SELECT {selected} FROM {source}", parameters)[0]
        return ["" if text is None else str(text) for text in row]

    def inspect(self, *, thorough: bool = True) -> list[str]:
        self.write_held()
        return inspection.inspect(self._connection, thorough=thorough)

    def prints(self) -> Prints:
        self.write_held()
        return inspection.prints(self._connection, self.note_read)

    def first_not_an_object(self, table: str, column: str) -> str | None:
        row = self.first(
            f"SELECT id FROM {table}"
            f" WHERE {column} IS NOT NULL"
            f" AND CASE WHEN json_valid({column}) THEN json_type({column}) <> 'object' ELSE 1 END LIMIT 1"
        )
        return None if row is None else str(row["id"])

    def version(self) -> int:
        (row,) = self._connection.execute("PRAGMA data_version").fetchall()
        return int(row[0])

    def _run(self, sql: str, parameters: Parameters, /) -> list[Row]:
        # Fetch all rows: an open cursor would keep the write-ahead log from shrinking.
        return self._connection.execute(sql, parameters).fetchall()

    def _run_many(self, sql: str, rows: list[dict[str, Value]], /) -> None:
        self._connection.executemany(sql, rows)

    def _insert(self, table: str, columns: Columns, rows: list[Sequence[Value]], /) -> None:
        self._connection.executemany(_insertion(table, columns), rows)


@cache
def _insertion(table: str, columns: Columns) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
