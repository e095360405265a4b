"""Copies of a database file while it is in use, and a file put in the place of another."""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from ledger_engine.core.clock import SystemClock
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.ids import IdSource
from ledger_engine.database import T, Work
from ledger_engine.database.connection import BUSY_TIMEOUT_MS, companions, make_private
from ledger_engine.database.unit import SqliteUnit

_CACHE_KB = 65_536  # with less an audit of a large file reads the same pages over and over


@contextmanager
def copied_beside(source: Path, target: Path) -> Iterator[Path]:
    """A copy of `source` as it is at one moment, in the folder of `target`; removed at the end if left.

    Whoever writes to the source meanwhile is neither stopped nor slowed. The copy is a single file that
    only its owner can read. Raises StorageUnavailable, also when the source is no database.
    """
    copy = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        make_private(copy)
        with closing(_open(source)) as original, closing(sqlite3.connect(copy)) as new:
            # In one step: between several, each write by another process would start the copy again.
            original.backup(new, pages=-1)
            # The copy is to be one file, with no write-ahead log beside it.
            new.execute("PRAGMA journal_mode=DELETE")
        yield copy
    except sqlite3.Error as error:
        raise StorageUnavailable(f"{source}: {error}") from error
    finally:
        for file in (copy, *companions(copy)):
            file.unlink(missing_ok=True)


def look(file: Path, work: Work[T]) -> T:
    """Run a reading work on a file that nobody uses, changing not a byte of it. Raises StorageUnavailable."""
    try:
        with closing(_open(file)) as connection:
            connection.row_factory = sqlite3.Row
            connection.execute("BEGIN")
            return work(SqliteUnit(connection, SystemClock(), IdSource()))
    except sqlite3.Error as error:
        raise StorageUnavailable(f"{file}: {error}") from error


def put_in_place(file: Path, target: Path, *, overwrite: bool) -> None:
    """Give `file` the name `target`, in one step and durably.

    Raises FileExistsError unless it may overwrite, and StorageUnavailable for a file that is still open, and
    where a log lies that would be taken for that of the file.
    """
    if any(each.exists() and each.stat().st_size for each in companions(file)):
        raise StorageUnavailable(f"{file} was not closed, and part of it is in its log")
    for log in companions(target):
        if log.exists():
            raise StorageUnavailable(f"{log} is left of another file of that name")
    _sync(file)
    if overwrite:
        file.replace(target)
    else:
        try:
            os.link(file, target)  # fails where `replace` would overwrite
        except FileExistsError:
            raise
        except OSError:
            # A file system without hard links cannot do both in one step.
            if target.exists():
                raise FileExistsError(target) from None
            file.replace(target)
        file.unlink(missing_ok=True)
    _sync(target.parent)


def set_aside(database: Path, aside: Path) -> None:
    """Keep what is at `database` under the name `aside` too, whole and by itself.

    For a process that holds the serving lock. Raises StorageUnavailable while anyone else uses the file.
    A file so damaged that it cannot be opened is kept as it is, with its write-ahead log; so is a log whose
    file is gone.
    """
    names = list(zip((database, *companions(database)), (aside, *companions(aside)), strict=True))
    if not database.exists():
        for file, kept in names:
            if file.exists():
                file.rename(kept)
        return
    # Before the file is opened: SQLite throws away a log that does not seem to belong to it.
    linked = [_keep(file, kept) for file, kept in names if file.exists()]
    try:
        with closing(sqlite3.connect(database, isolation_level=None)) as connection:
            # Folds the write-ahead log into the file, which takes that nobody else has it open.
            connection.execute("PRAGMA journal_mode=DELETE")
        superfluous = [kept for _, kept in names[1:]] if all(linked) else []
    except sqlite3.OperationalError as error:
        for _, kept in names:
            kept.unlink(missing_ok=True)
        raise StorageUnavailable(f"{database} is in use: {error}") from error
    except sqlite3.DatabaseError:
        # A log that is left would be taken for that of the file which comes into this one's place.
        superfluous = [file for file, _ in names[1:]]
    for file in superfluous:
        file.unlink(missing_ok=True)


def _keep(file: Path, kept: Path) -> bool:
    """Give a file a second name, or make a copy of it where that cannot be: False then."""
    try:
        os.link(file, kept)
    except FileExistsError:
        raise
    except OSError:
        shutil.copy2(file, kept)
        return False
    return True


def _open(file: Path) -> sqlite3.Connection:
    """A connection that reads a file which must be there, and never checkpoints."""
    if not file.is_file():
        raise StorageUnavailable(f"there is no file {file}")
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    connection.execute("PRAGMA wal_autocheckpoint=0")
    connection.execute("PRAGMA query_only=ON")
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute(f"PRAGMA cache_size=-{_CACHE_KB}")
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'projects'").fetchone() is None:
        connection.close()
        raise StorageUnavailable(f"{file} is no ledger")
    return connection


def _sync(path: Path) -> None:
    """Have the system write it to the disk; a folder, so that the names in it last."""
    if sys.platform == "win32" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
