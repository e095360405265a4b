"""A PostgreSQL database as the source or the target of a move to another engine (`store/transfer.py`).

Rows go in and out by COPY. While a target is filled its tables have their primary keys alone: the other
indexes and the foreign keys are made at the end, each at once. What they are is kept in the table
`ledger_moving`, and while that is there nothing opens the database as a ledger.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial
from typing import Any

import psycopg
from psycopg import sql

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.ids import moment_of
from ledger_engine.core.settings import named
from ledger_engine.store import kept_time
from ledger_engine.store.postgres import locks, migrations, requirements
from ledger_engine.store.postgres.connection import CONNECT_S, UNLIMITED
from ledger_engine.store.postgres.errors import ConnectionLost, DatabaseFailed, reason_of
from ledger_engine.store.postgres.hosts import connect
from ledger_engine.store.postgres.migrations import PostgresTables
from ledger_engine.store.postgres.snapshot import open_snapshot
from ledger_engine.store.snapshot import ReportRows, Snapshot
from ledger_engine.store.sql_text import SUBSTITUTE, restored, substituted
from ledger_engine.store.transfer import (
    ROWS_AT_ONCE,
    Applied,
    Key,
    LedgerThere,
    Line,
    Table,
    lines_of,
    refusal,
    require_same_project,
)

_LOCK = 0x6C656467  # "ledg": this and the next number let one move at a time fill a database
_ENDING_S = 3  # seconds that the end of another connection may take to be noticed
_SERVED = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name = 'ledger-engine' AND pid <> pg_backend_pid()"
)
_HEADS = "SELECT lock, moment, server FROM heads ORDER BY lock"
# Foreign keys and indexes that are no constraint: what drops each, and what makes it again.
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


class _Ledger:
    """What both ends have in common."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def count(self, table: Table) -> int:
        return int(self._one(f"SELECT count(*) FROM {table.name}"))

    def lines(self, table: Table) -> Iterator[tuple[bytes, int]]:
        query = f"COPY ({table.select(None, '')}) TO STDOUT"
        with self._connection.cursor() as cursor, cursor.copy(query.encode()) as copy:
            for line in copy:
                yield bytes(line), 1

    def first_project(self) -> str | None:
        first: str | None = self._one("SELECT min(id) FROM projects")
        return first

    def _one(self, query: str) -> Any:
        row = self._connection.execute(query.encode()).fetchone()
        return None if row is None else row[0]

    def _moment_of_newest_event(self) -> int:
        newest = self._one(kept_time.NEWEST_EVENT)
        return 0 if newest is None else moment_of(newest)


class PostgresSource(_Ledger):
    """A database that no server uses, read in one transaction. Open with `open_source`."""

    def __init__(self, connection: psycopg.Connection, watch: psycopg.Connection, url: str) -> None:
        super().__init__(connection)
        self._watch = watch
        self._url = url
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        self._heads = connection.execute(_HEADS).fetchall()

    def rows(self, table: Table, after: Key | None) -> Iterator[list[Line]]:
        given = [substituted(value) if isinstance(value, str) else value for value in after or ()]
        query = f"COPY ({table.select(after, '%s')}) TO STDOUT"
        if given:
            query = psycopg.ClientCursor(self._connection).mogrify(query.encode(), given)
        texts = [number for number, name in enumerate(table.columns) if name not in table.numeric]
        rows: list[Line] = []
        with self._connection.cursor() as cursor, cursor.copy(query.encode()) as copy:
            copy.set_types(["int8" if name in table.numeric else "text" for name in table.columns])
            for row in copy.rows():
                rows.append(_restored(row, texts))
                if len(rows) == ROWS_AT_ONCE:
                    yield rows
                    rows = []
        if rows:
            yield rows

    def applied(self) -> Applied:
        found = self._connection.execute("SELECT name, applied_at FROM ledger_migrations ORDER BY name")
        return [(name, at) for name, at in found]

    def reached(self) -> int:
        kept = self._one("SELECT reached FROM kept_time")
        moments = [moment for _, moment, _ in self._heads]
        reached: int = max([*moments, kept, self._moment_of_newest_event()])
        return reached

    def require_unchanged(self) -> None:
        if self._watch.execute(_HEADS).fetchall() != self._heads:
            raise refusal(
                f"{named(self._url)} was changed during the copy. Run the command again to copy the changes."
            )


class PostgresTarget(_Ledger):
    """A database that becomes a ledger. Open with `open_target`."""

    def __init__(self, connection: psycopg.Connection, url: str) -> None:
        super().__init__(connection)
        self._url = url
        connection.execute("SET synchronous_commit TO off")  # what a crash loses is copied again

    def last(self, table: Table) -> Key | None:
        found = self._connection.execute(table.select_last().encode()).fetchone()
        return found and tuple(restored(value) if isinstance(value, str) else value for value in found)

    def write(self, table: Table, rows: list[Line]) -> None:
        with self._connection.cursor() as cursor:
            query = f"COPY {table.name} ({', '.join(table.columns)}) FROM STDIN".encode()
            with cursor.copy(query) as copy:
                copy.write(lines_of(rows))

    def empty(self, table: Table) -> None:
        self._connection.execute(f"TRUNCATE {table.name}".encode())

    def finish(self, applied: Applied, reached: int) -> None:
        with self._connection.transaction():
            made = {statement for _, statement in self._connection.execute(_DEFINITIONS)}
            wanted = self._connection.execute(
                f"SELECT statement FROM {migrations.MOVING} ORDER BY number".encode()
            )
            for (statement,) in wanted.fetchall():
                if statement not in made:
                    self._connection.execute(statement)
            self._connection.execute(
                "SELECT setval(pg_get_serial_sequence('books', 'book'), max(book)) FROM books"
            )
            with self._connection.cursor() as cursor:
                cursor.executemany(
                    "UPDATE ledger_migrations SET applied_at = %s WHERE name = %s",
                    [(at, name) for name, at in applied],
                )
            self._connection.execute(
                "INSERT INTO heads (lock, moment, announced, server) VALUES (%s, %s, 0, 0)"
                " ON CONFLICT (lock) DO UPDATE SET moment = excluded.moment",
                (locks.LEDGER, reached),
            )
        self._connection.execute("ANALYZE")

    def snapshot(self, readers: int, report: ReportRows) -> AbstractContextManager[Snapshot]:
        return open_snapshot(self._url, readers, report, unfinished=True)

    def complete(self) -> None:
        # With this everything before it is on the disk too.
        self._connection.execute("SET synchronous_commit TO on")
        self._connection.execute(f"DROP TABLE {migrations.MOVING}".encode())


@contextmanager
def open_source(url: str) -> Iterator[PostgresSource]:
    """Open a database to copy it. Raises Conflict while a server uses it, and StorageUnavailable."""
    with _errors(url), ExitStack() as stack:
        connection, watch = (stack.enter_context(_connected(url)) for _ in range(2))
        with closing(connect(url, CONNECT_S, UNLIMITED)) as own:
            requirements.require_usable(own, partial(connect, url, CONNECT_S))
            PostgresTables(own).require_ledger()
        served = connection.execute(_SERVED).fetchone()
        if served is not None and served[0]:
            raise refusal(
                f"{named(url)} is in use by a server or a command; stop it, as what it writes would be lost."
            )
        yield PostgresSource(connection, watch, url)


@contextmanager
def open_target(url: str, first_project: str | None) -> Iterator[PostgresTarget]:
    """Open a database to be filled with the ledger that has this first project.

    Raises LedgerThere when it has a ledger, Conflict when it has the unfinished copy of another ledger, and
    StorageUnavailable, also when it has tables of another program.
    """
    with _errors(url), _connected(url) as connection:
        # PostgreSQL notices a moment later that an earlier run was interrupted.
        connection.execute(f"SET lock_timeout TO {_ENDING_S * 1000}".encode())
        try:
            connection.execute("SELECT pg_advisory_lock(%s, 1)", (_LOCK,))
        except psycopg.errors.LockNotAvailable:
            raise refusal(f"Another `ledger-engine migrate` is filling {named(url)}.") from None
        connection.execute("SET lock_timeout TO 0")
        begun = connection.execute("SELECT to_regclass(%s)", (migrations.MOVING,)).fetchone()
        if begun is None or begun[0] is None:
            _prepare(connection, url)
        else:
            with closing(connect(url, CONNECT_S, UNLIMITED)) as own:
                if PostgresTables(own, unfinished=True).pending():
                    raise refusal("The unfinished copy is of an older version; remove it and begin anew.")
        target = PostgresTarget(connection, url)
        require_same_project(first_project, target.first_project())
        yield target


def _prepare(connection: psycopg.Connection, url: str) -> None:
    """Make the tables of a ledger without what is made at the end. Raises Conflict where there are rows."""
    with closing(connect(url, CONNECT_S, UNLIMITED)) as own:
        requirements.require_usable(own, partial(connect, url, CONNECT_S))
        PostgresTables(own).bring_up_to_date()
    with connection.transaction():
        if connection.execute("SELECT 1 FROM projects LIMIT 1").fetchone() is not None:
            raise LedgerThere(f"{named(url)} has a ledger already; name an empty database.")
        moving = sql.Identifier(migrations.MOVING)
        found = connection.execute(_DEFINITIONS).fetchall()
        connection.execute(
            sql.SQL("CREATE TABLE {} (number BIGINT PRIMARY KEY, statement TEXT)").format(moving)
        )
        # Foreign keys last, as they need the indexes.
        ordered = sorted((each[1] for each in found), key=lambda statement: statement.startswith("ALTER"))
        with connection.cursor() as cursor:
            cursor.executemany(
                sql.SQL("INSERT INTO {} (number, statement) VALUES (%s, %s)").format(moving),
                list(enumerate(ordered)),
            )
        for drop, _ in found:
            connection.execute(drop)
        connection.execute("DELETE FROM kept_time")  # the baseline has its row


@contextmanager
def _errors(url: str) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        said = error.diag.message_primary or str(error)
        raise StorageUnavailable(f"{named(url)}: {' '.join(said.split())}") from error
    except (ConnectionLost, DatabaseFailed) as error:
        raise StorageUnavailable(f"{named(url)}: {reason_of(error)}") from error


@contextmanager
def _connected(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(
        url,
        autocommit=True,
        connect_timeout=CONNECT_S,
        application_name="ledger-engine migrate",
        client_encoding="UTF8",
    ) as connection:
        for setting in UNLIMITED:
            connection.execute(setting.encode())
        yield connection


def _restored(row: tuple[Any, ...], texts: list[int]) -> Line:
    """Return a row as it was before PostgreSQL stored it; `texts` are the positions of its texts."""
    for position in texts:
        if (text := row[position]) is not None and SUBSTITUTE in text:
            return [restored(value) if isinstance(value, str) else value for value in row]
    return row
