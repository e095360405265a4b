"""The transaction of a work on a SQLite connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from typing import cast

from ledger_engine.core.clock import Clock
from ledger_engine.core.ids import IdSource
from ledger_engine.core.tenant import Tenant
from ledger_engine.database import Columns, G, Gathered, Parameters, Prints, Row, Unit, Value, inspection

_NOTHING: Parameters = {}  # a dict, as sqlite3 accepts no MappingProxyType


class SqliteUnit:
    """The `Unit` of a work that has a transaction for itself."""

    __slots__ = ("_connection", "_clock", "_ids", "_now", "_topics")

    def __init__(self, connection: sqlite3.Connection, clock: Clock, ids: IdSource) -> None:
        self._connection = connection
        self._clock = clock
        self._ids = ids
        self._now = clock.now()
        self._topics: set[str] = set()

    @property
    def now(self) -> int:
        return self._now

    def execute(self, sql: str, parameters: Parameters = _NOTHING, /) -> list[Row]:
        # Fetch all rows: an open cursor would keep the write-ahead log from shrinking.
        return self._connection.execute(sql, parameters).fetchall()

    def first(self, sql: str, parameters: Parameters = _NOTHING, /) -> Row | None:
        rows = self._connection.execute(sql, parameters).fetchall()
        return rows[0] if rows else None

    def execute_many(self, sql: str, rows: list[dict[str, Value]], /) -> None:
        self._connection.executemany(sql, rows)

    def insert_many(self, table: str, columns: Columns, rows: Sequence[Sequence[Value]], /) -> None:
        self._connection.executemany(_insert(table, columns), rows)

    def held(self, table: str, tenant: Tenant, id: str = "") -> None:
        return None

    def hold(self, table: str, tenant: Tenant, id: str, value: object) -> None:
        pass

    def put_many(
        self,
        table: str,
        sql: str,
        tenant: Tenant,
        values: Mapping[str, object],
        rows: list[dict[str, Value]],
        /,
    ) -> None:
        self._connection.executemany(sql, rows)

    def new_id(self, prefix: str) -> str:
        return self._ids.new(prefix, self._now)

    def columns(self, expressions: Columns, source: str, parameters: Parameters = _NOTHING, /) -> list[str]:
        selected = ", ".join(f"group_concat({each})" for each in expressions)
        (row,) = self._connection.execute(f"SELECT {selected} FROM {source}", parameters).fetchall()
        return ["" if text is None else str(text) for text in row]

    def inspect(self, *, thorough: bool = True) -> list[str]:
        return inspection.inspect(self._connection, thorough=thorough)

    def prints(self, report: Callable[[int], None], /) -> Prints | None:
        return inspection.prints(self._connection, report)

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

    def gather(self, key: Hashable, make: Callable[[Unit], G], /) -> G | None:
        return None

    @property
    def apart(self) -> SqliteUnit:
        return self

    def announce(self, topic: str) -> None:
        self._topics.add(topic)


class GroupUnit(SqliteUnit):
    """The `Unit` for the works of one group, one after the other."""

    __slots__ = ("_apart", "_gathered")

    def __init__(self, connection: sqlite3.Connection, clock: Clock, ids: IdSource) -> None:
        super().__init__(connection, clock, ids)
        self._apart = SqliteUnit(connection, clock, ids)
        self._gathered: dict[Hashable, Gathered] = {}

    def begin_work(self) -> None:
        """Start the next work of the group, with its own time and an empty list of topics."""
        self._now = self._apart._now = self._clock.now()
        self._topics = self._apart._topics = set()

    def topics(self) -> set[str]:
        """Return the topics that the work announced."""
        return self._topics

    def gather(self, key: Hashable, make: Callable[[Unit], G], /) -> G | None:
        found = self._gathered.get(key)
        if found is None:
            found = self._gathered[key] = make(self._apart)
        return cast(G, found)

    def write_gathered(self) -> None:
        """Write what the works have gathered."""
        gathered, self._gathered = self._gathered, {}
        for each in gathered.values():
            each.write()

    def forget_gathered(self) -> None:
        """Drop what the works have gathered, as they are rolled back."""
        self._gathered = {}

    @property
    def apart(self) -> SqliteUnit:
        return self._apart

    def execute(self, sql: str, parameters: Parameters = _NOTHING, /) -> list[Row]:
        return self._up_to_date().execute(sql, parameters)

    def first(self, sql: str, parameters: Parameters = _NOTHING, /) -> Row | None:
        return self._up_to_date().first(sql, parameters)

    def execute_many(self, sql: str, rows: list[dict[str, Value]], /) -> None:
        self._up_to_date().execute_many(sql, rows)

    def insert_many(self, table: str, columns: Columns, rows: Sequence[Sequence[Value]], /) -> None:
        self._up_to_date().insert_many(table, columns, rows)

    def put_many(
        self,
        table: str,
        sql: str,
        tenant: Tenant,
        values: Mapping[str, object],
        rows: list[dict[str, Value]],
        /,
    ) -> None:
        self._up_to_date().put_many(table, sql, tenant, values, rows)

    def columns(self, expressions: Columns, source: str, parameters: Parameters = _NOTHING, /) -> list[str]:
        return self._up_to_date().columns(expressions, source, parameters)

    def inspect(self, *, thorough: bool = True) -> list[str]:
        return self._up_to_date().inspect(thorough=thorough)

    def prints(self, report: Callable[[int], None], /) -> Prints | None:
        return self._up_to_date().prints(report)

    def _up_to_date(self) -> SqliteUnit:
        """Return the unit for a statement, which is to see what was gathered."""
        if self._gathered:
            self.write_gathered()
        return self._apart


@cache
def _insert(table: str, columns: Columns) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
