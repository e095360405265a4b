"""Servers on one PostgreSQL database, and what else reads it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import psycopg
import pytest

from ledger_engine.core.clock import Clock
from ledger_engine.store.postgres.database import PostgresDatabase, open_database
from tests.ledger_engine.limits.counters import Wall
from tests.postgres_server import emptied_database

Serve = Callable[[Clock], PostgresDatabase]


@pytest.fixture
def address() -> str:
    return emptied_database()


@pytest.fixture
async def serve(address: str) -> AsyncIterator[Serve]:
    """Return a function that opens the database for one more server."""
    opened: list[PostgresDatabase] = []

    def one_more(clock: Clock) -> PostgresDatabase:
        opened.append(open_database(address, clock, serving=True))
        return opened[-1]

    yield one_more
    for each in opened:
        await each.close()


@pytest.fixture
def beside(address: str) -> Iterator[psycopg.Connection]:
    """Return a connection of somebody else."""
    with psycopg.connect(address, autocommit=True) as connection:
        yield connection
        connection.execute("DROP TABLE IF EXISTS notes")


@pytest.fixture
def wall() -> Wall:
    return Wall()
