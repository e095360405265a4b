"""Copies a database file while it is in use, and replaces a database file.

In this module a log is the write-ahead log that SQLite stores next to a database file.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.store import T
from ledger_engine.store.read_snapshot import AuditWork
from ledger_engine.store.sqlite.connection import (
    BUSY_TIMEOUT_MS,
    code_of,
    companions,
    make_private,
    reason_not_opened,
)
from ledger_engine.store.sqlite.inspection import SqliteAuditUnit
from ledger_engine.store.sqlite.log import log_file, require_own_log
from ledger_engine.store.sqlite.migrations import SqliteTables

_CACHE_KB = 65_536  # a smaller cache makes an audit of a large file read the same pages repeatedly
# A copy reads each page once, so a larger cache is useless, and filling it would take a fifth of the time of
# the copy.
_CACHE_OF_COPY_KB = 2_000
_MAPPED_MAX = 2**31 - 1  # bytes
_SMALLEST_PAGE = 512
_HERE, _NO_REPLACE = -100, 1  # the numbers of AT_FDCWD and RENAME_NOREPLACE for renameat2(2)


def copy(source: Path, target: Path) -> None:
    """Copy the database `source`, in its state at one moment, to the new, private file `target`.

    The copy neither stops nor slows writers to the source. Do not call this in a process with an open
    connection to the source (see `require_own_log`). Raises StorageUnavailable if the source is not a ledger,
    and if one of the files cannot be read or written. The message names the file that caused the error, or
    both files if SQLite does not report which file caused the error.
    """
    with closing(open_to_copy(source)) as connection:
        copy_of_open(connection, source, target)


def open_to_copy(source: Path) -> sqlite3.Connection:
    """Open the database `source` for `copy_of_open`. Raises StorageUnavailable as `copy` does."""
    require_own_log(source)
    return open_to_read(source, cache_kb=_CACHE_OF_COPY_KB, up_to_date=False)


def copy_of_open(connection: sqlite3.Connection, source: Path, target: Path, *, durable: bool = True) -> None:
    """Copy as `copy` does, over a connection to the source without an open transaction.

    If `durable` is false, the copy is not synced to the disk, and a power cut can destroy it.
    """
    make_private(target)
    try:
        _copy(connection, target, durable=durable)
    except sqlite3.Error as error:
        raise StorageUnavailable(f"{_at_fault(code_of(error), source, target)}: {error}") from error


def overwrite(connection: sqlite3.Connection, source: Path) -> None:
    """Replace the content of this connection's database by the content of `source`, in one commit.

    Reads that have already begun continue with the old content. Raises StorageUnavailable if `source` is not
    a ledger.
    """
    require_own_log(source)
    with closing(open_to_read(source, cache_kb=_CACHE_OF_COPY_KB)) as source_connection:
        # To map the file into memory saves a system call for each page. If the disk then fails to read a
        # page, the process ends instead of raising an error, but the connection's database is unchanged.
        source_connection.execute(f"PRAGMA mmap_size={_MAPPED_MAX}")
        # With NORMAL, the commit of the replacement does not sync the log; the first commit after it does. A
        # power cut before then loses the replacement, and nothing else.
        connection.execute("PRAGMA synchronous=NORMAL")
        try:
            source_connection.backup(connection, pages=-1)
        finally:
            connection.execute("PRAGMA synchronous=FULL")


def fold(database: Path, target: Path, *, alone: bool) -> int:
    """Create the file `target` from a database and its log; return the number of applied frames of the log.

    A frame of the log is the copy of one page.

    With `alone`, use only the log and not the database; the caller has checked that the log contains every
    page. The database and its log stay unchanged.
    """
    log = log_file(database)
    log_of_target = target.with_name(f"{target.name}-wal")
    make_private(target)
    make_private(log_of_target)
    if alone:
        target.write_bytes(b"\0" * _SMALLEST_PAGE)  # not empty: SQLite deletes the log of an empty file
    else:
        shutil.copyfile(database, target)
    shutil.copyfile(log, log_of_target)
    try:
        with closing(sqlite3.connect(target, isolation_level=None)) as connection:
            frames: int = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1]
            _give_up_log(connection, target)
    except sqlite3.Error as error:
        raise StorageUnavailable(f"{log} cannot be read: {error}") from error
    return frames


def read_copy(file: Path, work: AuditWork[T]) -> T:
    """Run a work that only reads, on a file that no process uses. Raises StorageUnavailable."""
    require_own_log(file)
    try:
        with closing(open_to_read(file)) as connection:
            connection.row_factory = sqlite3.Row
            connection.execute("BEGIN")
            return work(SqliteAuditUnit(connection))
    except sqlite3.Error as error:
        raise StorageUnavailable(f"{file}: {error}") from error


def put_in_place(file: Path, target: Path, *, overwrite: bool) -> None:
    """Rename `file` to `target`, in one step and durably.

    Raises FileExistsError if the target exists and `overwrite` is false. Raises StorageUnavailable if a part
    of `file` is still in its log, or if SQLite would apply the log of an earlier `target` to the new file.
    """
    if any(log.exists() and log.stat().st_size for log in companions(file)):
        raise StorageUnavailable(f"{file} was not closed properly, and part of it is in its log file")
    for log in companions(target):
        if log.exists():
            raise StorageUnavailable(f"{log} belongs to an earlier file named {target.name}")
    _sync(file)
    if overwrite:
        file.replace(target)
    else:
        _rename_to_new(file, target)
    _sync(target.parent)


def replace(database: Path, new: Path, aside: Path, folder: Path) -> None:
    """Replace `database` by the file `new`, and keep the former database as `aside`.

    Call this while you hold the serving lock; `folder` is for intermediate files. At each moment the name
    `database` leads to the whole former database or to the whole new database. `aside` is a copy, so no file
    ever has two names. If the former database cannot be opened, its bytes and its log are copied unchanged.
    If the database is missing, its log is still copied. Raises StorageUnavailable for a database of another
    program, and while another process uses the database.
    """
    if not (database.exists() and _replace_if_sound(database, new, aside, folder)):
        _keep_as_it_is(database, aside, folder)
        put_in_place(new, database, overwrite=True)


def _replace_if_sound(database: Path, new: Path, aside: Path, folder: Path) -> bool:
    """Replace a database that can be opened; return False and change nothing if it cannot be opened."""
    former = folder / "former.db"
    try:
        require_own_log(database)
    except StorageUnavailable:
        return False
    log = log_file(database)
    if log.exists():
        # Copy the log before SQLite opens the file: SQLite deletes a log next to a file that it cannot read.
        _copy_bytes(log, folder / f"{aside.name}-wal")
    try:
        with closing(sqlite3.connect(database, isolation_level=None)) as connection:
            SqliteTables(connection).require_no_others()
            _give_up_log(connection, database)
            # Until the new file is in place no process may open the former database, because changes in it
            # would be lost.
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("COMMIT")
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "delete":
                raise sqlite3.OperationalError("another program has just opened it")
            make_private(former)
            _copy(connection, former)
            put_in_place(former, aside, overwrite=False)
            put_in_place(new, database, overwrite=True)
            return True
    except sqlite3.OperationalError as error:
        # `code_of` is None for the error raised above. SQLITE_PROTOCOL is not in this set, because it means
        # that SQLite failed to unlock the file, and not that another process uses the file.
        in_use = code_of(error) in {None, sqlite3.SQLITE_BUSY}
        raise StorageUnavailable(f"{database}{' is in use' * in_use}: {error}") from error
    except sqlite3.DatabaseError:
        former.unlink(missing_ok=True)
        return False


def _keep_as_it_is(database: Path, aside: Path, folder: Path) -> None:
    """Copy a database and its logs byte for byte, then remove the logs, which do not fit the new file."""
    for file, copy in zip((database, *companions(database)), (aside, *companions(aside)), strict=True):
        temporary = folder / copy.name
        if file.exists() and not temporary.exists() and not file.name.endswith("-shm"):
            _copy_bytes(file, temporary)
        if temporary.exists():
            _rename_to_new(temporary, copy)
    _sync(aside.parent)
    for file in companions(database):
        file.unlink(missing_ok=True)
    _sync(database.parent)


def _copy_bytes(file: Path, target: Path) -> None:
    make_private(target)
    shutil.copyfile(file, target)
    _sync(target)


def _rename_to_new(file: Path, target: Path) -> None:
    """Rename `file` to `target`. Raises FileExistsError if `target` exists.

    On Linux this is one step. On other systems it takes two steps, a check and a rename. To make a hard link
    would take only one step, but would give the file two names for a moment.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        names = (_HERE, os.fsencode(file), _HERE, os.fsencode(target))
        if hasattr(libc, "renameat2"):
            if libc.renameat2(*names, _NO_REPLACE) == 0:
                return
            if ctypes.get_errno() == errno.EEXIST:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    if target.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    file.rename(target)


def _copy(source: sqlite3.Connection, target: Path, *, durable: bool = True) -> None:
    with closing(sqlite3.connect(target)) as new:
        if not durable:
            new.execute("PRAGMA synchronous=OFF")
        # Copy in one step: with several steps, each write by another process would restart the copy.
        source.backup(new, pages=-1)
        # The copy must be one file, without a write-ahead log.
        _give_up_log(new, target)


def _at_fault(code: int | None, source: Path, target: Path) -> str:
    """Return the name of the file that caused an error; `code` is SQLite's primary code of the error."""
    # The source is already open and is only read, so the target causes these errors.
    if code in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN}:
        return str(target)
    # SQLite does not report which file caused an input or output error.
    return f"{source}, copied to {target}" if code == sqlite3.SQLITE_IOERR else str(source)


def _give_up_log(connection: sqlite3.Connection, file: Path) -> None:
    """Move the write-ahead log of `file` into the file, and mark the file as having no log.

    Raises sqlite3.Error while another connection uses the file, and StorageUnavailable if the disk fails:
    SQLite then raises no error, and reports that the mode is unchanged.
    """
    if connection.execute("PRAGMA journal_mode=DELETE").fetchone()[0] != "delete":
        raise StorageUnavailable(f"{file}: its log could not be moved into it")


def open_to_read(file: Path, *, cache_kb: int = _CACHE_KB, up_to_date: bool = True) -> sqlite3.Connection:
    """Open a connection that only reads and never makes a checkpoint.

    Before a process opens the file for the first time, it must call `require_own_log`. Raises
    StorageUnavailable for a file that is not a ledger of this version. If `up_to_date` is false, a ledger of
    an older version is accepted too.
    """
    if not file.is_file():
        raise StorageUnavailable(f"there is no file {file}")
    try:
        connection = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        try:
            connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
            connection.execute("PRAGMA wal_autocheckpoint=0")
            connection.execute("PRAGMA query_only=ON")
            connection.execute("PRAGMA trusted_schema=OFF")
            connection.execute(f"PRAGMA cache_size=-{cache_kb}")
            SqliteTables(connection).require_ledger(up_to_date=up_to_date)
        except BaseException:
            connection.close()
            raise
    except (StorageUnavailable, sqlite3.Error, UnicodeDecodeError) as error:
        raise StorageUnavailable(f"{file}: {reason_not_opened(file, error)}") from error
    return connection


def _sync(path: Path) -> None:
    """Sync a file to the disk; for a folder, sync the names in it."""
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
