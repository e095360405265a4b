"""The audit finds every kind of row that somebody has changed behind the ledger's back."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

import pytest

from ledger_engine.access import projects
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.settings import Location
from ledger_engine.store import Unit
from ledger_engine.store.engine import open_engine, open_snapshot
from ledger_engine.tools.seed import reading
from ledger_engine.tools.seed.loading import Progress, steps_of
from ledger_engine.tools.seed.reading import read
from ledger_engine.tools.seed.turns import load_at_once
from ledger_engine.verify import audit, checks
from ledger_engine.verify.audit import Report
from tests.locations import copy_of_database, execute, place_of_its_own, stored_bytes


@pytest.fixture(scope="module")
def sound(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Location:
    """Return a ledger with every kind of record and no fault."""
    location = place_of_its_own(kind, tmp_path_factory.mktemp("sound"), "sound")
    data_set = read(reading.path("roastery"))

    def work(unit: Unit) -> None:
        load_at_once(
            unit, lambda unit: projects.first_or_new(unit)[0], data_set, steps_of(data_set), Progress()
        )

    async def fill() -> None:
        engine = open_engine(location)
        await engine.write(work)
        await engine.close()

    asyncio.run(fill())
    return location


@pytest.fixture
def ledger(sound: Location, tmp_path: Path) -> Location:
    """Return a copy of that ledger, to be damaged."""
    return copy_of_database(sound) if isinstance(sound, str) else Path(shutil.copy(sound, tmp_path))


def verified(ledger: Location) -> Report:
    with open_snapshot(ledger, 1) as snapshot:
        return snapshot.start(audit.verify).result()


def complaint(ledger: Location) -> str:
    """Return the report on a ledger, whether or not it can be read."""
    try:
        fault = verified(ledger).fault
    except StorageUnavailable as error:
        return error.message
    return "" if fault is None else fault.message


@pytest.mark.slow
def test_the_value_that_is_out_of_range_is_the_one_named(ledger: Location) -> None:
    for column, value in (("balance_after", -(10**17)), ("amount", 10**17)):
        execute(
            ledger,
            f"UPDATE transactions SET {column} = {value} WHERE id = (SELECT min(id) FROM transactions)",
        )
        assert f"has the amount {value}, which is out of range" in complaint(ledger)


def of(table: str, condition: str, offset: int = 0) -> str:
    """Return the id of one of the rows that match."""
    return f"(SELECT id FROM {table} WHERE {condition} ORDER BY id LIMIT 1 OFFSET {offset})"


SIMPLE = of("transactions", "transfer IS NULL AND reverses IS NULL", 200)
CREDIT = of("transactions", "type = 'credit'", 9)
RENT = of("transactions", "description LIKE 'Rent%'")
LAST = "(SELECT max(id) FROM transactions WHERE description LIKE 'Tips from%')"
SIDE = of("transactions", "transfer = id", 20)
OTHER_SIDE = of("transactions", "transfer <> id", 20)
REVERSAL = of("transactions", "reverses IS NOT NULL")
PAID = of("invoices", "status = 'paid' AND lines IS NOT NULL", 5)
DRAFT = of("invoices", "status = 'draft'")
ORDER = of("orders", "status = 'open'")
OPEN = of("invoices", "status = 'open' AND lines IS NOT NULL")

SPOILED = {
    "an amount": (
        f"UPDATE transactions SET amount = amount + 1 WHERE id = {SIMPLE}",
        "each balance follows from the one before",
    ),
    "a type": (
        f"UPDATE transactions SET type = 'debit' WHERE id = {CREDIT}",
        "each balance follows from the one before",
    ),
    "a balance in between": (
        f"UPDATE transactions SET balance_after = balance_after - 1 WHERE id = {SIMPLE}",
        "each balance follows from the one before",
    ),
    "a transaction's account": (
        f"UPDATE transactions SET account = (SELECT max(id) FROM accounts) WHERE id = {SIMPLE}",
        "each balance follows from the one before",
    ),
    "a transaction in between that is gone": (
        f"DELETE FROM transactions WHERE id = {SIMPLE}",
        "each balance follows from the one before",
    ),
    "a last transaction that is gone": (
        f"DELETE FROM transactions WHERE id = {LAST}",
        "an account holds what its last transaction says",
    ),
    "an account's balance": (
        "UPDATE accounts SET balance = balance + 5 WHERE name = 'Operating account'",
        "an account holds what its last transaction says",
    ),
    "a settlement": (
        "UPDATE settlements SET balance = balance + 5 WHERE currency = 'JPY'",
        "a settlement is the other side of all that is no transfer",
    ),
    "a settlement that is gone": (
        "DELETE FROM settlements WHERE currency = 'USD'",
        "a settlement is the other side of all that is no transfer",
    ),
    "an account's currency": (
        "UPDATE accounts SET currency = 'CHF' WHERE name = 'Yen account'",
        "a settlement is the other side of all that is no transfer",
    ),
    "a transaction's mode": (
        f"UPDATE transactions SET book = book + 1 WHERE id = {SIMPLE}",
        "a transaction belongs to its account's project and mode",
    ),
    "an amount beyond all range": (
        f"UPDATE transactions SET amount = {2**60} WHERE id = {SIMPLE}",
        "amounts and balances are in range",
    ),
    "an amount below zero": (
        f"UPDATE transactions SET amount = -amount WHERE id = {SIMPLE}",
        # SQLite finds it first, by the table's own constraint.
        "the storage is sound",
    ),
    "a side of a transfer with another destination": (
        "UPDATE transactions SET destination = (SELECT id FROM accounts WHERE name = 'Tips, to be shared')"
        f" WHERE id = {SIDE}",
        "the two sides of a transfer mirror each other",
    ),
    "a transfer's side that is cut off": (
        f"UPDATE transactions SET transfer = NULL, destination = NULL WHERE id = {OTHER_SIDE}",
        "a settlement is the other side of all that is no transfer",
    ),
    "a transfer under another name": (
        f"UPDATE transactions SET transfer = 'txn_x' WHERE transfer = {SIDE}",
        "the two sides of a transfer mirror each other",
    ),
    "a destination of what is no transfer": (
        f"UPDATE transactions SET destination = (SELECT max(id) FROM accounts) WHERE id = {SIMPLE}",
        "a transfer has a destination of its currency, and nothing else has one",
    ),
    "a reversal of another transaction": (
        f"UPDATE transactions SET reverses = {RENT} WHERE id = {REVERSAL}",
        "a reversal is the opposite of what it reverses",
    ),
    "a draft with a number": (
        f"UPDATE invoices SET number = 'INV-999999' WHERE id = {DRAFT}",
        "an invoice has what its status says",
    ),
    "a payment that is forgotten": (
        f"UPDATE invoices SET payment = NULL WHERE id = {PAID}",
        "an invoice has what its status says",
    ),
    "an invoice paid by itself": (
        f"UPDATE invoices SET status = 'paid', paid_at = opened_at, payment = {SIMPLE} WHERE id = {OPEN}",
        "a paid invoice was paid once and in full",
    ),
    "a paid invoice's amount": (
        f"UPDATE invoices SET amount = amount - 1 WHERE id = {PAID}",
        "a paid invoice was paid once and in full",
    ),
    "an open invoice's amount": (
        f"UPDATE invoices SET amount = amount - 1 WHERE id = {OPEN}",
        "an invoice's lines add up to its amount",
    ),
    "an invoice's lines": (
        f"UPDATE invoices SET lines = replace(lines, '\"quantity\":', '\"quantity\":1') WHERE id = {OPEN}",
        "an invoice's lines add up to its amount",
    ),
    "an invoice's currency": (
        f"UPDATE invoices SET currency = 'CHF' WHERE id = {OPEN}",
        "an invoice is in its account's currency, project and mode",
    ),
    "an invoice number": (
        "UPDATE invoices SET number = 'INV-000900' WHERE number = 'INV-000030'",
        "invoice numbers have no gaps",
    ),
    "an invoice that is gone": (
        "DELETE FROM invoices WHERE number = 'INV-000030'",
        "invoice numbers have no gaps",
    ),
    "the newest invoice that is gone": (
        "DELETE FROM invoices WHERE number = (SELECT max(number) FROM invoices)",
        "the counters have counted right",
    ),
    "the count of stored objects": (
        "UPDATE counters SET stored_objects = stored_objects - 1",
        "the counters have counted right",
    ),
    "the count of invoice numbers": (
        "UPDATE counters SET invoice_numbers = invoice_numbers + 1",
        "the counters have counted right",
    ),
    "an order of nobody": (
        f"UPDATE orders SET user_id = 'usr_x' WHERE id = {ORDER}",
        "the storage is sound",
    ),
    "an order's total": (
        f"UPDATE orders SET total = total + 1 WHERE id = {ORDER}",
        "an order's items add up to its total",
    ),
    "an order's items": (
        f"UPDATE orders SET items = replace(items, 'unit_amount\":', 'unit_amount\":1') WHERE id = {ORDER}",
        "an order's items add up to its total",
    ),
    "an order's items that are no JSON": (
        f"UPDATE orders SET items = 'x' WHERE id = {ORDER}",
        "an order's items add up to its total",
    ),
    "an order's items nested deeper than they can be read": (
        f"UPDATE orders SET items = '{'[' * 100_000}' WHERE id = {ORDER}",
        "an order's items add up to its total",
    ),
    "an invoice's lines that end too soon": (
        f"UPDATE invoices SET lines = '[' WHERE id = {OPEN}",
        "an invoice's lines add up to its amount",
    ),
    "an invoice's lines that are no list": (
        f"""UPDATE invoices SET lines = '{{"a":1}}' WHERE id = {OPEN}""",
        "an invoice's lines add up to its amount",
    ),
    "an invoice's quantity that is text": (
        f"""UPDATE invoices SET lines = '[{{"quantity":"2","unit_amount":1}}]' WHERE id = {OPEN}""",
        "an invoice's lines add up to its amount",
    ),
    "an account's metadata that is no object": (
        "UPDATE accounts SET metadata = '[]' WHERE name = 'Operating account'",
        "what is stored as JSON is a JSON object",
    ),
    "an invoice's metadata that is no JSON": (
        f"UPDATE invoices SET metadata = '{{' WHERE id = {OPEN}",
        "what is stored as JSON is a JSON object",
    ),
    "an event's body that is no JSON": (
        f"UPDATE events SET body = 'x' WHERE id = {of('events', '1 = 1', 7)}",
        "what is stored as JSON is a JSON object",
    ),
    "the event of a posting that does not exist": (
        f"UPDATE events SET object = 'txn_x' WHERE id = {of('events', 'body IS NULL', 7)}",
        "the event of a posting has its transaction, and a delivery its event",
    ),
    "the time of a posting's event": (
        f"UPDATE events SET created = created + 1 WHERE id = {of('events', 'body IS NULL', 7)}",
        "the event of a posting has its transaction, and a delivery its event",
    ),
    "a delivery of an event that does not exist": (
        "INSERT INTO deliveries (id, project, livemode, endpoint, event, status, attempts, retries, created)"
        " SELECT 'dlv_x', project, 1, 'whe_x', 'evt_x', 'failed', 1, 0, 0 FROM books LIMIT 1",
        "the event of a posting has its transaction, and a delivery its event",
    ),
    "an order that is shipped by itself": (
        f"UPDATE orders SET status = 'shipped' WHERE id = {ORDER}",
        "an order or user has what its status says",
    ),
    "a user who is deactivated by itself": (
        "UPDATE users SET status = 'deactivated' WHERE name = 'Jonas Feldkamp'",
        "an order or user has what its status says",
    ),
    "an order's mode": (
        f"UPDATE orders SET livemode = 1 WHERE id = {ORDER}",
        "an order is in its user's project and mode",
    ),
    "a user that is gone": (
        "DELETE FROM users WHERE name = 'Jonas Feldkamp'",
        "the counters have counted right",
    ),
}


def test_a_sound_ledger_has_no_fault_and_is_counted(ledger: Location) -> None:
    report = verified(ledger)
    assert report.fault is None
    assert (report.projects, report.accounts) == (1, 12)
    assert report.transactions > 3000
    assert report.invoices > 50


@pytest.mark.parametrize(("sql", "check"), SPOILED.values(), ids=SPOILED)
def test_the_audit_finds(ledger: Location, sql: str, check: str) -> None:
    execute(ledger, sql)
    fault = verified(ledger).fault
    assert fault is not None
    assert fault.check == check, fault.message


def test_every_check_of_the_audit_can_fail() -> None:
    expected = {check for _, check in SPOILED.values()}
    # Each row of it is a sum of rows that have a check of their own, which comes first.
    implied = {"the books sum to zero"}
    names = {check.name for check in (*checks.CHECKS, *checks.SUMS)} | {checks.OBJECTS_CHECK}
    assert names - expected == implied


def test_the_books_are_summed_apart_from_the_settlements(ledger: Location) -> None:
    execute(ledger, "UPDATE settlements SET balance = balance + 7 WHERE currency = 'EUR'")
    (check,) = [check for check in checks.CHECKS if check.name == "the books sum to zero"]
    with open_snapshot(ledger, 1) as snapshot:
        (row,) = snapshot.start(lambda unit: unit.execute(check.sql)).result()
    assert (row["currency"], row["total"]) == ("EUR", 7)


def test_the_row_that_was_changed_is_the_one_that_is_named(ledger: Location) -> None:
    ((id,),) = execute(ledger, f"SELECT {SIMPLE}")
    execute(ledger, f"UPDATE transactions SET amount = amount + 1 WHERE id = '{id}'")
    fault = verified(ledger).fault
    assert fault is not None
    assert fault.id == id
    assert id in fault.message


def test_the_audit_changes_nothing(ledger: Location) -> None:
    before = stored_bytes(ledger)
    verified(ledger)
    assert stored_bytes(ledger) == before


@pytest.mark.sqlite
def test_a_damaged_page_is_found(ledger: Path) -> None:
    pages = bytearray(ledger.read_bytes())
    size = int.from_bytes(pages[16:18], "big")
    for number in range(40, 60):
        pages[number * size : number * size + 200] = b"\xff" * 200
    ledger.write_bytes(pages)
    assert re.search("malformed|damaged", complaint(ledger))
