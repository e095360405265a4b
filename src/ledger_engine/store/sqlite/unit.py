"""The transaction of a work on a SQLite connection."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from functools import cache
from typing import Any

from ledger_engine.core.clock import Clock
from ledger_engine.core.ids import IdSource
from ledger_engine.store import Columns, Parameters, Row, Value
from ledger_engine.store.group_cache import NOTHING, CachingUnit
from ledger_engine.store.sql_text import described

# The most rows that one statement inserts; a power of two. During each statement the writer releases the
# interpreter's lock, and while the event loop is busy the writer must wait to get the lock back. In a
# measurement with 32 connections, the server posted a tenth fewer transactions with statements of one row
# than with statements of 64 rows.
ROWS_AT_ONCE = 64


class SqliteUnit(CachingUnit):
    """The `Unit` of a SQLite connection."""

    __slots__ = ("_changes_before", "_connection", "_newest_before", "newest_event")

    def __init__(self, connection: sqlite3.Connection, clock: Clock, ids: IdSource) -> None:
        super().__init__(clock, ids)
        self._connection = connection
        self._changes_before = 0
        self.newest_event = self._newest_before = ""  # the greatest id of an inserted event

    def begin_work(self) -> None:
        super().begin_work()
        self._changes_before = self._connection.total_changes

    @property
    def has_written(self) -> bool:
        return self.wrote or self._connection.total_changes != self._changes_before

    def set_savepoint(self) -> None:
        self._newest_before = self.newest_event
        self._connection.execute("SAVEPOINT work")

    def release_savepoint(self) -> None:
        self.flush()
        self._connection.execute("RELEASE work")

    def undo_savepoint(self) -> None:
        self.newest_event = self._newest_before
        self._connection.execute("ROLLBACK TO work")
        self._connection.execute("RELEASE work")

    def execute(self, sql: str, parameters: Parameters = NOTHING, /) -> list[Row]:
        if self._tables or self._rows:
            words, reads = described(sql)
            self._prepare(words, reads=reads)
        return self._run(sql, parameters)

    def execute_together(
        self, sql: str, columns: Columns, parameters: Parameters = NOTHING, /
    ) -> list[Sequence[Any]]:
        rows: list[Sequence[Any]] = json.loads(self.execute(_together(sql, columns), parameters)[0][0])
        return rows

    def execute_many(self, sql: str, rows: list[dict[str, Value]], /) -> None:
        if self._tables or self._rows:
            words, reads = described(sql)
            self._prepare(words, reads=reads)
        self._run_many(sql, rows)

    def _run(self, sql: str, parameters: Parameters, /) -> list[Row]:
        # Fetch all rows: an open cursor would keep the write-ahead log from shrinking.
        return self._connection.execute(sql, parameters).fetchall()

    def _run_many(self, sql: str, rows: list[dict[str, Value]], /) -> None:
        self._connection.executemany(sql, rows)

    def _insert(self, table: str, columns: Columns, rows: list[Sequence[Value]], /) -> None:
        if table == "events":
            at = columns.index("id")
            self.newest_event = max(self.newest_event, *(str(row[at]) for row in rows))
        first = 0
        while first < len(rows):
            # Powers of two keep the number of prepared statements small.
            number = min(ROWS_AT_ONCE, 1 << (len(rows) - first).bit_length() - 1)
            values = [value for row in rows[first : first + number] for value in row]
            self._connection.execute(_insertion(table, columns, number), values)
            first += number


class ReadingUnit(SqliteUnit):
    """The `Unit` of a read-only connection. Its statements change nothing, so they never clear the cache."""

    __slots__ = ()

    def execute(self, sql: str, parameters: Parameters = NOTHING, /) -> list[Row]:
        return self._run(sql, parameters)


@cache
def _together(sql: str, columns: Columns) -> str:
    names = ", ".join(f'"{column}"' for column in columns)
    return (
        f"WITH one_by_one ({names}) AS ({sql}) SELECT json_group_array(json_array({names})) FROM one_by_one"
    )


@cache
def _insertion(table: str, columns: Columns, rows: int) -> str:
    row = f"({', '.join('?' * len(columns))})"
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([row] * rows)}"
