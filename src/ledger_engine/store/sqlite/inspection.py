"""Checks that the pages, rows, indexes and table definitions of a SQLite file are sound."""

from __future__ import annotations

import sqlite3

from ledger_engine.core.clock import SystemClock
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.ids import IdSource
from ledger_engine.store.read_snapshot import ReportRows, report_nothing
from ledger_engine.store.sqlite import migrations
from ledger_engine.store.sqlite.connection import code_of
from ledger_engine.store.sqlite.unit import SqliteUnit

FAULTS_MAX = 100
_PASSING = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM}


class SqliteAuditUnit(SqliteUnit):
    """The `AuditUnit` of a read-only SQLite connection."""

    __slots__ = ("report",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection, SystemClock(), IdSource())
        self.report: ReportRows = report_nothing

    def note_read(self, rows: int, /) -> None:
        self.report(rows)

    def is_damage(self, error: Exception, /) -> bool:
        return code_of(error) not in _PASSING and not isinstance(error, StorageUnavailable)

    def inspect(self) -> list[str]:
        faults = [
            str(row[0])
            for row in self._connection.execute(f"PRAGMA integrity_check({FAULTS_MAX})")
            if row[0] != "ok"
        ]
        for table, row, other, _ in self._connection.execute("PRAGMA foreign_key_check").fetchmany(
            FAULTS_MAX
        ):
            faults.append(f"row {row} of {table} refers to a missing row of {other}")
        return faults

    def schema_differences(self) -> list[tuple[str, str]]:
        return migrations.schema_differences(self._connection)
