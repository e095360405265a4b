"""A unit that passes everything on to another: the base of units that do a part of it in their own way."""

from __future__ import annotations

from collections.abc import Sequence

from ledger_engine.core.tenant import Tenant
from ledger_engine.store import Columns, H, Parameters, Row, Unit, Value
from ledger_engine.store.index_hashes import Prints

_NOTHING: Parameters = {}


class WrappedUnit:
    """The `Unit` for works that are to run on `unit`."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit

    @property
    def now(self) -> int:
        return self._unit.now

    def execute(self, sql: str, parameters: Parameters = _NOTHING, /) -> list[Row]:
        return self._unit.execute(sql, parameters)

    def first(self, sql: str, parameters: Parameters = _NOTHING, /) -> Row | None:
        return self._unit.first(sql, parameters)

    def execute_many(self, sql: str, rows: list[dict[str, Value]], /) -> None:
        self._unit.execute_many(sql, rows)

    def insert_many(self, table: str, columns: Columns, rows: Sequence[Sequence[Value]], /) -> None:
        self._unit.insert_many(table, columns, rows)

    def held(self, kind: type[H], tenant: Tenant, /) -> H:
        return self._unit.held(kind, tenant)

    def new_id(self, prefix: str) -> str:
        return self._unit.new_id(prefix)

    def columns(
        self, expressions: Columns, source: str, parameters: Parameters = _NOTHING, /, *, longest: int = 0
    ) -> list[str]:
        return self._unit.columns(expressions, source, parameters, longest=longest)

    def inspect(self, *, thorough: bool = True) -> list[str]:
        return self._unit.inspect(thorough=thorough)

    @property
    def reads_indexes(self) -> bool:
        return self._unit.reads_indexes

    def prints(self) -> Prints | None:
        return self._unit.prints()

    def note_read(self, rows: int, /) -> None:
        self._unit.note_read(rows)

    def first_not_an_object(self, table: str, column: str) -> str | None:
        return self._unit.first_not_an_object(table, column)

    def version(self) -> int:
        return self._unit.version()

    def announce(self, topic: str) -> None:
        self._unit.announce(topic)
