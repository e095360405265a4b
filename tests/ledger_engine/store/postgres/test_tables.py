"""Changed tables: a server needs all tables, and `verify` compares their definitions."""

from __future__ import annotations

import psycopg
import pytest

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.store.engine import open_engine, open_snapshot
from ledger_engine.verify import audit
from tests.postgres_server import new_database


@pytest.fixture(scope="module")
def ledger() -> str:
    """Return the address of a database of these tests, in which tables may be changed."""
    return new_database("changed")


@pytest.fixture
async def address(ledger: str) -> str:
    with psycopg.connect(ledger, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    await open_engine(ledger).close()
    return ledger


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (
            "DROP INDEX invoices_by_number; CREATE INDEX invoices_by_number"
            " ON invoices (project, livemode, number) WHERE number IS NOT NULL",
            "the index invoices_by_number differs from the ledger's definition",
        ),
        (
            "CREATE TRIGGER doubled BEFORE UPDATE ON orders"
            " FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
            "the trigger doubled does not belong to the ledger",
        ),
        (
            "CREATE OR REPLACE VIEW trial_balance AS SELECT project, CAST('live' AS text) AS mode, currency,"
            " name, balance, balance AS debit, balance AS credit, CAST('assets' AS text) AS root"
            " FROM accounts",
            "the view trial_balance differs from the ledger's definition",
        ),
        (
            "ALTER TABLE transactions DROP CONSTRAINT transactions_amount_check",
            "the constraint transactions_amount_check is missing",
        ),
        (
            "ALTER TABLE orders ALTER total DROP NOT NULL",
            "the table orders differs from the ledger's definition",
        ),
    ],
)
def test_a_changed_table_is_named_by_verify(address: str, change: str, fault: str) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(change.encode())
    with open_snapshot(address, 1) as snapshot:
        faults = snapshot.start(audit.verify).result().faults
    assert [each.message for each in faults] == [f"somebody has changed the tables: {fault}."]


def test_a_server_does_not_start_without_its_unique_indexes(address: str) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP INDEX invoices_by_number, transactions_reversed_once")
    faults = "the index invoices_by_number is missing, the index transactions_reversed_once is missing"
    with pytest.raises(StorageUnavailable, match=f"somebody has changed its tables: {faults};"):
        open_engine(address, serving=True)


def test_additional_tables_and_indexes_are_no_fault(address: str) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE VIEW of_ours AS SELECT id FROM orders; CREATE INDEX ON orders (total)")
        with open_snapshot(address, 1):
            pass
        left = connection.execute("SELECT 1 FROM pg_class WHERE relpersistence = 't' AND relkind = 'r'")
        assert left.fetchall() == []
