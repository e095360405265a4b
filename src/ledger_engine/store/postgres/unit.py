"""The transaction of a work on a PostgreSQL connection."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ledger_engine.core.clock import Clock
from ledger_engine.core.ids import IdSource
from ledger_engine.store import Columns, Parameters, Row, Value
from ledger_engine.store.group_cache import HoldingUnit
from ledger_engine.store.index_hashes import Prints
from ledger_engine.store.postgres import inspection, values
from ledger_engine.store.postgres.connection import Connection
from ledger_engine.store.postgres.rendering import Statement, insertion, rendered

_NOTHING: Parameters = {}
_ROWS_AT_ONCE = 20_000
_KNOWS_JSON = 160_000  # from this version on
_INSERTED_AT_ONCE = 2000  # rows in one statement
_NUMERIC_COLUMNS = rendered(
    "SELECT column_name AS name FROM information_schema.columns WHERE table_schema = current_schema()"
    " AND table_name = :table AND data_type = 'bigint'"
)
_KEYS = {"transactions": "book, id", "events": "book, id"}

Numeric = dict[str, frozenset[str]]  # the columns of whole numbers, by the table; kept for all units


class PostgresUnit(HoldingUnit):
    """The `Unit` of a PostgreSQL connection.

    What a work writes is sent on ahead. An error of such a statement comes up with the next result.
    """

    __slots__ = ("_connection", "_numeric", "_others")
    reads_indexes = False

    def __init__(
        self, connection: Connection, clock: Clock, ids: IdSource, numeric: Numeric, others: int = 0
    ) -> None:
        super().__init__(clock, ids)
        self._connection = connection
        self._numeric = numeric
        self._others = others  # the time that other servers had reached before

    def execute(self, sql: str, parameters: Parameters = _NOTHING, /) -> list[Row]:
        statement = rendered(sql)
        if not statement.reads:
            self.wrote = True
        self._prepare(statement.words, reads=statement.reads)
        return self._rows_of(statement, parameters)

    def first(self, sql: str, parameters: Parameters = _NOTHING, /) -> Row | None:
        rows = self.execute(sql, parameters)
        return rows[0] if rows else None

    def execute_many(self, sql: str, rows: list[dict[str, Value]], /) -> None:
        statement = rendered(sql)
        self.wrote = True
        self._prepare(statement.words, reads=False)
        self._send_each(statement, rows)

    def columns(
        self, expressions: Columns, source: str, parameters: Parameters = _NOTHING, /, *, longest: int = 0
    ) -> list[str]:
        key = _KEYS.get(source.split(maxsplit=1)[0], "id")
        rows = self.execute(f"SELECT {', '.join(expressions)} FROM {source} ORDER BY {key}", parameters)
        return [
            ",".join([str(row[column]) for row in rows if row[column] is not None])
            for column in range(len(expressions))
        ]

    def inspect(self, *, thorough: bool = True) -> list[str]:
        return [] if thorough else inspection.faults(self._connection)

    def prints(self) -> Prints | None:
        return None

    def first_not_an_object(self, table: str, column: str) -> str | None:
        if self._connection.server_version < _KNOWS_JSON:
            return self._first_no_object(table, column)
        row = self.first(
            f"SELECT id FROM {table} WHERE {column} IS NOT NULL AND {column} IS NOT JSON OBJECT LIMIT 1"
        )
        return None if row is None else str(row["id"])

    def _first_no_object(self, table: str, column: str) -> str | None:
        """Do the same for a database that does not know `IS JSON`."""
        key = _KEYS.get(table, "id")
        after: dict[str, Value] = {"book": -(2**63), "id": ""}
        given = ", ".join(f":{name}" for name in key.split(", "))
        page = (
            f"SELECT {key}, {column} AS text FROM {table} WHERE {column} IS NOT NULL AND ({key}) > ({given})"
            f" ORDER BY {key} LIMIT {_ROWS_AT_ONCE}"
        )
        while rows := self.execute(page, after):
            for row in rows:
                if not _is_object(row["text"]):
                    return str(row["id"])
            after |= {name: rows[-1][name] for name in key.split(", ")}
        return None

    def version(self) -> int:
        return self._others

    def _run(self, sql: str, parameters: Parameters, /) -> list[Row]:
        return self._rows_of(rendered(sql), parameters)

    def _run_many(self, sql: str, rows: list[dict[str, Value]], /) -> None:
        self._send_each(rendered(sql), rows)

    def _rows_of(self, statement: Statement, parameters: Parameters) -> list[Row]:
        if not statement.has_rows:
            self._connection.send(statement, parameters)
            return []
        found: list[Any] = self._connection.rows(statement, parameters)
        return found

    def _send_each(self, statement: Statement, rows: list[dict[str, Value]]) -> None:
        for row in rows:
            self._connection.send(statement, row)

    def _insert(self, table: str, columns: Columns, rows: list[Sequence[Value]], /) -> None:
        if len(rows) == 1:
            self._connection.put(insertion(table, columns, None), rows[0])
            return
        numeric = self._numeric.get(table)
        if numeric is None:
            found = self._connection.rows(_NUMERIC_COLUMNS, {"table": table})
            numeric = self._numeric[table] = frozenset(row["name"] for row in found)
        statement, types = insertion(table, columns, numeric), (values.UNKNOWN,) * len(columns)
        for first in range(0, len(rows), _INSERTED_AT_ONCE):
            part = rows[first : first + _INSERTED_AT_ONCE]
            arrays = [values.array(column) for column in zip(*part, strict=True)]
            self._connection.put_dumped(statement, arrays, types)


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
