"""How an older file becomes a newer one."""

from __future__ import annotations

import sqlite3

from sqlite_utils import Database

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.database.tables import ledger


def apply(connection: sqlite3.Connection) -> None:
    """Bring the file up to date in one transaction.

    Raises StorageUnavailable when a newer version wrote it, or something that is no ledger.
    """
    database = Database(connection, recursive_triggers=False)
    known = {migration.name for migration in ledger._migrations}
    connection.execute("BEGIN IMMEDIATE")
    try:
        unknown = [migration.name for migration in ledger.applied(database) if migration.name not in known]
        if unknown:
            raise StorageUnavailable(
                f"it was written by a newer version of the ledger ({', '.join(unknown)})"
            )
        if not ledger.applied(database) and database.table_names():
            raise StorageUnavailable("it is no ledger, it holds the tables of something else")
        if ledger.pending(database):
            ledger.apply(database)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
