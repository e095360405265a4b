"""The `Unit` through which works read and write over a PostgreSQL connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ledger_engine.core.clock import Clock
from ledger_engine.core.ids import IdSource
from ledger_engine.store import Columns, Parameters, Row, Value
from ledger_engine.store.group_cache import NOTHING, CachingUnit
from ledger_engine.store.postgres import rendering
from ledger_engine.store.postgres.connection import PostgresConnection
from ledger_engine.store.postgres.rendering import SqlStatement, insertion, rendered

_SAVEPOINT, _RELEASE = rendered("SAVEPOINT work"), rendered("RELEASE SAVEPOINT work")
_UNDO = rendered("ROLLBACK TO SAVEPOINT work")
_INSERTED_AT_ONCE = 2000  # rows in one statement
_NUMERIC_COLUMNS = rendered(
    "SELECT column_name AS name FROM information_schema.columns WHERE table_schema = current_schema()"
    " AND table_name = :table AND data_type = 'bigint'"
)

Numeric = dict[str, frozenset[str]]  # for each table, its columns of whole numbers; all units share this


class PostgresUnit(CachingUnit):
    """The `Unit` of a PostgreSQL connection.

    It does not wait for the results of statements that write. If such a statement fails, the next statement
    that returns rows raises the error, or the commit raises it.
    """

    __slots__ = ("_connection", "_numeric")

    def __init__(self, connection: PostgresConnection, clock: Clock, ids: IdSource, numeric: Numeric) -> None:
        super().__init__(clock, ids)
        self._connection = connection
        self._numeric = numeric

    def set_savepoint(self) -> None:
        self._connection.send(_SAVEPOINT)

    def release_savepoint(self) -> None:
        if self.wrote:
            self.flush()
            self._connection.settle()
        self._connection.send(_RELEASE)

    def undo_savepoint(self) -> None:
        self._connection.settle_quietly()
        self._connection.send(_UNDO)
        self._connection.send(_RELEASE)

    def execute(self, sql: str, parameters: Parameters = NOTHING, /) -> list[Row]:
        statement = rendered(sql)
        if not statement.reads:
            self.wrote = True
        self._prepare(statement.words, reads=statement.reads)
        return self._rows_of(statement, parameters)

    def execute_together(
        self, sql: str, columns: Columns, parameters: Parameters = NOTHING, /
    ) -> list[Sequence[Any]]:
        return [tuple(row) for row in self.execute(sql, parameters)]

    def execute_many(self, sql: str, rows: list[dict[str, Value]], /) -> None:
        statement = rendered(sql)
        self.wrote = True
        self._prepare(statement.words, reads=False)
        self._send_each(statement, rows)

    def _run(self, sql: str, parameters: Parameters, /) -> list[Row]:
        return self._rows_of(rendered(sql), parameters)

    def _run_many(self, sql: str, rows: list[dict[str, Value]], /) -> None:
        self._send_each(rendered(sql), rows)

    def _rows_of(self, statement: SqlStatement, parameters: Parameters) -> list[Row]:
        if not statement.has_rows:
            self._connection.send(statement, parameters)
            return []
        rows: list[Any] = self._connection.rows(statement, parameters)
        return rows

    def _send_each(self, statement: SqlStatement, rows: list[dict[str, Value]]) -> None:
        for row in rows:
            self._connection.send(statement, row)

    def _insert(self, table: str, columns: Columns, rows: list[Sequence[Value]], /) -> None:
        if len(rows) == 1:
            self._connection.put(insertion(table, columns, None), rows[0])
            return
        numeric = self._numeric.get(table)
        if numeric is None:
            numeric_columns = self._connection.rows(_NUMERIC_COLUMNS, {"table": table})
            numeric = self._numeric[table] = frozenset(row["name"] for row in numeric_columns)
        statement, types = insertion(table, columns, numeric), (rendering.UNKNOWN,) * len(columns)
        for first in range(0, len(rows), _INSERTED_AT_ONCE):
            part = rows[first : first + _INSERTED_AT_ONCE]
            arrays = [rendering.array(column) for column in zip(*part, strict=True)]
            self._connection.put_dumped(statement, arrays, types)
