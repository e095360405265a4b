"""Several threads that read one snapshot of the database, each over a separate connection."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial

from ledger_engine.store.postgres import inspection, migrations, requirements
from ledger_engine.store.postgres.connection import UNLIMITED, PostgresConnection
from ledger_engine.store.postgres.errors import ConnectionLost, DatabaseFailed, unavailable
from ledger_engine.store.postgres.hosts import connect
from ledger_engine.store.postgres.migrations import PostgresTables
from ledger_engine.store.postgres.rendering import rendered
from ledger_engine.store.read_snapshot import ReadSnapshot, ReportRows, UnitReader

_BEGIN = rendered("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
_EXPORT = rendered("SELECT pg_export_snapshot() AS name")


@contextmanager
def open_snapshot(url: str, readers: int, report: ReportRows) -> Iterator[ReadSnapshot]:
    """Open the database for `readers` threads, which all see the same state and change nothing.

    While a long work runs, `report` is called repeatedly with the number of rows that the work has read since
    the previous call of `report`. Raises StorageUnavailable.
    """
    try:
        with ExitStack() as stack:
            connections = [
                stack.enter_context(closing(connect(url, math.inf, UNLIMITED))) for _ in range(readers)
            ]
            requirements.require_usable(connections[0], partial(connect, url, math.inf))
            PostgresTables(connections[0]).require_ledger()
            differences = migrations.schema_differences(connections[0])
            name = _begin(connections[0], None)
            for connection in connections[1:]:
                _begin(connection, name)

            unit_readers = [
                UnitReader(
                    inspection.PostgresAuditUnit(connection, differences), connection.interrupt, report
                )
                for connection in connections
            ]
            snapshot = ReadSnapshot(unit_readers, inspection.why_indexes_unchecked(connections[0]))
            stack.callback(snapshot.close)
            yield snapshot
    except (ConnectionLost, DatabaseFailed) as error:
        raise unavailable(error) from error


def _begin(connection: PostgresConnection, snapshot: str | None) -> str:
    """Begin a transaction on the named snapshot, or on a new snapshot; return the snapshot's name."""
    connection.send(_BEGIN)
    if snapshot is None:
        return str(connection.rows(_EXPORT, {})[0]["name"])
    connection.send(rendered(f"SET TRANSACTION SNAPSHOT '{snapshot}'"))
    connection.settle()
    return snapshot
