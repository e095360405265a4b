"""A commit for which no standby waits any more: PostgreSQL keeps it, and a failover may lose it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.store import Unit
from ledger_engine.store.postgres.database import open_database
from tests.ledger_engine.conftest import START
from tests.ledger_engine.manual_clock import ManualClock
from tests.postgres_cluster import asked_for

pytestmark = pytest.mark.process
_CANCEL = (
    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
    " WHERE wait_event = 'SyncRep' AND datname = current_database()"
)


@pytest.fixture
def standby_is_awaited(beside: psycopg.Connection) -> Iterator[None]:
    """Have commits wait for a standby that there is not; those of other tests have synchronous_commit off."""
    if "://" in asked_for():
        pytest.skip("the settings of the server that TESTS_POSTGRES names are not changed")
    beside.execute("ALTER SYSTEM SET synchronous_standby_names TO 'nobody'")
    beside.execute("SELECT pg_reload_conf()")
    yield
    beside.execute("ALTER SYSTEM RESET synchronous_standby_names")
    beside.execute("SELECT pg_reload_conf()")


@pytest.mark.usefixtures("standby_is_awaited")
async def test_a_commit_whose_wait_for_the_standby_was_cancelled_has_an_unknown_outcome(
    address: str, plain: bool, beside: psycopg.Connection
) -> None:
    database = open_database(
        f"{address}&options=-csynchronous_commit%3Don", ManualClock(START), serving=False, plain=plain
    )
    beside.execute("CREATE TABLE notes (id TEXT)")

    def work(unit: Unit) -> None:
        unit.execute("INSERT INTO notes (id) VALUES ('x')")

    try:
        cancelled = False
        while not cancelled:  # the first ones may be before the server has read its settings again
            writing = asyncio.create_task(database.write(work))
            while not writing.done():
                cancelled |= beside.execute(_CANCEL).fetchone() is not None
                await asyncio.wait({writing}, timeout=0.02)
        with pytest.raises(StorageUnavailable, match=r"no standby has confirmed .*is not known"):
            await writing
    finally:
        await database.close()
    assert beside.execute("SELECT id FROM notes").fetchone() == ("x",)  # it is there, on the primary
