"""The tables of a SQLite file: made in a new one, and brought up to date in an older one."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.store import schema

RECORD = "_sqlite_migrations"  # the table in which sqlite-utils notes what it has applied
_SET = "ledger"
_RECORDED = f"SELECT name FROM {RECORD} WHERE migration_set = '{_SET}'"
_TABLES = (
    "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
)
_OBJECTS = "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL"
_REFUSING_INDEXES = (
    "SELECT DISTINCT i.name, m.name FROM sqlite_schema AS m, pragma_index_list(m.name) AS i,"
    " pragma_index_xinfo(i.name) AS x WHERE m.type = 'table' AND i.origin = 'c'"
    ' AND (i."unique" OR i.partial OR x.cid = -2)'
)
_REFUSING_TABLES = (
    'SELECT DISTINCT m.name, f."table" FROM sqlite_schema AS m, pragma_foreign_key_list(m.name) AS f'
    " WHERE m.type = 'table'"
)
# ALTER TABLE leaves other spaces and quotes than the baseline has; they mean nothing.
_MEANINGLESS = str.maketrans("", "", ' \n\t"')

log = logging.getLogger("ledger_engine.store.sqlite.migrations")


def apply(connection: sqlite3.Connection) -> None:
    """Bring the file up to date in one transaction. Raises StorageUnavailable as `require_usable` does."""
    # An index is sorted in files: among ten million transactions it would take 3 GB of memory.
    (kept_in,) = connection.execute("PRAGMA temp_store").fetchone()
    connection.execute("PRAGMA temp_store=FILE")
    connection.execute("BEGIN IMMEDIATE")
    try:
        applied, pending = _state(connection)
        if applied and pending:
            names = ", ".join(pending)
            log.warning("bringing the ledger up to date, which takes minutes if it is large: %s", names)
        if pending:
            _apply(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    finally:
        connection.execute(f"PRAGMA temp_store={kept_in}")


def require_usable(connection: sqlite3.Connection) -> None:
    """Raise StorageUnavailable for a file that `apply` would refuse; change nothing.

    It refuses one with the tables of another program, of a newer version, or from before version 1.0.
    """
    _state(connection)


def require_ledger(connection: sqlite3.Connection, *, up_to_date: bool = True) -> None:
    """Raise StorageUnavailable for a file that is no ledger, or unusable; change nothing.

    With `up_to_date` also for one without the tables of this version.
    """
    applied, pending = _state(connection)
    if applied is None:
        raise StorageUnavailable("it is not a ledger")
    if pending and up_to_date:
        raise StorageUnavailable(schema.NOT_UP_TO_DATE)


def require_all_there(connection: sqlite3.Connection) -> None:
    """Raise StorageUnavailable when a table, index, view or trigger of an up-to-date file is missing."""
    schema.require_all_there("sqlite", [name for _, name, _ in connection.execute(_OBJECTS)])


def unlike_made(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """Return what somebody has changed in the tables; see `AuditUnit.unlike_made`."""
    made = _made(schema.FOLDER)
    refusing = dict[str, str]()
    for name, table in connection.execute(_REFUSING_INDEXES):
        if ("table", table) in made:
            refusing[name] = f"an index of {table} that is unique, partial or of an expression"
    for name, table in connection.execute(_REFUSING_TABLES):
        if ("table", table) in made:
            refusing[name] = f"a table that refers to {table}"
    return schema.unlike_made(_objects(connection), made, refusing)


def require_no_others(connection: sqlite3.Connection) -> None:
    """Raise StorageUnavailable for a file with the tables of another program alone; change nothing."""
    applied, tables = _found(connection)
    if applied is None:
        schema.require_no_others(tables)


def _state(connection: sqlite3.Connection) -> tuple[list[str] | None, list[str]]:
    """Return the migrations that the file has a record of, None without a record, and those it lacks."""
    applied, tables = _found(connection)
    return applied, schema.pending("sqlite", applied, tables)


def _found(connection: sqlite3.Connection) -> tuple[list[str] | None, list[str]]:
    """Return the migrations that the file has a record of, None without a record, and its tables."""
    tables = [name for (name,) in connection.execute(_TABLES)]
    applied = None
    if RECORD in tables:
        applied = [name for (name,) in connection.execute(_RECORDED)] or None
    return applied, tables


def _apply(connection: sqlite3.Connection) -> None:
    """Have sqlite-utils apply what the file lacks, and note it."""
    from sqlite_utils import Database  # which takes 40 ms to load, and is seldom needed
    from sqlite_utils.migrations import Migrations

    migrations = Migrations(_SET)
    for each in schema.names("sqlite"):

        def migrate(database: Database, name: str = each) -> None:
            for statement in schema.statements("sqlite", name):
                database.execute(statement)

        migrations(name=each)(migrate)
    migrations.apply(Database(connection, recursive_triggers=False))


def _objects(connection: sqlite3.Connection) -> dict[schema.Object, str]:
    return {(kind, name): sql.translate(_MEANINGLESS) for kind, name, sql in connection.execute(_OBJECTS)}


@cache
def _made(folder: Path) -> dict[schema.Object, str]:
    """Return the tables, indexes and all else that the migrations in a folder make."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for name in schema.names("sqlite"):
            for statement in schema.statements("sqlite", name):
                connection.execute(statement)
        return _objects(connection)
