"""The tables of a SQLite file, which sqlite-utils creates and records."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path

from ledger_engine.store import schema

RECORD = "_sqlite_migrations"  # the table in which sqlite-utils records the applied migrations
_SET = "ledger"
_RECORDED = f"SELECT name FROM {RECORD} WHERE migration_set = '{_SET}'"
_TABLES = (
    "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
)
_OBJECTS = "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL"
# Lists the indexes that can refuse rows, including the ledger's own: the unique indexes, the partial indexes,
# and the indexes of an expression.
_REFUSING_INDEXES = (
    "SELECT DISTINCT i.name, m.name FROM sqlite_schema AS m, pragma_index_list(m.name) AS i,"
    " pragma_index_xinfo(i.name) AS x WHERE m.type = 'table' AND i.origin = 'c'"
    ' AND (i."unique" OR i.partial OR x.cid = -2)'
)
# Lists the tables with foreign keys, because a foreign key prevents the deletion of the row to which it
# refers.
_REFUSING_TABLES = (
    'SELECT DISTINCT m.name, f."table" FROM sqlite_schema AS m, pragma_foreign_key_list(m.name) AS f'
    " WHERE m.type = 'table'"
)
# ALTER TABLE stores a definition with other spaces and quotes, which do not change its meaning. So
# `schema_differences` compares definitions without these characters.
_MEANINGLESS = str.maketrans("", "", ' \n\t"')


class SqliteTables(schema.Tables):
    """The tables of a file, over a connection without an open transaction."""

    engine = "sqlite"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def names(self) -> list[str]:
        return [name for (name,) in self._connection.execute(_TABLES)]

    def objects(self) -> list[str]:
        return [name for _, name, _ in self._connection.execute(_OBJECTS)]

    def applied(self) -> list[str]:
        if RECORD not in self.names():
            return []
        return [name for (name,) in self._connection.execute(_RECORDED)]

    @contextmanager
    def locked(self) -> Iterator[None]:
        # Sort new indexes in files: in memory this would take 3 GB for ten million transactions.
        (temp_store,) = self._connection.execute("PRAGMA temp_store").fetchone()
        self._connection.execute("PRAGMA temp_store=FILE")
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        finally:
            self._connection.execute(f"PRAGMA temp_store={temp_store}")

    def apply(self, name: str, statements: list[str]) -> None:
        # Imported here, because it takes 40 ms to load and is seldom needed.
        from sqlite_utils import Database
        from sqlite_utils.migrations import Migrations

        def migrate(database: Database) -> None:
            for statement in statements:
                database.execute(statement)

        migrations = Migrations(_SET)
        migrations(name=name)(migrate)
        migrations.apply(Database(self._connection, recursive_triggers=False))


def schema_differences(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """Compare the file with the tables that the migrations make; see `AuditUnit.schema_differences`."""
    definitions = _expected_definitions(schema.FOLDER)
    refusing = dict[str, str]()
    for name, table in connection.execute(_REFUSING_INDEXES):
        if ("table", table) in definitions:
            refusing[name] = f"an index of {table} that is unique, partial or of an expression"
    for name, table in connection.execute(_REFUSING_TABLES):
        if ("table", table) in definitions:
            refusing[name] = f"a table that refers to {table}"
    return schema.schema_differences(_objects(connection), definitions, refusing)


def _objects(connection: sqlite3.Connection) -> dict[schema.Object, str]:
    return {(kind, name): sql.translate(_MEANINGLESS) for kind, name, sql in connection.execute(_OBJECTS)}


@cache
def _expected_definitions(folder: Path) -> dict[schema.Object, str]:
    """Return the definitions of all objects that the migrations in a folder create."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for name in schema.names("sqlite"):
            for statement in schema.statements("sqlite", name):
                connection.execute(statement)
        return _objects(connection)
