"""The statements and connections of a server while nothing happens."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from ledger_engine.store import Unit, kept_time
from ledger_engine.store.postgres import locks, notifications
from ledger_engine.store.postgres.database import open_database
from ledger_engine.store.postgres.rendering import SqlStatement
from tests.ledger_engine.conftest import START
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.waiting import until

pytestmark = pytest.mark.process
BOOKS = 5000
SERVERS, CONNECTIONS = 3, 8


def nodes(plan: dict[str, object]) -> Iterator[dict[str, object]]:
    yield plan
    for each in plan.get("Plans", ()):  # type: ignore[attr-defined]
        yield from nodes(each)


@pytest.mark.parametrize("statement", [notifications._ANNOUNCED, locks._OF_OTHERS])
def test_a_query_about_all_servers_reads_only_the_rows_of_servers(
    beside: psycopg.Connection, statement: SqlStatement
) -> None:
    beside.execute(
        "INSERT INTO heads (lock, moment, announced, server)"
        f" SELECT hashint8extended(book, 7), 1, 1, 1 FROM generate_series(1, {BOOKS}) AS book"
    )
    for _ in range(SERVERS):
        beside.execute(
            "INSERT INTO heads (lock, moment, announced, server) VALUES (%(number)s, 1, 1, %(number)s)",
            {"number": locks.new_server()},
        )
    beside.execute("ANALYZE heads")
    words = statement.text.decode().replace("$1", "0")
    found = beside.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {words}".encode()).fetchone()
    assert found is not None
    read = [
        each["Actual Rows"] + each.get("Rows Removed by Filter", 0)  # type: ignore[operator]
        for each in nodes(found[0][0]["Plan"])
        if "Scan" in str(each["Node Type"])
    ]
    assert read == [SERVERS]


async def test_a_server_has_eight_connections_and_each_has_its_name(
    address: str, beside: psycopg.Connection
) -> None:
    others = connections(beside).keys()
    database = open_database(address, ManualClock(START), serving=True)
    try:
        await database.write(kept_time.reach)
        await database.rate_limits.count("somebody", 10, 10)
        await asyncio.gather(*[database.read(rest) for _ in range(8)])
        await until(lambda: len(connections(beside).keys() - others) == CONNECTIONS)
        found = connections(beside)
        assert {found[process] for process in found.keys() - others} == {"ledger-engine"}
    finally:
        await database.close()


def rest(unit: Unit) -> None:
    unit.execute("SELECT pg_sleep(0.1)")


def connections(beside: psycopg.Connection) -> dict[int, str]:
    """Return the name of each connection to the database, by its process."""
    return dict(
        beside.execute(
            "SELECT pid, application_name FROM pg_stat_activity WHERE datname = current_database()"
            " AND backend_type = 'client backend'"
        ).fetchall()
    )
