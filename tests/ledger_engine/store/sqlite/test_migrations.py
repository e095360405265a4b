"""From an empty or an older file to the tables of this version, all or nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.store import schema
from ledger_engine.store.engine import open_engine
from ledger_engine.store.sqlite.backup import read_copy
from ledger_engine.store.sqlite.migrations import SqliteTables
from ledger_engine.verify import audit
from tests.made_once import put_empty_ledger
from tests.versions import LATER, put_later_schema, put_ledger_before_baseline


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as connection:
        yield connection


def tables(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    return connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()


def recorded(connection: sqlite3.Connection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT name FROM _sqlite_migrations ORDER BY id")]


def test_a_second_run_changes_nothing(
    connection: sqlite3.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    SqliteTables(connection).bring_up_to_date()
    before = tables(connection), connection.execute("PRAGMA data_version").fetchall()
    SqliteTables(connection).bring_up_to_date()
    assert (tables(connection), connection.execute("PRAGMA data_version").fetchall()) == before
    assert recorded(connection) == schema.names("sqlite")
    assert caplog.messages == [], "only a ledger that is there is brought up to date"


def test_an_older_file_cannot_be_read_and_is_brought_up_to_date_by_the_next_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = put_empty_ledger(tmp_path / "older.db")
    monkeypatch.setattr(schema, "FOLDER", put_later_schema(tmp_path))
    with pytest.raises(StorageUnavailable) as refused:
        read_copy(path, audit.verify)
    assert refused.value.reason == f"{path}: {schema.NOT_UP_TO_DATE}"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        SqliteTables(connection).bring_up_to_date()
        assert recorded(connection) == schema.names("sqlite")
        assert connection.execute("SELECT count(*) FROM later").fetchone() == (0,)
    assert caplog.messages == [f"bringing the ledger up to date, which takes minutes if it is large: {LATER}"]
    assert read_copy(path, audit.verify).fault is None


def test_retries_that_were_postponed_keep_their_time(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = schema.names("sqlite")
    before = [name for name in every if name < "006"]
    monkeypatch.setattr(schema, "names", lambda _: before)
    SqliteTables(connection).bring_up_to_date()
    connection.execute("UPDATE kept_time SET put_off = 500, trusted = 17")
    rows = [("pending", 1_000), ("succeeded", None)]
    for number, (status, due) in enumerate(rows):
        connection.execute(
            "INSERT INTO deliveries (id, project, livemode, endpoint, event, status, attempts, retries, due,"
            " attempted_at, created) VALUES (?, 'p', 0, 'e', ?, ?, 1, 1, ?, 1, 1)",
            (f"dlv_{number}", f"evt_{number}", status, due),
        )
    monkeypatch.setattr(schema, "names", lambda _: every)
    SqliteTables(connection).bring_up_to_date()
    assert connection.execute("SELECT due FROM deliveries ORDER BY id").fetchall() == [(1_500,), (None,)]
    assert connection.execute("SELECT * FROM kept_time").fetchall() == [(1, 0, 17)]


def test_only_the_columns_that_continued_a_load_are_dropped_from_seeds(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = schema.names("sqlite")
    before = [name for name in every if name < "007"]
    monkeypatch.setattr(schema, "names", lambda _: before)
    SqliteTables(connection).bring_up_to_date()
    connection.execute("INSERT INTO projects (id, name, plan, created) VALUES ('prj_1', 'P', 'free', 1)")
    connection.execute("INSERT INTO seeds VALUES ('prj_1', 'roastery', 'f', 1, 's', 2, 3)")
    monkeypatch.setattr(schema, "names", lambda _: every)
    SqliteTables(connection).bring_up_to_date()
    assert connection.execute("SELECT * FROM seeds").fetchall() == [("prj_1", "roastery")]


def test_a_ledger_from_before_version_1_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = put_ledger_before_baseline(tmp_path / "ledger.db")
    before = path.read_bytes()
    for refuse in (lambda: open_engine(path), lambda: read_copy(path, audit.verify)):
        with pytest.raises(StorageUnavailable, match=r"was written before version 1\.0"):
            refuse()
    assert path.read_bytes() == before


def test_a_migration_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    half_way = "CREATE TABLE half_way (id TEXT);\nCREATE TABLE projects (id TEXT);\n"
    with monkeypatch.context() as patch:
        patch.setattr(schema, "FOLDER", put_later_schema(tmp_path, sqlite=half_way))
        with pytest.raises(sqlite3.OperationalError, match="projects already exists"):
            SqliteTables(connection).bring_up_to_date()
    assert not connection.in_transaction
    assert tables(connection) == []
    SqliteTables(connection).bring_up_to_date()
    assert ("half_way",) not in connection.execute("SELECT name FROM sqlite_schema").fetchall()


def test_a_file_from_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = put_empty_ledger(tmp_path / "ledger.db")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at)"
            " VALUES ('ledger', '998_time', '')"
        )
        connection.execute("CREATE TABLE of_tomorrow (id TEXT)")
        before = tables(connection)
    with pytest.raises(StorageUnavailable, match=r"newer version of the ledger \(998_time\)"):
        open_engine(path)
    with closing(sqlite3.connect(path)) as connection:
        assert tables(connection) == before


def test_every_table_is_strict_and_holds_text_and_integers_only(connection: sqlite3.Connection) -> None:
    SqliteTables(connection).bring_up_to_date()
    found = connection.execute(
        "SELECT name, strict FROM pragma_table_list"
        " WHERE schema = 'main' AND type = 'table' AND name NOT GLOB '*sqlite_*'"
    ).fetchall()
    assert len(found) > 10
    assert [name for name, strict in found if not strict] == []
    types = connection.execute(
        "SELECT DISTINCT c.type FROM pragma_table_list AS t, pragma_table_info(t.name) AS c"
        " WHERE t.schema = 'main' AND t.type = 'table' AND t.name NOT GLOB '*sqlite_*'"
    ).fetchall()
    assert {type for (type,) in types} == {"TEXT", "INTEGER"}


def test_both_engines_have_the_same_migrations() -> None:
    assert schema.names("sqlite") == schema.names("postgres")
    assert schema.names("sqlite")[0] == schema.BASELINE


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (
            "DROP INDEX invoices_by_number; CREATE INDEX invoices_by_number"
            " ON invoices (project, livemode, number) WHERE number IS NOT NULL",
            "the index invoices_by_number differs from the ledger's definition",
        ),
        (
            "CREATE TRIGGER doubled AFTER INSERT ON orders BEGIN SELECT 1; END",
            "the trigger doubled does not belong to the ledger",
        ),
        (
            "DROP VIEW event_log; CREATE VIEW event_log AS SELECT 1 AS event",
            "the view event_log differs from the ledger's definition",
        ),
    ],
)
def test_tables_that_somebody_has_changed_are_named(tmp_path: Path, change: str, fault: str) -> None:
    path = put_empty_ledger(tmp_path / "ledger.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(change)
    faults = read_copy(path, audit.verify).faults
    assert [each.message for each in faults] == [f"somebody has changed the tables: {fault}."]


def test_a_file_without_its_unique_indexes_is_not_opened_and_all_of_them_are_named(tmp_path: Path) -> None:
    path = put_empty_ledger(tmp_path / "ledger.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("DROP INDEX invoices_by_number; DROP INDEX transactions_reversed_once")
    faults = "the index invoices_by_number is missing, the index transactions_reversed_once is missing"
    with pytest.raises(StorageUnavailable, match=f"somebody has changed its tables: {faults};"):
        open_engine(path)
    named = [each.object for each in read_copy(path, audit.verify).faults]
    assert named == ["invoices_by_number", "transactions_reversed_once"]
