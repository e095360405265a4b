"""Opens connections to a SQLite file, and puts SQLite's errors into words."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import time
from pathlib import Path

from ledger_engine.core.errors import NO_MEMORY, LedgerError, StorageUnavailable
from ledger_engine.store import schema
from ledger_engine.store.sqlite.log import require_file_of_log
from ledger_engine.store.sqlite.migrations import SqliteTables

BUSY_TIMEOUT_MS = 5000
# Checkpoint when the write-ahead log reaches this many pages (16 MB). Each group of postings to a busy
# account writes the same pages again. With SQLite's default of 1000 pages, a checkpoint every ten groups
# copied these pages into the database, which took a twentieth of the postings' time. Up to 4062 pages of the
# log share one index, so below this number readers find a page in one lookup.
CHECKPOINT_PAGES = 4000
# A batch of 1,000 transactions writes 1.4 MB of new pages and some hundred old pages. Together they do not
# fit into SQLite's default cache of 2 MB, and reading the same pages again took a seventh of the batch's
# time.
WRITER_CACHE_KB = 8000
# The inner pages of a large book's indexes do not fit into SQLite's default cache of 2 MB. A cache over 8 MB
# is no faster, neither with 100,000 nor with five million transactions. Each of the five reading connections
# may fill its cache by reading long objects, so a larger cache only takes memory.
READER_CACHE_KB = 8_000

_PRAGMAS = (
    "PRAGMA synchronous=FULL",
    "PRAGMA foreign_keys=ON",
    "PRAGMA trusted_schema=OFF",
    "PRAGMA cell_size_check=ON",
    "PRAGMA journal_size_limit=67108864",
    # Keep the undo data of savepoints in memory: to write it to a file took a fifth of the time of a posting.
    "PRAGMA temp_store=MEMORY",
)
# After one of these errors the state of the connection is unreliable, so the database opens a new connection.
FATAL = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN}
_OUR_MISTAKES = {
    None,
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_MISUSE,
}

Identity = tuple[int, int]  # a file's device and inode


def connect(path: Path, *, checkpoints: bool, query_only: bool = False) -> sqlite3.Connection:
    """Open a connection to an existing file, and set our options for durability, caches and checks.

    Raises StorageUnavailable for a file of another program, but not if the file already has a write-ahead
    log.
    """
    require_file_of_log(path)
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=512,
    )
    try:
        connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        _use_write_ahead_log(connection)
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES if checkpoints else 0}")
        connection.execute(f"PRAGMA cache_size=-{READER_CACHE_KB if query_only else WRITER_CACHE_KB}")
        connection.execute(f"PRAGMA query_only={'ON' if query_only else 'OFF'}")
    except BaseException:
        connection.close()
        raise
    connection.row_factory = sqlite3.Row
    return connection


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch the file to a write-ahead log.

    SQLite stores this setting in the file, so this function first refuses a file of another program.

    If another connection is switching the same new file, SQLite reports an error at once, so this function
    tries again. SQLite does not wait, because two connections that both read and wait to write would wait
    for each other for ever.
    """
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                # Raises an error for another program's file before anything is changed.
                SqliteTables(connection).pending()
                connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if code_of(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.005)


def make_private(path: Path) -> None:
    """Create an empty file that only its owner can read.

    If the file exists and is empty, only remove the rights of other users. If it has content, change nothing.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if path.stat().st_size == 0:
            close_to_others(path)


def close_to_others(path: Path) -> None:
    """Remove other users' rights from a ledger and its companion files, which contain secrets and hashes.

    A file that only its owner and a group can use was shared on purpose, so it stays as it is.
    """
    for file in (path, *companions(path)):
        # PermissionError: the file belongs to another user, so only that user can change its rights.
        with contextlib.suppress(FileNotFoundError, PermissionError):
            if file.stat().st_mode & stat.S_IRWXO:
                file.chmod(0o600)


def require_one_name(path: Path) -> None:
    """Raise StorageUnavailable for a file with hard links.

    SQLite derives the name of the log from the name of the file, and we derive the name of our lock file in
    the same way. So two processes that open one file under two names use two logs, and overwrite each
    other's data.
    """
    if path.is_file() and path.stat().st_nlink > 1:
        raise StorageUnavailable(
            f"{path.name} has a second name, a hard link, and opening it under both names would lose data;"
            " remove the other name, or put a copy of the file there"
        )


def companions(path: Path) -> list[Path]:
    """Return the files that SQLite puts next to a database: log, index of the log, rollback journal."""
    return [path.with_name(path.name + end) for end in ("-wal", "-shm", "-journal")]


def identity(path: Path | str) -> Identity:
    """Return the device and inode of a file. Raises OSError if the file does not exist."""
    status = os.stat(path)
    return status.st_dev, status.st_ino


def code_of(error: BaseException) -> int | None:
    """Return SQLite's primary code of an error; None if SQLite did not raise the error."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def reason_of(error: BaseException) -> str:
    """Return the reason for the error in words, for the middle of a sentence."""
    if isinstance(error, StorageUnavailable):
        return error.reason
    if isinstance(error, LedgerError):
        return error.message
    if isinstance(error, MemoryError):
        return NO_MEMORY
    # Python could not decode SQLite's message, because the message quotes a damaged definition.
    if isinstance(error, UnicodeDecodeError):
        return "the database is damaged: the definitions of its tables cannot be read"
    if code_of(error) == sqlite3.SQLITE_FULL:
        return "the disk is full"
    if code_of(error) == sqlite3.SQLITE_BUSY:
        return "another process keeps it locked, or its file system failed to unlock it"
    if code_of(error) == sqlite3.SQLITE_READONLY:
        return "its file, or the folder of its file, cannot be written"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()  # without the path of the file, which clients must not see
    return (str(error) or type(error).__name__).rstrip(".")


def reason_not_opened(file: Path, error: Exception) -> str:
    """Return in words why a file could not be opened, and what to do.

    Even to read a ledger, SQLite must write files next to it. With SQLite's option `immutable` it would not
    need these files, but would miss the changes of a process that opens the ledger later.
    """
    folder = file.resolve().parent
    if code_of(error) in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN} and not os.access(
        folder, os.W_OK
    ):
        return (
            f"SQLite keeps a log next to it, but {folder} cannot be written; copy the file, and its -wal file"
            " if there is one, to a folder that you can write to"
        )
    return reason_of(error)


def public_error(error: BaseException) -> BaseException:
    """Return the error for the caller: StorageUnavailable if the storage failed, else the same error."""
    if isinstance(error, OSError | MemoryError):
        return StorageUnavailable(reason_of(error))
    if isinstance(error, sqlite3.DatabaseError) and code_of(error) not in _OUR_MISTAKES:
        return StorageUnavailable(reason_of(error))
    if isinstance(error, StopIteration):  # a future does not accept a StopIteration
        return RuntimeError(repr(error))
    # IntegrityError: a constraint, a unique index, or a trigger's RAISE refused the change.
    if isinstance(error, sqlite3.IntegrityError):
        error.add_note(schema.REFUSED)
    return error
