"""PostgreSQL for tests: one server for all processes of a run, and databases for each of them.

TESTS_POSTGRES names another server than the one from pip: a folder with PostgreSQL's programs, or the address
of a running server, as a superuser (`postgresql://postgres@127.0.0.1:5433`).
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from psycopg import Connection, Error, connect, sql

from ledger_engine.core.clock import SystemClock
from ledger_engine.store.postgres import database
from tests.postgres_cluster import asked_for, shared

# These tests check rules; tests of the disk start a server of their own.
_SETTINGS = "-c fsync=off -c synchronous_commit=off -c full_page_writes=off -c jit=off -c max_connections=200"


def emptied_database() -> str:
    """Return the address of this process's database, with all tables, which are empty."""
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
    address = _bare_database()
    _administrator(address).execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return address


@cache
def start() -> str:
    """Start the server of this test run, unless it runs already; return its address, with `{}` for the
    database.
    """
    if "://" in asked_for():
        return urlunsplit(urlsplit(asked_for())._replace(path="/{}"))
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"{os.getpid()}")
    return shared(Path(tempfile.gettempdir(), f"ledger-postgres-{run[:12]}"), _SETTINGS).address("{}")


def version() -> int:
    """Return the server's version, 180004 for 18.4."""
    return _administrator(start().format("postgres")).info.server_version


def new_database(name: str) -> str:
    """Replace this process's database by a new one without tables, and return its address."""
    address = no_database(name)
    own = sql.Identifier(urlsplit(address).path.strip("/"))
    _administrator(start().format("postgres")).execute(sql.SQL("CREATE DATABASE {}").format(own))
    return address


def no_database(name: str) -> str:
    """Return the address of `new_database`'s database, and make sure that it does not exist."""
    address = start()
    own = f"ledger_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}_{name}"
    words = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(own))
    _administrator(address.format("postgres")).execute(words)
    return address.format(own)


def copied(address: str) -> str:
    """Copy a database that nobody uses; return the address of the copy, which the next copy replaces."""
    original = urlsplit(address)
    copy = f"{original.path.strip('/')}_copy"
    words = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)"), sql.SQL("CREATE DATABASE {} TEMPLATE {}")
    names = [sql.Identifier(each) for each in (copy, original.path.strip("/"))]
    administrator = _administrator(start().format("postgres"))
    administrator.execute(words[0].format(names[0]))
    administrator.execute(words[1].format(*names))
    return urlunsplit(original._replace(path=f"/{copy}"))


@cache
def _bare_database() -> str:
    return new_database("bare")


@cache
def _own_database() -> str:
    own = new_database("own")

    async def make_tables() -> None:
        await database.open_database(own, SystemClock(), serving=False).close()

    # Run in an event loop of its own, because tests that ask for the database already run one.
    asyncio.run(make_tables())
    _emptying(own)  # now that no test has changed the tables
    return own


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
            sql.SQL("INSERT INTO kept_time (id, reached, served) VALUES (1, 0, NULL)"),
            sql.SQL("ALTER SEQUENCE books_book_seq RESTART"),
        ]
    )
