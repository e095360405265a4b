"""From an empty or an older file to the tables of this version, all or nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.database import migrations
from ledger_engine.database.backup import read_copy
from ledger_engine.database.engine import open_engine
from ledger_engine.ledger import descriptions
from ledger_engine.ledger.descriptions import SHORT_MAX
from ledger_engine.upkeep import audit


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as connection:
        yield connection


def schema(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    return connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()


TENANT = ("project", "livemode")
KEPT = {
    "transactions": (
        *("id", *TENANT, "account", "amount", "type", "description", "balance_after", "destination"),
        *("transfer", "reverses", "created"),
    ),
    "events": ("id", *TENANT, "type", "object", "body", "request", "created"),
    "invoices": ("id", *TENANT, "account", "customer", "amount", "status", "number", "payment", "paid_at"),
    "deliveries": ("id", *TENANT, "endpoint", "event", "status", "attempts", "retries", "created"),
}
ALL = migrations.ledger.pending(Database(memory=True))


def first_migrations(count: int) -> Migrations:
    """Return the migrations as an older version of the ledger had them."""
    older = Migrations("ledger")
    for migration in ALL[:count]:
        older(name=migration.name)(migration.fn)
    return older


def apply_first(count: int, connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the file one of an older version of the ledger."""
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "ledger", first_migrations(count))
        migrations.apply(connection)


def test_a_second_run_changes_nothing(
    connection: sqlite3.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    migrations.apply(connection)
    before = schema(connection), connection.execute("PRAGMA data_version").fetchall()
    migrations.apply(connection)
    assert (schema(connection), connection.execute("PRAGMA data_version").fetchall()) == before
    applied = connection.execute("SELECT name FROM _sqlite_migrations ORDER BY id").fetchall()
    assert applied == [(migration.name,) for migration in ALL]
    assert caplog.messages == [], "only a ledger that is there is brought up to date"


@pytest.mark.parametrize("count", range(1, len(ALL)))
def test_an_older_file_becomes_what_a_new_one_is(
    count: int,
    connection: sqlite3.Connection,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    apply_first(count, connection, monkeypatch)
    migrations.apply(connection)
    (told,) = caplog.messages
    assert told.startswith("bringing the ledger up to date")
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as new:
        migrations.apply(new)
        assert schema(connection) == schema(new)


BEFORE_BOOKS = 11
OLD_ROWS = """
INSERT INTO projects (id, name, plan, created) VALUES
    ('prj_1', 'Roastery', 'pro', 1), ('prj_2', 'Bar', 'free', 1);
INSERT INTO accounts (id, project, livemode, name, currency, balance, created) VALUES
    ('acc_1', 'prj_1', 0, 'Till', 'EUR', 70, 1), ('acc_2', 'prj_1', 0, 'Bank', 'EUR', 30, 1),
    ('acc_3', 'prj_2', 1, 'Till', 'EUR', 5, 1);
INSERT INTO settlements (project, livemode, currency, balance) VALUES
    ('prj_1', 0, 'EUR', -100), ('prj_2', 1, 'EUR', -5);
INSERT INTO transactions (id, project, livemode, account, amount, type, description, balance_after,
    destination, transfer, reverses, created) VALUES
    ('txn_1', 'prj_1', 0, 'acc_1', 100, 'credit', 'Takings ☕', 100, NULL, NULL, NULL, 2),
    ('txn_2', 'prj_1', 0, 'acc_1', 30, 'debit', NULL, 70, 'acc_2', 'txn_2', NULL, 3),
    ('txn_3', 'prj_1', 0, 'acc_2', 30, 'credit', NULL, 30, 'acc_1', 'txn_2', NULL, 3),
    ('txn_4', 'prj_2', 1, 'acc_3', 5, 'credit', NULL, 5, NULL, NULL, NULL, 4),
    ('txn_5', 'prj_1', 0, 'acc_1', 9, 'credit', NULL, 79, NULL, NULL, NULL, 5),
    ('txn_6', 'prj_1', 0, 'acc_1', 9, 'debit', NULL, 70, NULL, NULL, 'txn_5', 6);
INSERT INTO invoices (id, project, livemode, account, customer, currency, amount, status, number, payment,
    opened_at, paid_at, created)
    VALUES ('inv_1', 'prj_1', 0, 'acc_1', 'Ada', 'EUR', 100, 'paid', 'INV-000001', 'txn_1', 2, 2, 1);
INSERT INTO counters (project, livemode, stored_objects, invoice_numbers) VALUES
    ('prj_1', 0, 8, 1), ('prj_2', 1, 2, 0);
INSERT INTO events (id, project, livemode, type, object, body, request, created) VALUES
    ('evt_1', 'prj_1', 0, 'transaction.created', 'txn_1', '{"as": "it was"}', 'req_1', 2),
    ('evt_2', 'prj_2', 1, 'transaction.created', 'txn_4', '{}', NULL, 4);
INSERT INTO deliveries (id, project, livemode, endpoint, event, status, attempts, retries, created)
    VALUES ('dlv_1', 'prj_1', 0, 'whe_1', 'evt_1', 'succeeded', 1, 0, 2)
"""


def test_a_file_from_before_books_keeps_every_row(
    tmp_path: Path, connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply_first(BEFORE_BOOKS, connection, monkeypatch)
    connection.executescript(OLD_ROWS)
    with pytest.raises(StorageUnavailable, match="older version"):
        read_copy(tmp_path / "ledger.db", audit.verify)
    before = {
        table: connection.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY id").fetchall()
        for table, columns in KEPT.items()
    }
    connection.execute("PRAGMA foreign_keys=ON")
    migrations.apply(connection)
    for table, columns in KEPT.items():
        booked = "JOIN books USING (book)" if table in ("transactions", "events") else ""
        kept = connection.execute(f"SELECT {', '.join(columns)} FROM {table} {booked} ORDER BY id").fetchall()
        assert kept == before[table]
    assert connection.execute("SELECT count(*) FROM books").fetchone() == (4,)
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert read_copy(tmp_path / "ledger.db", audit.verify).fault is None


BEFORE_LONG_DESCRIPTIONS = 20


def test_a_long_description_from_before_they_were_stored_apart_is_kept(
    tmp_path: Path, connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply_first(BEFORE_LONG_DESCRIPTIONS, connection, monkeypatch)
    connection.executescript(
        """
INSERT INTO projects (id, name, plan, created) VALUES ('prj_1', 'Roastery', 'pro', 1);
INSERT INTO books (book, project, livemode) VALUES (1, 'prj_1', 0);
INSERT INTO accounts (id, project, livemode, name, currency, created)
    VALUES ('acc_1', 'prj_1', 0, 'Till', 'EUR', 1)"""
    )
    given = ["é" * length for length in (SHORT_MAX, SHORT_MAX + 1, 500)]
    connection.executemany(
        "INSERT INTO transactions (book, id, account, amount, type, description, balance_after, created)"
        " VALUES (1, ?, 'acc_1', 1, 'credit', ?, 1, 1)",
        [(f"txn_{number}", description) for number, description in enumerate(given)],
    )
    with pytest.raises(StorageUnavailable, match="older version"):
        read_copy(tmp_path / "ledger.db", audit.verify)
    migrations.apply(connection)
    stored = connection.execute("SELECT description, long_description FROM transactions ORDER BY id")
    assert stored.fetchall() == [descriptions.stored(each) for each in given]
    shown = connection.execute('SELECT description FROM account_activity ORDER BY "transaction"')
    assert [description for (description,) in shown] == given


def test_a_migration_that_fails_leaves_the_file_as_it_was(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = first_migrations(len(ALL))

    @failing(name="m999_fails_half_way")
    def fail(database: Database) -> None:
        database.execute("CREATE TABLE half_way (id TEXT)")
        database.execute("CREATE TABLE projects (id TEXT)")

    with monkeypatch.context() as patch:
        patch.setattr(migrations, "ledger", failing)
        with pytest.raises(sqlite3.OperationalError, match="projects already exists"):
            migrations.apply(connection)
    assert not connection.in_transaction
    assert schema(connection) == []
    migrations.apply(connection)
    assert ("half_way",) not in connection.execute("SELECT name FROM sqlite_schema").fetchall()


def test_a_file_from_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrations.apply(connection)
        connection.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at)"
            " VALUES ('ledger', 'm998_time', '')"
        )
        connection.execute("CREATE TABLE of_tomorrow (id TEXT)")
        before = schema(connection)
    with pytest.raises(StorageUnavailable, match="newer version") as refused:
        open_engine(path)
    assert "m998_time" in refused.value.message
    with closing(sqlite3.connect(path)) as connection:
        assert schema(connection) == before


def test_every_table_is_strict_and_holds_text_and_integers_only(connection: sqlite3.Connection) -> None:
    migrations.apply(connection)
    tables = connection.execute(
        "SELECT name, strict FROM pragma_table_list"
        " WHERE schema = 'main' AND type = 'table' AND name NOT GLOB '*sqlite_*'"
    ).fetchall()
    assert len(tables) > 10
    assert [name for name, strict in tables if not strict] == []
    types = connection.execute(
        "SELECT DISTINCT c.type FROM pragma_table_list AS t, pragma_table_info(t.name) AS c"
        " WHERE t.schema = 'main' AND t.type = 'table' AND t.name NOT GLOB '*sqlite_*'"
    ).fetchall()
    assert {type for (type,) in types} == {"TEXT", "INTEGER"}
