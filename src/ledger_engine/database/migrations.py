"""Migrations: bringing a file of an older version up to date."""

from __future__ import annotations

import logging
import sqlite3

from sqlite_utils import Database

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.database.later_tables import ledger

log = logging.getLogger("ledger_engine.database.migrations")


def apply(connection: sqlite3.Connection) -> None:
    """Bring the file up to date in one transaction.

    Raises StorageUnavailable for a file of a newer version, or one that is not a ledger.
    """
    database = Database(connection, recursive_triggers=False)
    # An index is sorted in files: among ten million transactions it would take 3 GB of memory.
    (kept_in,) = connection.execute("PRAGMA temp_store").fetchone()
    connection.execute("PRAGMA temp_store=FILE")
    connection.execute("BEGIN IMMEDIATE")
    try:
        require_known(connection)
        if not ledger.applied(database) and database.table_names():
            raise StorageUnavailable("it is not a ledger: it has the tables of another program")
        if pending := ledger.pending(database):
            if ledger.applied(database):
                names = ", ".join(migration.name for migration in pending)
                log.warning("bringing the ledger up to date, which takes minutes if it is large: %s", names)
            ledger.apply(database)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    finally:
        connection.execute(f"PRAGMA temp_store={kept_in}")


def require_known(connection: sqlite3.Connection) -> None:
    """Raise StorageUnavailable for a file of a newer version; change nothing."""
    with Database(memory=True) as empty:
        known = {migration.name for migration in ledger.pending(empty)}
    applied = ledger.applied(Database(connection, recursive_triggers=False))
    unknown = [migration.name for migration in applied if migration.name not in known]
    if unknown:
        raise StorageUnavailable(f"it was written by a newer version of the ledger ({', '.join(unknown)})")


def is_up_to_date(connection: sqlite3.Connection) -> bool:
    """Return whether the file has the tables of this version; change nothing."""
    return not ledger.pending(Database(connection, recursive_triggers=False))
