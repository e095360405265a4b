"""Where the ledgers of tests are: in files, or with `--database postgres` in databases; and a look inside."""

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
    """Return where an empty ledger is: a file in the folder, or the one database of this process."""
    if kind == "postgres":
        from tests.postgres_server import emptied_database

        return emptied_database()
    from tests.made_once import put_empty_ledger

    return put_empty_ledger(folder / "ledger.db")


def place_of_its_own(kind: str, folder: Path, name: str) -> Location:
    """Return where a ledger can be made that outlives tests: a new file, or a database of this name."""
    if kind == "postgres":
        from tests.postgres_server import new_database

        return new_database(name)
    return folder / "ledger.db"


def no_ledger_yet(kind: str, folder: Path) -> Location:
    """Return where a command makes the ledger: a file that does not exist, or the database of this process.

    A database has its tables, as making them takes a tenth of a second.
    """
    return new_ledger(kind, folder) if kind == "postgres" else folder / "ledger.db"


def copy_of_database(address: str) -> str:
    """Return the address of a copy of a database that nobody uses; the next copy takes its place."""
    from tests.postgres_server import copied

    return copied(address)


def execute(ledger: Location, statement: str) -> list[Any]:
    """Run a statement as somebody does who has the database and no respect; return its rows.

    What the statement changes, whatever constraints say, is changed once; raises when that is nothing.
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
    """Return all that is stored: the file, or every row of the database."""
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
