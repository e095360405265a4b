"""The reading threads: a statement that hangs delays its own project alone."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import psycopg

from ledger_engine.store import LongWork, Unit
from ledger_engine.store.postgres.readers import READERS
from tests.ledger_engine.conftest import START
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.store.postgres.conftest import Serve
from tests.ledger_engine.waiting import until

SLEEPERS = (
    "FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND wait_event = 'PgSleep'"
)


@dataclass(frozen=True)
class _Hanging:
    """A read that the database answers only after the test is over, unless somebody ends it."""

    project: str = "busy"

    def __call__(self, unit: Unit) -> None:
        unit.execute("SELECT pg_sleep(60)")


@dataclass(frozen=True)
class _Quick:
    project: str = "other"

    def __call__(self, unit: Unit) -> int:
        (row,) = unit.execute("SELECT 1 AS number")
        return int(row["number"])


async def test_a_hanging_statement_of_one_project_delays_no_other(
    serve: Serve, beside: psycopg.Connection
) -> None:
    database = serve(ManualClock(START))
    hanging = [asyncio.create_task(database.read(_Hanging())) for _ in range(2 * READERS)]
    hanging += [asyncio.create_task(database.read(LongWork(_Hanging()))) for _ in range(2)]
    await until(lambda: sleepers(beside) == READERS - 1)
    async with asyncio.timeout(5):
        assert await database.read(_Quick()) == 1
        assert await database.read(LongWork(_Quick())) == 1
    for task in hanging:
        task.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)
    beside.execute(f"SELECT pg_cancel_backend(pid) {SLEEPERS}")


def sleepers(beside: psycopg.Connection) -> int:
    row = beside.execute(f"SELECT count(*) {SLEEPERS}").fetchone()
    assert row is not None
    return int(row[0])
