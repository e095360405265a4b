"""The check of a PostgreSQL database reports whether postings are possible."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.store import BookKey, Unit
from ledger_engine.store.postgres.database import PostgresDatabase, open_database
from ledger_engine.store.threaded import CHECK_S
from tests.ledger_engine.conftest import START
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.waiting import until

pytestmark = pytest.mark.process
FULL = "could not extend file: No space left on device"


class Posting:
    """A work that adds a row and announces it."""

    book: BookKey = ("prj_1", False)

    def __call__(self, unit: Unit) -> None:
        unit.execute("INSERT INTO notes (id) VALUES ('x')")
        unit.announce("events")


class Renewal:
    """A work that only changes an existing row."""

    book: BookKey = ("leases", False)

    def __call__(self, unit: Unit) -> None:
        unit.execute("UPDATE kept_time SET reached = reached")


@pytest.fixture
async def database(address: str, beside: psycopg.Connection) -> AsyncIterator[PostgresDatabase]:
    beside.execute("CREATE TABLE notes (id TEXT)")
    opened = open_database(address, ManualClock(START), serving=True)
    yield opened
    await opened.close()


async def test_the_check_fails_while_postings_are_refused_even_if_leases_are_renewed(
    database: PostgresDatabase, beside: psycopg.Connection
) -> None:
    """On a full disk no table grows, and rows may be changed where there is room on their page."""
    await database.write(Posting())
    beside.execute(
        f"CREATE FUNCTION be_full() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN RAISE EXCEPTION '{FULL}' USING ERRCODE = '53100'; END $$"
    )
    for table in ("notes", "rate_counts"):
        beside.execute(
            f"CREATE TRIGGER full_disk BEFORE INSERT ON {table} EXECUTE FUNCTION be_full()".encode()
        )
    try:
        with pytest.raises(StorageUnavailable, match="its disk is full"):
            await database.write(Posting())
        for _ in range(3):
            await database.write(Renewal())
            with pytest.raises(StorageUnavailable, match="its disk is full"):
                await database.check()
    finally:
        beside.execute("DROP FUNCTION be_full CASCADE")
    await database.check()
    assert beside.execute("SELECT count(*) FROM rate_counts").fetchone() == (0,)


async def test_the_check_succeeds_while_somebody_has_locked_a_row(
    database: PostgresDatabase, beside: psycopg.Connection
) -> None:
    beside.execute("INSERT INTO notes (id) VALUES ('till')")
    with beside.transaction():
        beside.execute("SELECT * FROM notes FOR UPDATE")

        def change(unit: Unit) -> None:
            unit.execute("UPDATE notes SET id = id WHERE id = 'till'")

        waiting = asyncio.create_task(database.write(change))
        await until(lambda: database._age() > CHECK_S)
        await database.check()
        with pytest.raises(StorageUnavailable, match="lock"):
            await waiting
        await database.check()
        assert not database._is_lost
