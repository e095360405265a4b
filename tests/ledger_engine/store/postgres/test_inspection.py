"""`verify` checks PostgreSQL's indexes if amcheck is installed, and reports if it is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from click.testing import CliRunner
from psycopg import sql

from ledger_engine.cli import main
from ledger_engine.store.postgres import inspection
from ledger_engine.store.postgres.connection import PostgresConnection
from ledger_engine.store.postgres.rendering import rendered
from tests.commands import answer_of_command, run_command
from tests.postgres_server import new_database

pytestmark = pytest.mark.process

INDEX = "transactions_by_type"
# As the extension's: it raises what that raises for an index at fault.
STAND_IN = """
CREATE FUNCTION bt_index_check(index regclass, heapallindexed boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF index::text = '%s' AND heapallindexed THEN
        RAISE EXCEPTION 'heap tuple lacks matching index tuple' USING ERRCODE = '%s';
    END IF;
END $$
"""


@pytest.fixture(scope="module")
def ledger() -> str:
    """Return the address of a ledger with the smallest data set."""
    address = new_database("inspected")
    answer_of_command(address, "seed", "minimal")
    return address


@pytest.fixture
def address(ledger: str) -> Iterator[str]:
    """Return the address of that ledger, without amcheck."""
    yield ledger
    run(ledger, "DROP EXTENSION IF EXISTS amcheck")
    run(ledger, "DROP FUNCTION IF EXISTS bt_index_check")


def run(address: str, statement: str) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(statement.encode())


def test_the_audit_reports_that_indexes_were_not_checked_without_amcheck(address: str) -> None:
    report = answer_of_command(address, "verify")
    assert (report["ok"], report["checked"]["indexes_unchecked"]) == (
        True,
        "the extension amcheck is not installed",
    )
    said = CliRunner().invoke(main, ["verify", "--database", address]).stdout
    assert said.endswith(". The indexes were not checked: the extension amcheck is not installed.\n")
    run(address, STAND_IN % ("none", "XX002"))
    assert answer_of_command(address, "verify")["checked"]["indexes_unchecked"] is None


@pytest.mark.parametrize("index", [INDEX, "accounts_pkey"])
def test_an_index_at_fault_is_named_with_its_table(address: str, index: str) -> None:
    run(address, STAND_IN % (index, "XX002"))
    done = run_command(address, "verify")
    assert done.exit_code == 1
    table = "transactions" if index == INDEX else "accounts"
    said = f"The database is damaged: index {index} of {table}: heap tuple lacks matching index tuple."
    assert said in done.stderr
    assert '"transactions": 16' in done.stdout


def test_the_audit_stops_at_ten_faulty_indexes(address: str) -> None:
    run(address, STAND_IN.replace("index::text = '%s'", "index::text <> ''") % "XX002")
    with closing(PostgresConnection(address, 60)) as connection:
        connection.send(rendered("BEGIN"))
        found = inspection.faults(connection)
        assert connection.rows(rendered("SELECT 1 AS one"), {})[0]["one"] == 1, "the transaction goes on"
    assert len(found) == 10
    assert all("heap tuple lacks matching index tuple" in fault for fault in found)


def test_a_check_that_fails_is_not_taken_for_a_sound_index(address: str) -> None:
    run(address, STAND_IN % (INDEX, "53200"))
    done = run_command(address, "verify")
    assert done.exit_code == 1
    assert "damaged" not in done.stderr
    assert "heap tuple lacks matching index tuple" in done.stderr


def test_the_audit_reports_that_the_role_may_not_use_amcheck(address: str) -> None:
    run(address, STAND_IN % (INDEX, "XX002"))
    role = sql.Identifier("ledger_that_reads")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(role))
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN IN ROLE pg_read_all_data").format(role))
        connection.execute("REVOKE EXECUTE ON FUNCTION bt_index_check FROM public")
        host, name = connection.info.host, connection.info.dbname
        try:
            report = answer_of_command(f"postgresql://ledger_that_reads@/{name}?host={host}", "verify")
        finally:
            connection.execute(sql.SQL("DROP ROLE {}").format(role))
    reason = "the role may not execute bt_index_check of amcheck"
    assert (report["ok"], report["checked"]["indexes_unchecked"]) == (True, reason)


def test_amcheck_finds_an_index_that_lacks_a_row(address: str) -> None:
    with psycopg.connect(address) as connection:
        offered = connection.execute("SELECT name FROM pg_available_extensions").fetchall()
    if ("amcheck",) not in offered:
        pytest.skip("needs the extension amcheck, which PostgreSQL by pip does not have")
    run(address, "CREATE EXTENSION amcheck")
    assert answer_of_command(address, "verify")["checked"]["indexes_unchecked"] is None
    ready = f"UPDATE pg_index SET indisready = %s WHERE indexrelid = '{INDEX}'::regclass"
    run(address, ready % "false")
    run(address, "UPDATE transactions SET transfer = id WHERE transfer IS NULL")
    run(address, ready % "true")
    try:
        assert f"index {INDEX} of transactions: " in run_command(address, "verify").stderr
    finally:
        run(address, "UPDATE transactions SET transfer = NULL WHERE destination IS NULL")
        run(address, f"REINDEX INDEX {INDEX}")
