"""Values, statements and tables as PostgreSQL reads them."""

from __future__ import annotations

from operator import attrgetter

import psycopg
import pytest

from ledger_engine.store import Value
from ledger_engine.store.engine import tables_of_ledger
from ledger_engine.store.postgres import rendering
from ledger_engine.store.postgres.connection import PostgresConnection
from ledger_engine.store.postgres.errors import DatabaseFailed
from ledger_engine.store.postgres.rendering import insertion, rendered

pytestmark = pytest.mark.process
TEXTS = ("", "é", 'a "b" \\c\\ {d}, NULL', "a\0b", "\0", "\ufdd0", "\ufdd00", "a\ufdd01\0", "😀\n\t")


@pytest.fixture
def connection(address: str) -> PostgresConnection:
    return PostgresConnection(address, 10)


@pytest.mark.parametrize("value", [None, 0, -1, 2**63 - 1, -(2**63), *TEXTS])
def test_a_value_comes_back_as_it_was(connection: PostgresConnection, value: Value) -> None:
    for _ in range(3):  # also once the statement is prepared
        (row,) = connection.rows(rendered("SELECT :value AS value, :one AS one"), {"value": value, "one": 1})
        assert (row["value"], row[1], row.keys()) == (value, 1, ["value", "one"])
    connection.close()


def test_a_parameter_may_be_none_at_first_and_a_number_later(connection: PostgresConnection) -> None:
    sql = rendered("SELECT :value AS value")
    found = [connection.rows(sql, {"value": value})[0]["value"] for value in (None, None, 7, None, 8, 9)]
    assert found == [None, None, 7, None, 8, 9]
    connection.close()


def test_texts_in_an_array_come_back_as_they_were(connection: PostgresConnection) -> None:
    connection.send(rendered("CREATE TEMPORARY TABLE texts (number BIGINT, text TEXT)"))
    rows = [*enumerate(TEXTS), (None, None)]
    arrays = [rendering.array(column) for column in zip(*rows, strict=True)]
    connection.put_dumped(insertion("texts", ("number", "text"), frozenset(["number"])), arrays, (0, 0))
    found = connection.rows(rendered("SELECT number, text FROM texts ORDER BY number"), {})
    assert [tuple(row) for row in found] == rows
    connection.close()


def test_sums_counts_and_truths_are_whole_numbers(connection: PostgresConnection) -> None:
    sql = "SELECT sum(n) AS total, count(*) AS rows, 1 = 1 AS yes FROM (VALUES (:a), (:b)) AS given (n)"
    (row,) = connection.rows(rendered(sql), {"a": 2**62, "b": 2**62})
    assert tuple(row) == (2**63, 2, 1)
    connection.close()


def test_the_error_is_the_error_of_the_first_failed_statement(connection: PostgresConnection) -> None:
    connection.send(rendered("SELECT 1"))
    connection.send(rendered("SELECT 1 / :zero"), {"zero": 0})
    connection.send(rendered("SELECT nothing"))
    with pytest.raises(DatabaseFailed, match="division by zero"):
        connection.settle()
    assert connection.rows(rendered("SELECT 1 / :zero AS one"), {"zero": 1})[0]["one"] == 1
    connection.close()


def test_a_connection_keeps_a_limited_number_of_prepared_statements(
    connection: PostgresConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger_engine.store.postgres.connection.PREPARED_MAX", 5)
    for _ in range(3):
        for number in range(4):
            connection.rows(rendered(f"SELECT {number} AS n"), {})
    for number in range(20):
        connection.rows(rendered(f"SELECT {number} AS n"), {})
        connection.rows(rendered(f"SELECT {number} AS n"), {})
    (row,) = connection.rows(rendered("SELECT count(*) AS n FROM pg_prepared_statements"), {})
    assert 0 < row["n"] <= 5
    connection.close()


def test_parameters_are_numbered_and_hints_left_out() -> None:
    statement = rendered("SELECT ':no' || :a::text, :b FROM t NOT INDEXED WHERE x = :a")
    assert statement.text == b"SELECT ':no' || $1::text, $2 FROM t WHERE x = $1"
    assert statement.names == ("a", "b")
    assert rendered("SELECT 1 FROM a CROSS JOIN b AS c ON c.x = a.x").text.endswith(
        b"a JOIN b AS c ON c.x = a.x"
    )
    assert [rendered(sql).has_rows for sql in ("UPDATE t SET x = 1", "DELETE FROM t RETURNING x")] == [
        False,
        True,
    ]


def test_there_are_the_tables_of_a_file_with_the_same_columns(
    address: str, beside: psycopg.Connection
) -> None:
    rows = beside.execute(
        "SELECT table_name, column_name, data_type FROM information_schema.columns"
        " JOIN information_schema.tables USING (table_schema, table_name)"
        " WHERE table_schema = 'public' AND table_type = 'BASE TABLE' ORDER BY table_name, ordinal_position"
    ).fetchall()
    own = {"heads", "leases", "ledger_migrations", "rate_counts"}
    assert own < {table for table, _, _ in rows}
    found = [row for row in rows if row[0] not in own]
    assert found == [
        (table.name, column, "bigint" if column in table.numeric else "text")
        for table in sorted(tables_of_ledger(), key=attrgetter("name"))
        for column in table.columns
    ]
    beside.execute("SELECT * FROM trial_balance, account_activity, event_log LIMIT 1")


def test_a_list_by_type_is_searched_for_by_the_expression_that_is_in_the_index() -> None:
    statement = rendered(
        "SELECT id FROM transactions INDEXED BY transactions_by_type WHERE type = :type AND book = (SELECT 1)"
        " ORDER BY id DESC LIMIT :rows"
    )
    assert statement.text == (
        b"SELECT id FROM transactions WHERE type || book = $1 || (SELECT 1) ORDER BY id DESC LIMIT $2"
    )
    assert statement.names == ("type", "rows")
