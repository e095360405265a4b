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
from ledger_engine.database.engine import open_engine


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as connection:
        yield connection


def schema(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    return connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()


ALL = migrations.ledger.pending(Database(memory=True))


def first_migrations(count: int) -> Migrations:
    """The migrations as an older version of the ledger had them."""
    older = Migrations("ledger")
    for migration in ALL[:count]:
        older(name=migration.name)(migration.fn)
    return older


def test_a_second_run_changes_nothing(connection: sqlite3.Connection) -> None:
    migrations.apply(connection)
    before = schema(connection), connection.execute("PRAGMA data_version").fetchall()
    migrations.apply(connection)
    assert (schema(connection), connection.execute("PRAGMA data_version").fetchall()) == before
    applied = connection.execute("SELECT name FROM _sqlite_migrations ORDER BY id").fetchall()
    assert applied == [(migration.name,) for migration in ALL]


@pytest.mark.parametrize("count", range(1, len(ALL)))
def test_an_older_file_becomes_what_a_new_one_is(
    count: int, connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "ledger", first_migrations(count))
        migrations.apply(connection)
    migrations.apply(connection)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as new:
        migrations.apply(new)
        assert schema(connection) == schema(new)


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
