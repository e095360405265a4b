"""An index that does not fit its table is found, though no row is looked up in it."""

from __future__ import annotations

import asyncio
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ledger_engine.access import projects
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts, transactions, users
from ledger_engine.ledger.transactions import NewTransaction
from ledger_engine.store import Unit
from ledger_engine.store.engine import open_engine
from ledger_engine.store.sqlite.backup import read_copy
from ledger_engine.verify import audit

# With a comma, and with the character that the audit expects in none.
DESCRIBED = ("Flat white, two", None, "a\x1fb", "x" * 200)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "ledger.db"

    def fill(unit: Unit) -> None:
        tenant = Tenant(projects.first_or_new(unit)[0].id, livemode=False)
        held = [accounts.create(unit, tenant, accounts.NewAccount(name, "EUR", {})).id for name in ("A", "B")]
        posted = [
            transactions.post(
                unit, tenant, NewTransaction(held[number % 2], 5, "credit", DESCRIBED[number % 4])
            )
            for number in range(20)
        ]
        transactions.post(unit, tenant, NewTransaction(held[0], 5, "debit", None, held[1]))
        for number in (3, 4):
            transactions.reverse(unit, tenant, posted[number].id)
        users.create(unit, tenant, users.NewUser("Ada", "ada@example.com", "owner"))

    async def make() -> None:
        engine = open_engine(path)
        await engine.write(fill)
        await engine.close()

    asyncio.run(make())
    return path


@pytest.fixture
def ledger(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(sound, tmp_path))


def change_beside_index(path: Path, index: str, sql: str) -> None:
    """Change a table while its index is taken out of the schema, so that the index stays as it is."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA writable_schema=ON")
        row = connection.execute("SELECT * FROM sqlite_master WHERE name = ?", (index,)).fetchone()
        connection.execute("DELETE FROM sqlite_master WHERE name = ?", (index,))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA foreign_keys=OFF")
        assert connection.execute(sql).rowcount == 1
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", row)


LAST = "(SELECT max(id) FROM transactions WHERE {})"
# The last transaction is a reversal, and a debit.
CHANGES = [
    (
        "transactions_by_account_and_type",
        "account = (SELECT min(account) FROM transactions)"
        f" WHERE id = {LAST.format('account > (SELECT min(account) FROM transactions)')}",
    ),
    ("transactions_by_account_and_type", f"type = 'credit' WHERE id = {LAST.format('true')}"),
    ("transactions_by_type", f"type = 'credit' WHERE id = {LAST.format('true')}"),
    ("transactions_by_transfer", f"transfer = 'txn_x' WHERE id = {LAST.format('transfer IS NOT NULL')}"),
    ("transactions_reversed_once", f"reverses = 'txn_x' WHERE id = {LAST.format('reverses IS NOT NULL')}"),
]


@pytest.mark.parametrize(("index", "change"), CHANGES)
def test_a_row_that_is_not_as_in_its_index_is_found_and_named(ledger: Path, index: str, change: str) -> None:
    change_beside_index(ledger, index, f"UPDATE transactions SET {change}")
    faults = read_copy(ledger, audit.verify).faults
    assert any(f"missing from index {index}" in each.message for each in faults if each.kind == "damage")


def test_an_entry_without_a_transaction_is_found(ledger: Path) -> None:
    change_beside_index(
        ledger, "transactions_by_type", f"DELETE FROM transactions WHERE id = {LAST.format('true')}"
    )
    faults = read_copy(ledger, audit.verify).faults
    assert any("transactions_by_type" in each.message for each in faults)


def disordered(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the file with two neighbouring rows exchanged on a page, and that page, for each page of rows."""
    size = int.from_bytes(data[16:18], "big")
    for start in range(size, len(data), size):
        cells = int.from_bytes(data[start + 3 : start + 5], "big")
        if data[start] == 0x0A and cells > 1:  # a leaf of an index, or of a table without row ids
            page = bytearray(data)
            at = start + 8 + 2 * (cells // 2 - 1)
            page[at : at + 4] = page[at + 2 : at + 4] + page[at : at + 2]
            yield bytes(page), data[start : start + size]


@pytest.mark.parametrize("index", ["transactions_by_type", "transactions_by_account_and_type"])
def test_an_entry_whose_key_is_damaged_among_others_is_found(ledger: Path, index: str) -> None:
    """SQLite compares the keys at both ends of a range, and reads each entry between, whatever its key."""
    with closing(sqlite3.connect(ledger)) as connection:
        posted = connection.execute("SELECT account, id FROM transactions WHERE type = 'credit'").fetchall()
    data = ledger.read_bytes()
    for account, id in posted:
        key, before = b"credit" + id.encode(), account.encode()
        (of_account,) = (at.start() for at in re.finditer(before + key, data))
        (of_type,) = {at.start() for at in re.finditer(key, data)} - {of_account + len(before)}
        damaged = (of_type if index == "transactions_by_type" else of_account) + 2
        ledger.write_bytes(data[:damaged] + b"X" + data[damaged + 1 :])
        faults = read_copy(ledger, audit.verify).faults
        assert any(f"missing from index {index}" in each.message for each in faults)


def test_rows_and_entries_in_a_wrong_order_are_found(ledger: Path) -> None:
    with closing(sqlite3.connect(ledger)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    tried = 0
    for data, page in disordered(ledger.read_bytes()):
        if b"txn_" in page:
            tried += 1
            ledger.write_bytes(data)
            assert "damage" in {each.kind for each in read_copy(ledger, audit.verify).faults}, page
    assert tried == 6, "the table, its four indexes, and the events"
