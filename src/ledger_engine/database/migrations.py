"""Migrations: bringing a file of an older version up to date."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Collection
from functools import cache
from typing import Any, cast

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.database.later_tables import ledger

Migration = Callable[[Any], None]  # what it is given executes statements

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
        applied = _applied(connection)
        _require_known(applied)
        if not applied and database.table_names():
            raise StorageUnavailable("it is not a ledger: it has the tables of another program")
        if pending := [name for name in known() if name not in applied]:
            if applied:
                names = ", ".join(pending)
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
    _require_known(_applied(connection))


def is_up_to_date(connection: sqlite3.Connection) -> bool:
    """Return whether the file has the tables of this version; change nothing."""
    return known().keys() <= set(_applied(connection))


def known() -> dict[str, Migration]:
    """Return the migrations of this version in their order, by name."""
    return _known(ledger)


def _require_known(applied: Collection[str]) -> None:
    if unknown := [name for name in applied if name not in known()]:
        raise StorageUnavailable(f"it was written by a newer version of the ledger ({', '.join(unknown)})")


def _applied(connection: sqlite3.Connection) -> list[str]:
    """Return the names of the migrations that the file has."""
    return [migration.name for migration in ledger.applied(Database(connection, recursive_triggers=False))]


@cache
def _known(migrations: Migrations) -> dict[str, Migration]:
    with Database(memory=True) as empty:
        return {each.name: cast(Migration, each.fn) for each in migrations.pending(empty)}
