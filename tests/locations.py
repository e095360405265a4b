"""Locations of the tests' ledgers (files, or databases with `--database postgres`), and functions to look
into them.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from ledger_engine.core.settings import Location

_DROP_CHECKS = """
SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname) FROM pg_constraint
WHERE contype = 'c' AND connamespace = current_schema()::regnamespace
"""


def new_ledger(kind: str, folder: Path) -> Location:
    """Return the location of an empty ledger: a file in the folder, or the one database of this process."""
    if kind == "postgres":
        from tests.postgres_server import emptied_database

        return emptied_database()
    from tests.made_once import put_empty_ledger

    return put_empty_ledger(folder / "ledger.db")


def place_of_its_own(kind: str, folder: Path, name: str) -> Location:
    """Return a location for a ledger that outlives tests: a new file, or a database of this name."""
    if kind == "postgres":
        from tests.postgres_server import new_database

        return new_database(name)
    return folder / "ledger.db"


def no_ledger_yet(kind: str, folder: Path) -> Location:
    """Return a location at which a command makes a ledger: a file that does not exist, or the database of
    this process.

    The database already contains the tables, because making them takes a tenth of a second.
    """
    return new_ledger(kind, folder) if kind == "postgres" else folder / "ledger.db"


def copy_of_database(address: str) -> str:
    """Copy a database that nobody uses; return the address of the copy, which the next copy replaces."""
    from tests.postgres_server import copied

    return copied(address)


def execute(ledger: Location, statement: str) -> list[Any]:
    """Run a statement like an attacker with access to the database, without constraints; return its rows.

    Raises an error if a statement that should change something changes nothing.
    """
    if isinstance(ledger, str):
        import psycopg

        with psycopg.connect(ledger) as connection:
            connection.execute("SET session_replication_role = replica")
            try:
                with connection.transaction():
                    cursor = connection.execute(statement.encode())
            except psycopg.errors.CheckViolation:
                for (drop,) in connection.execute(_DROP_CHECKS).fetchall():
                    connection.execute(drop)
                cursor = connection.execute(statement.encode())
            assert cursor.rowcount > 0 or cursor.description, "nothing was changed"
            return cursor.fetchall() if cursor.description else []
    with closing(sqlite3.connect(ledger)) as opened, opened:
        opened.execute("PRAGMA foreign_keys=OFF")
        opened.execute("PRAGMA ignore_check_constraints=ON")
        found = opened.execute(statement)
        assert found.rowcount > 0 or found.description, "nothing was changed"
        return found.fetchall()


def stored_bytes(ledger: Location) -> bytes:
    """Return everything that is stored: the bytes of the file, or every row of the database."""
    if not isinstance(ledger, str):
        return ledger.read_bytes()
    import psycopg
    from psycopg import sql

    with psycopg.connect(ledger) as connection, connection.cursor() as cursor:
        tables = cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        copies = []
        for (table,) in tables:
            with cursor.copy(sql.SQL("COPY {} TO STDOUT").format(sql.Identifier(table))) as copy:
                copies += list(copy)
    return b"".join(bytes(each) for each in copies)
