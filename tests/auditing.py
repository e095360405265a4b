"""The audit of a ledger that an engine of this process has open, for tests.

The command `verify` opens the file again. A process with an open ledger must not do this, because closing the
second file would drop its locks.
"""

from __future__ import annotations

from ledger_engine.store import Unit
from ledger_engine.store.postgres.inspection import PostgresAuditUnit
from ledger_engine.store.postgres.unit import PostgresUnit
from ledger_engine.store.sqlite.inspection import SqliteAuditUnit
from ledger_engine.store.sqlite.unit import SqliteUnit
from ledger_engine.verify import audit


def verify(unit: Unit) -> audit.AuditReport:
    """Run the audit on the connection of a work that reads."""
    if isinstance(unit, PostgresUnit):
        return audit.verify(PostgresAuditUnit(unit._connection))
    assert isinstance(unit, SqliteUnit)
    return audit.verify(SqliteAuditUnit(unit._connection))
