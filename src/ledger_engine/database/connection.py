"""A connection to the SQLite file: how one is opened, and what an error of it means."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import time
from pathlib import Path

from ledger_engine.core.errors import LedgerError, StorageUnavailable
from ledger_engine.database.log import require_file_of_log

BUSY_TIMEOUT_MS = 5000
# The write-ahead log goes into the file when it has this many pages (16 MB). A busy account's last pages are
# written again with each group, and with SQLite's own 1000 they went into the file every ten groups: a
# twentieth of the time. Up to 4062 pages have one index, so that readers find a page in one look.
CHECKPOINT_PAGES = 4000

_PRAGMAS = (
    "PRAGMA synchronous=FULL",
    "PRAGMA foreign_keys=ON",
    "PRAGMA trusted_schema=OFF",
    "PRAGMA cell_size_check=ON",
    "PRAGMA journal_size_limit=67108864",
    # What a savepoint may have to undo is kept here; in a file it cost a fifth of each posting.
    "PRAGMA temp_store=MEMORY",
)
# After one of these the connection's own state cannot be relied on: it is opened anew.
FATAL = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN}
LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_PROTOCOL}  # somebody has a lock, or is taken to have it
_OUR_MISTAKES = {
    None,
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_MISUSE,
}

Identity = tuple[int, int]  # device and inode


def connect(path: Path, *, checkpoints: bool, query_only: bool = False) -> sqlite3.Connection:
    """Open a connection with this project's settings to a file that exists."""
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
        _log_ahead(connection)
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES if checkpoints else 0}")
        connection.execute(f"PRAGMA query_only={'ON' if query_only else 'OFF'}")
    except BaseException:
        connection.close()
        raise
    connection.row_factory = sqlite3.Row
    return connection


def _log_ahead(connection: sqlite3.Connection) -> None:
    """Have the file use a write-ahead log, which it remembers.

    While another connection does the same to a new file SQLite does not wait by itself: two that both
    read and want to write would wait for ever.
    """
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if code_of(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.005)


def make_private(path: Path) -> None:
    """Make an empty file that only its owner can read, unless there is a file already; an empty one that
    everybody can read becomes such a file."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if path.stat().st_size == 0:
            close_to_others(path)


def close_to_others(path: Path) -> None:
    """Take everybody's rights from a ledger and its companions (0600): they hold secrets and hashes.

    One that only a group can read besides its owner was opened to it on purpose, and stays so.
    """
    for file in (path, *companions(path)):
        # Another user's file is theirs to close.
        with contextlib.suppress(FileNotFoundError, PermissionError):
            if file.stat().st_mode & stat.S_IRWXO:
                file.chmod(0o600)


def require_one_name(path: Path) -> None:
    """Raise StorageUnavailable for a file with hard links.

    SQLite finds the log by the file's name, and so do we our lock: two that open the same file under two
    names have a log each, and overwrite what the other one wrote.
    """
    if path.is_file() and path.stat().st_nlink > 1:
        raise StorageUnavailable(
            f"{path.name} has a second name, a hard link, and opened under both its data would be lost;"
            " remove the other name, or put a copy of the file in its place"
        )


def companions(path: Path) -> list[Path]:
    """Return the files that belong to a database file while it is in use: its logs, and the index of one."""
    return [path.with_name(path.name + end) for end in ("-wal", "-shm", "-journal")]


def identity(path: Path) -> Identity:
    """Return the device and inode of the file with this name; raises OSError when there is none."""
    found = os.stat(path)
    return found.st_dev, found.st_ino


def code_of(error: BaseException) -> int | None:
    """Return SQLite's primary code of the error, None for an error that is not SQLite's."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def reason_of(error: BaseException) -> str:
    """Return the error in words, for the middle of a sentence."""
    if isinstance(error, StorageUnavailable):
        return error.reason
    if isinstance(error, LedgerError):
        return error.message
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()  # without the file's path, which is none of a client's business
    return (str(error) or type(error).__name__).rstrip(".")


def public_error(error: BaseException) -> BaseException:
    """Return the error for the caller: StorageUnavailable when the storage failed, else the error itself."""
    if isinstance(error, OSError):
        return StorageUnavailable(reason_of(error))
    if isinstance(error, sqlite3.DatabaseError) and code_of(error) not in _OUR_MISTAKES:
        return StorageUnavailable(reason_of(error))
    if isinstance(error, StopIteration):  # which no future takes
        return RuntimeError(repr(error))
    return error
