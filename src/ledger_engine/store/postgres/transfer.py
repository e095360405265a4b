"""A PostgreSQL database as the source or the target of a copy to another engine (`store/copy_ends.py`).

This module reads and writes rows with COPY. It fills a target in one transaction, so before the commit other
connections do not even see that the target's tables exist. While rows arrive, the tables have only their
primary keys and unique columns. The method `finish` then creates each other index and each foreign key.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import Any

import psycopg

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.ids import moment_of
from ledger_engine.core.settings import named
from ledger_engine.store import kept_time, schema
from ledger_engine.store.copy_ends import ROWS_AT_ONCE, Applied, CopiedTable, Line, lines_of, refusal
from ledger_engine.store.postgres import inspection, locks, migrations, requirements
from ledger_engine.store.postgres.connection import CONNECT_S, UNLIMITED, PostgresConnection
from ledger_engine.store.postgres.errors import ConnectionLost, DatabaseFailed, reason_of
from ledger_engine.store.postgres.hosts import Hosts, connect
from ledger_engine.store.postgres.inspection import PostgresAuditUnit
from ledger_engine.store.postgres.migrations import PostgresTables
from ledger_engine.store.postgres.rendering import rendered
from ledger_engine.store.read_snapshot import ReadSnapshot, ReportRows, UnitReader
from ledger_engine.store.sql_text import SUBSTITUTE, restored

_NAME = "ledger-engine migrate"  # the name of this module's connections in pg_stat_activity
_SERVED = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name = 'ledger-engine' AND pid <> pg_backend_pid()"
)
_A_PROJECT = rendered("SELECT id FROM projects LIMIT 1")
_HEADS = "SELECT lock, moment, server FROM heads ORDER BY lock"
# Returns two statements for each foreign key, and for each index that is not a constraint: one statement
# drops the key or index, and the other statement creates it again.
_DEFINITIONS = """
SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname),
       format('ALTER TABLE %s ADD CONSTRAINT %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
FROM pg_constraint WHERE contype = 'f' AND connamespace = current_schema()::regnamespace
UNION ALL
SELECT format('DROP INDEX %s', indexrelid::regclass), pg_get_indexdef(indexrelid)
FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE relnamespace = current_schema()::regnamespace
    AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conindid = indexrelid)
"""


class PostgresSource:
    """A database that no server uses, read in one transaction. Open it with `open_source`."""

    def __init__(self, connection: psycopg.Connection, watch: psycopg.Connection, url: str) -> None:
        self._connection = connection
        self._watch = watch
        self._url = url
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        self._heads = connection.execute(_HEADS).fetchall()

    def count(self, table: CopiedTable) -> int:
        return int(self._one(f"SELECT count(*) FROM {table.name}"))

    def lines(self, table: CopiedTable) -> Iterator[tuple[bytes, int]]:
        return _lines(self._connection, table)

    def rows(self, table: CopiedTable) -> Iterator[list[Line]]:
        texts = [number for number, name in enumerate(table.columns) if name not in table.numeric]
        rows: list[Line] = []
        with self._connection.cursor() as cursor, cursor.copy(_copy_out(table)) as copy:
            copy.set_types(["int8" if name in table.numeric else "text" for name in table.columns])
            for row in copy.rows():
                rows.append(_restored(row, texts))
                if len(rows) == ROWS_AT_ONCE:
                    yield rows
                    rows = []
        if rows:
            yield rows

    def applied(self) -> Applied:
        rows = self._connection.execute("SELECT name, applied_at FROM ledger_migrations ORDER BY name")
        return [(name, at) for name, at in rows]

    def reached(self) -> int:
        kept_moment = self._one("SELECT reached FROM kept_time")
        newest = self._one(kept_time.NEWEST_EVENT)
        moments = [moment for _, moment, _ in self._heads]
        latest: int = max([*moments, kept_moment, 0 if newest is None else moment_of(newest)])
        return latest

    def require_unchanged(self) -> None:
        if self._watch.execute(_HEADS).fetchall() != self._heads:
            raise refusal(
                f"{named(self._url)} was changed during the copy, so nothing was copied. Run the command"
                " again."
            )

    def _one(self, query: str) -> Any:
        row = self._connection.execute(query.encode()).fetchone()
        return None if row is None else row[0]


class PostgresTarget:
    """A database that becomes a ledger in one transaction. Open it with `open_target`."""

    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection
        self._definitions = migrations.definitions(connection)
        with self._connection.lent() as lent:
            self._recreations = lent.execute(_DEFINITIONS).fetchall()
            for drop, _ in self._recreations:
                lent.execute(drop)
            lent.execute("DELETE FROM kept_time")  # the first migration has inserted a row

    def lines(self, table: CopiedTable) -> Iterator[tuple[bytes, int]]:
        with self._connection.lent() as lent:
            yield from _lines(lent, table)

    def write(self, table: CopiedTable, rows: list[Line]) -> None:
        query = f"COPY {table.name} ({', '.join(table.columns)}) FROM STDIN".encode()
        with self._connection.lent() as lent, lent.cursor() as cursor, cursor.copy(query) as copy:
            copy.write(lines_of(rows))

    def finish(self, migrations_applied: Applied, moment: int) -> None:
        with self._connection.lent() as lent, lent.cursor() as cursor:
            # Foreign keys come last, because they need the indexes.
            for _, make in sorted(
                self._recreations, key=lambda definition: definition[1].startswith("ALTER")
            ):
                cursor.execute(make)
            cursor.execute("SELECT setval(pg_get_serial_sequence('books', 'book'), max(book)) FROM books")
            cursor.executemany(
                "UPDATE ledger_migrations SET applied_at = %s WHERE name = %s",
                [(at, name) for name, at in migrations_applied],
            )
            cursor.executemany(
                "INSERT INTO heads (lock, moment, announced, server) VALUES (%s, %s, 0, 0)"
                " ON CONFLICT (lock) DO UPDATE SET moment = excluded.moment",
                [(lock, moment) for lock in (locks.LEDGER, locks.MOVED)],
            )
            cursor.execute("ANALYZE")

    @contextmanager
    def snapshot(self, readers: int, report: ReportRows) -> Iterator[ReadSnapshot]:
        """Open the target for the audit, with only one reader, because no other transaction sees the rows."""
        differences = schema.schema_differences(
            migrations.definitions(self._connection), self._definitions, {}
        )
        unit = PostgresAuditUnit(self._connection, differences)
        reader = UnitReader(unit, self._connection.interrupt, report)
        with closing(ReadSnapshot([reader], inspection.why_indexes_unchecked(self._connection))) as snapshot:
            yield snapshot


@contextmanager
def open_source(url: str) -> Iterator[PostgresSource]:
    """Open a database to copy it.

    Raises Conflict while a server or a command that writes uses the database. Raises StorageUnavailable.
    """
    with _errors(url), ExitStack() as stack:
        connection, watch = (stack.enter_context(_connected(url)) for _ in range(2))
        with closing(connect(url, CONNECT_S, UNLIMITED)) as own:
            requirements.require_usable(own, partial(connect, url, CONNECT_S))
            PostgresTables(own).require_ledger()
        row = connection.execute(_SERVED).fetchone()
        if row is not None and row[0]:
            raise refusal(
                f"{named(url)} is in use by a server or a command; stop it, or its changes would be lost."
            )
        yield PostgresSource(connection, watch, url)


@contextmanager
def open_target(url: str) -> Iterator[PostgresTarget]:
    """Open a database to fill it in one transaction, which is committed at the end of the block.

    Raises Conflict if the database contains a project, or if the connection was lost during the commit.
    Raises StorageUnavailable, for instance if the database contains tables of another program.
    """
    is_complete = False
    with _errors(url), closing(Hosts(url, _NAME).open(math.inf, UNLIMITED)) as own:
        requirements.require_usable(own, partial(connect, url, CONNECT_S))
        tables = PostgresTables(own)
        tables.pending()  # refuse tables of another program before waiting for a lock
        try:
            with tables.locked():
                tables.apply_pending()
                if own.rows(_A_PROJECT, {}):
                    raise refusal(f"{named(url)} already contains a ledger; name an empty database.")
                yield PostgresTarget(own)
                is_complete = True
        except ConnectionLost as error:
            if is_complete:
                raise refusal(
                    f"The connection to {named(url)} was lost while the copy was committed. Run"
                    " `ledger-engine verify` on that database to see whether the copy is complete."
                ) from error
            raise


@contextmanager
def _errors(url: str) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        message = error.diag.message_primary or str(error)
        raise StorageUnavailable(f"{named(url)}: {' '.join(message.split())}") from error
    except (ConnectionLost, DatabaseFailed) as error:
        raise StorageUnavailable(f"{named(url)}: {reason_of(error)}") from error


@contextmanager
def _connected(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(
        url,
        autocommit=True,
        connect_timeout=CONNECT_S,
        application_name=_NAME,
        client_encoding="UTF8",
    ) as connection:
        for setting in UNLIMITED:
            connection.execute(setting.encode())
        yield connection


def _copy_out(table: CopiedTable) -> bytes:
    return f"COPY ({table.select()}) TO STDOUT".encode()


def _lines(connection: psycopg.Connection, table: CopiedTable) -> Iterator[tuple[bytes, int]]:
    with connection.cursor() as cursor, cursor.copy(_copy_out(table)) as copy:
        for line in copy:
            yield bytes(line), 1


def _restored(row: tuple[Any, ...], texts: list[int]) -> Line:
    """Return a row with the original texts; `texts` are the positions of the text columns in the row."""
    for position in texts:
        if (text := row[position]) is not None and SUBSTITUTE in text:
            return [restored(value) if isinstance(value, str) else value for value in row]
    return row
