"""A SQLite file as the source or the target of a copy to another engine (`store/copy_ends.py`)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import cache
from pathlib import Path

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.ids import moment_of
from ledger_engine.store import kept_time
from ledger_engine.store.copy_ends import ROWS_AT_ONCE, Applied, CopiedTable, Line, lines_of, refusal
from ledger_engine.store.files import work_folder
from ledger_engine.store.read_snapshot import ReadSnapshot, ReportRows
from ledger_engine.store.sqlite import backup
from ledger_engine.store.sqlite.connection import companions, make_private
from ledger_engine.store.sqlite.lock import ServingLock
from ledger_engine.store.sqlite.log import require_own_log, require_reachable
from ledger_engine.store.sqlite.migrations import RECORD, SqliteTables
from ledger_engine.store.sqlite.snapshot import open_snapshot

_CACHE_KB = 65_536
_INDEXES = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"


class _File:
    """The base class of `FileSource` and `FileTarget`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.execute(f"PRAGMA cache_size=-{_CACHE_KB}")

    def count(self, table: CopiedTable) -> int:
        (row,) = self._connection.execute(f"SELECT count(*) FROM {table.name}")
        return int(row[0])

    def rows(self, table: CopiedTable) -> Iterator[list[Line]]:
        cursor = self._connection.execute(table.select())
        while rows := cursor.fetchmany(ROWS_AT_ONCE):
            yield rows

    def lines(self, table: CopiedTable) -> Iterator[tuple[bytes, int]]:
        for rows in self.rows(table):
            yield lines_of(rows), len(rows)


class FileSource(_File):
    """A file that nobody serves, read in one transaction. Open it with `open_source`."""

    def __init__(self, connection: sqlite3.Connection, watch: sqlite3.Connection, file: Path) -> None:
        super().__init__(connection)
        self._file = file
        self._watch = watch
        self._version = _version(watch)
        connection.execute("BEGIN")
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()

    def applied(self) -> Applied:
        return self._connection.execute(f"SELECT name, applied_at FROM {RECORD} ORDER BY id").fetchall()

    def reached(self) -> int:
        (reached,) = self._connection.execute("SELECT reached FROM kept_time").fetchone()
        (newest,) = self._connection.execute(kept_time.NEWEST_EVENT).fetchone()
        moment: int = max(reached, 0 if newest is None else moment_of(newest))
        return moment

    def require_unchanged(self) -> None:
        if _version(self._watch) != self._version:
            raise refusal(
                f"{self._file} was changed during the copy, so nothing was copied. Run the command again."
            )


class FileTarget(_File):
    """A new file in a private folder. Open it with `open_target`."""

    def __init__(self, connection: sqlite3.Connection, file: Path) -> None:
        super().__init__(connection)
        self._file = file
        # `open_target` removes an incomplete file, so nothing needs to be undone or to survive a crash.
        connection.execute("PRAGMA journal_mode=OFF")
        connection.execute("PRAGMA synchronous=OFF")
        SqliteTables(connection).bring_up_to_date()
        connection.execute("BEGIN")
        self._indexes = connection.execute(_INDEXES).fetchall()
        for name, _ in self._indexes:  # each index is created at the end, in one step
            connection.execute(f"DROP INDEX {name}")
        connection.execute("DELETE FROM kept_time")  # the first migration has inserted a row

    def write(self, table: CopiedTable, rows: list[Line]) -> None:
        places = ", ".join("?" * len(table.columns))
        self._connection.executemany(
            f"INSERT INTO {table.name} ({', '.join(table.columns)}) VALUES ({places})", rows
        )

    def finish(self, migrations_applied: Applied, moment: int) -> None:
        for _, sql in self._indexes:
            self._connection.execute(sql)
        self._connection.executemany(
            f"UPDATE {RECORD} SET applied_at = ? WHERE name = ?",
            [(at, name) for name, at in migrations_applied],
        )
        # On PostgreSQL each book also stores a time, and `moment` is the latest of all stored times. A server
        # on a file starts its clock after the newest event and after `reached`. So if `moment` is later than
        # the newest event, store `moment` as `reached`.
        (newest,) = self._connection.execute(kept_time.NEWEST_EVENT).fetchone()
        if newest is None or moment_of(newest) < moment:
            self._connection.execute("UPDATE kept_time SET reached = max(reached, ?)", (moment,))
        self._connection.execute("COMMIT")

    def snapshot(self, readers: int, report: ReportRows) -> AbstractContextManager[ReadSnapshot]:
        return open_snapshot(self._file, readers, report)


@contextmanager
def open_source(file: Path) -> Iterator[FileSource]:
    """Open a file to copy it, and keep servers away. Raises StorageUnavailable if a server uses the file."""
    require_reachable(file)
    if not file.is_file():
        raise StorageUnavailable(f"there is no file {file}")
    with ExitStack() as stack:
        stack.callback(ServingLock(file).release)
        require_own_log(file)
        try:
            connection, watch = (stack.enter_context(closing(backup.open_to_read(file))) for _ in range(2))
            yield FileSource(connection, watch, file)
        except sqlite3.Error as error:
            raise StorageUnavailable(f"{file}: {error}") from error


@contextmanager
def open_target(file: Path) -> Iterator[FileTarget]:
    """Open a new file to fill it. The new file gets the name `file` at the end of the block.

    Raises Conflict if `file` exists, and StorageUnavailable.
    """
    require_reachable(file)
    if not file.parent.is_dir():
        raise StorageUnavailable(f"there is no folder {file.parent}")
    file = file.resolve()
    for path in (file, *companions(file)):
        if path.exists():
            raise refusal(f"{path} already exists; name a new file.")
    with work_folder(file.parent) as folder:
        copy = folder / file.name
        make_private(copy)
        try:
            with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
                yield FileTarget(connection, copy)
            backup.put_in_place(copy, file, overwrite=False)
        except sqlite3.Error as error:
            raise StorageUnavailable(f"{file}: {error}") from error
        except FileExistsError:
            raise refusal(f"{file} was created in the meantime, so nothing was copied.") from None


@cache
def ledger_tables() -> tuple[CopiedTable, ...]:
    """Return the tables of a ledger of this version."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        SqliteTables(connection).bring_up_to_date()
        return tuple(_tables(connection))


def _tables(connection: sqlite3.Connection) -> list[CopiedTable]:
    names = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
        " AND name <> ? ORDER BY rowid",
        (RECORD,),
    )
    tables = []
    for (name,) in names.fetchall():
        columns = connection.execute(f"PRAGMA table_info({name})").fetchall()
        key = sorted((position, column) for _, column, _, _, _, position in columns if position)
        tables.append(
            CopiedTable(
                name,
                tuple(column for _, column, *_ in columns),
                frozenset(column for _, column, kind, *_ in columns if kind == "INTEGER"),
                tuple(column for _, column in key),
            )
        )
    return tables


def _version(watch: sqlite3.Connection) -> int:
    (version,) = watch.execute("PRAGMA data_version").fetchone()
    return int(version)
