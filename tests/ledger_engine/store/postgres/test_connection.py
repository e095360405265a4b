"""A connection that does not answer, or that has ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from ledger_engine.store.postgres.connection import PostgresConnection
from ledger_engine.store.postgres.errors import ConnectionLost
from ledger_engine.store.postgres.rendering import rendered

pytestmark = pytest.mark.process
PID = "SELECT pg_backend_pid() AS pid"


@pytest.fixture
def connection(address: str) -> Iterator[PostgresConnection]:
    with closing(PostgresConnection(address, 60)) as connection:
        yield connection


def test_nothing_is_sent_on_a_closed_connection(connection: PostgresConnection) -> None:
    connection.close()
    assert not connection.usable
    with pytest.raises(ConnectionLost, match="is closed"):
        connection.send(rendered("SELECT 1"))
    with pytest.raises(ConnectionLost, match="is closed"):
        connection.settle()


def test_a_connection_that_does_not_answer_in_time_is_closed(
    connection: PostgresConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_answer_s", 0.02)
    with pytest.raises(ConnectionLost, match="it does not answer"):
        connection.rows(rendered("SELECT pg_sleep(60)"), {})
    assert not connection.usable


def test_a_statement_larger_than_the_buffer_of_the_system_is_sent_in_parts(
    connection: PostgresConnection,
) -> None:
    text = "x" * 8_000_000
    (row,) = connection.rows(rendered("SELECT length(:text) AS long"), {"text": text})
    assert row["long"] == len(text)


def test_a_wait_for_notifications_ends_when_the_server_closes_the_connection(
    connection: PostgresConnection, beside: psycopg.Connection
) -> None:
    (row,) = connection.rows(rendered(PID), {})
    beside.execute("SELECT pg_terminate_backend(%s, 60000)", (row["pid"],))
    with pytest.raises(ConnectionLost, match=r"terminat|closed"):
        wait_for_ever(connection)
    assert not connection.usable


def wait_for_ever(connection: PostgresConnection) -> None:
    while True:
        connection.wait_for_notifications(60, connection.descriptor)


def test_a_sum_of_no_rows_is_none_and_a_sum_of_fractions_is_a_float(
    connection: PostgresConnection,
) -> None:
    sql = "SELECT sum(n) AS total FROM (VALUES (1.5), (2)) AS given (n) WHERE n > :least"
    found = [connection.rows(rendered(sql), {"least": least})[0]["total"] for least in (0, 9)]
    assert found == [3.5, None]
