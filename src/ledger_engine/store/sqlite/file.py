"""The file that a process opened as its database. The process uses it only while the file keeps its name.

In this module the log is SQLite's write-ahead log, which is stored next to the file.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import sqlite3
from pathlib import Path

from ledger_engine.store import Losses, Unit
from ledger_engine.store.sqlite.connection import (
    WRITER_CACHE_KB,
    Identity,
    companions,
    connect,
    identity,
    make_private,
    require_one_name,
)
from ledger_engine.store.sqlite.content import FileContent
from ledger_engine.store.sqlite.lock import hold_log
from ledger_engine.store.sqlite.log import log_file, require_own_log

_SPACE = 1 << 20  # bytes
_SMALL_CACHE = 10  # pages
OVERWRITTEN = "the content of its file was replaced while it was in use"
OVERWRITTEN_NOTICE = (
    "The content of the database file was replaced while it was in use, so it is not used any more. Its log"
    " is kept, with the last changes: stop the server, and `ledger-engine recover` writes them to a new file."
)
REPLACED = "the file was moved or replaced; put it back, or start the server again"
# If SQLite failed to release a lock, it considers the lock held until this process closes all its
# connections. Until then, SQLite tries for ten seconds to begin each read, and then reports
# `SQLITE_PROTOCOL`.
_LOCKING_FAILED = {
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_IOERR_LOCK,
    sqlite3.SQLITE_IOERR_UNLOCK,
    sqlite3.SQLITE_IOERR_RDLOCK,
    sqlite3.SQLITE_IOERR_CHECKRESERVEDLOCK,
    sqlite3.SQLITE_IOERR_SHMLOCK,
}
UNLOCKED = "its file system failed to lock or unlock it; put it on a local disk, and start again"
UNLOCKED_NOTICE = (
    "The file system failed to lock or unlock the database file, so it is not used any more. SQLite needs"
    " locks that work: put the file on a local disk, and start the server again."
)

log = logging.getLogger("ledger_engine.store")


class DatabaseFile:
    """Opens connections to one file, and creates the file if necessary.

    A commit writes frames, the copies of the changed pages, to the log. If the commit fails halfway, the log
    may contain all frames of the commit, and SQLite would accept them if it read the log again. So this
    object keeps one connection open. While any connection is open, SQLite keeps its index of the log, and
    does not read the log again, even if the database opens the writer's connection again.
    """

    def __init__(self, path: Path, *, checkpoints: bool) -> None:
        """Open the file. Raises StorageUnavailable if the file must not be opened.

        Also raises sqlite3.Error and OSError.
        """
        require_own_log(path)
        self._checkpoints = checkpoints
        self._path = path.resolve()  # resolved, because SQLite finds the log in the same way
        require_one_name(self._path)
        make_private(self._path)
        self._name = str(self._path)  # converted only once, because each group of works checks the name
        self._identity = identity(self._name)
        self._kept_open: sqlite3.Connection | None = None
        self._log_file = log_file(self._path)
        self._log: Identity | None = None
        self._log_lock: int | None = None
        self._content = FileContent(self._identity)
        self._is_overwritten = False
        self._cannot_lock = False
        self.losses = Losses()

    def require_same(self) -> None:
        """Raise OSError if the name does not lead to our file any more, or if the file must not be used.

        Writes to a file that has lost its name would be lost, and a file that now has this name is not ours.
        """
        if self._is_overwritten:
            raise OSError(OVERWRITTEN)
        if self._cannot_lock:
            raise OSError(UNLOCKED)
        if identity(self._name) != self._identity:
            raise OSError(REPLACED)

    def has_changed(self) -> bool:
        """Return whether a checkpoint or another program has changed the file since `require_own` read it."""
        return self._content.has_changed()

    def require_own(self) -> None:
        """Raise OSError if another file was copied over the database.

        Only the thread that writes may call this, between two works.
        """
        self.require_same()
        if self._log_lock is None or not self._content.has_changed():
            return
        reason = self._content.why_not_ours(self._log_lock)
        if reason is not None:
            self._is_overwritten = True
            self.losses.refused = OVERWRITTEN_NOTICE
            log.error("%s (%s)", OVERWRITTEN_NOTICE, reason)
            raise OSError(OVERWRITTEN)

    def connect_writer(self) -> sqlite3.Connection:
        """Open the connection that writes. Raises StorageUnavailable while another process serves."""
        self.require_same()
        try:
            if self._kept_open is None:
                self._kept_open = _opened(connect(self._path, checkpoints=False, query_only=True))
            connection = _opened(connect(self._path, checkpoints=self._checkpoints))
        except sqlite3.Error as error:
            self._require_locks(error)
            raise
        try:
            self.note_log()
            if self._checkpoints:
                self._lock_log()
                if not self._content.is_known:
                    self._content.accept()
        except BaseException:
            connection.close()
            raise
        return connection

    def connect_reader(self) -> sqlite3.Connection:
        """Open a connection that cannot write."""
        try:
            return connect(self._path, checkpoints=False, query_only=True)
        except sqlite3.Error as error:
            self._require_locks(error)
            raise

    def begin_to_read(self, connection: sqlite3.Connection) -> int:
        """Begin a transaction that reads, and return the version of the data.

        The version is a number that changes with each commit of another connection.
        """
        try:
            connection.execute("BEGIN")
            ((version,),) = connection.execute("PRAGMA data_version").fetchall()
        except sqlite3.Error as error:
            self._require_locks(error)
            raise
        return int(version)

    def begin_to_write(self, connection: sqlite3.Connection) -> None:
        """Begin a transaction that writes. Raises OSError when the file has lost its name."""
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            self._require_locks(error)
            raise
        # Check this after we got the lock, because a restore may have replaced the file while we waited for
        # the lock.
        self.require_own()

    def note_log(self) -> None:
        """Remember the identity of the current log.

        Do not call this for each group: after a `stat` of the log, the next sync of the log takes longer.
        """
        self._log = _identity_of(self._log_file) or self._log

    def disown_log(self) -> None:
        """Move our log away if another file has taken the name of the database.

        A process that opened the other file would apply our log to that file and damage it.
        """
        if self._is_overwritten or self._cannot_lock:
            # Leave the log in place. If the file is still ours, the log belongs to it. If the file was
            # overwritten, our commands notice this from the log and do not open the file.
            return
        # Move only a log that is ours: the name may now be a symbolic link that leads to another file with
        # another log.
        if self._path.exists() and _identity_of(log_file(self._path)) == self._log is not None:
            kept = self._path.with_name(f"{self._path.name}.replaced")
            for file, aside in zip(companions(self._path), companions(kept), strict=True):
                with contextlib.suppress(OSError):
                    file.rename(aside)

    def release(self) -> None:
        """Close the connection that was kept open.

        If the file was overwritten, keep the connection open: the last connection that closes would write the
        log into the file.
        """
        with contextlib.suppress(OSError):
            self.require_own()
        connection, self._kept_open = self._kept_open, None
        if connection is not None and self._is_overwritten:
            # Add a reference that is never removed, so that Python does not close the connection at exit.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
        elif connection is not None:
            self._content.forget()
            connection.close()

    def close(self) -> None:
        """Close everything except the connections of readers and the writer."""
        self.release()
        if self._log_lock is not None:
            os.close(self._log_lock)
            self._log_lock = None

    def _require_locks(self, error: sqlite3.Error) -> None:
        """After an error that shows broken locks, stop using the file and raise OSError."""
        if error.sqlite_errorcode not in _LOCKING_FAILED:
            return
        if not self._cannot_lock:
            self._cannot_lock = True
            self.losses.refused = UNLOCKED_NOTICE
            log.error("%s (%s)", UNLOCKED_NOTICE, error)
        raise OSError(UNLOCKED) from error

    def _lock_log(self) -> None:
        if self._log_lock is not None:
            status = os.fstat(self._log_lock)
            if (status.st_dev, status.st_ino) == self._log:
                return
            os.close(self._log_lock)
            self._log_lock = None
        self._log_lock = hold_log(self._path)


def _identity_of(file: Path) -> Identity | None:
    try:
        return identity(file)
    except OSError:
        return None


def probe_read(unit: Unit) -> None:
    """Test reading with the smallest possible read."""
    unit.execute("PRAGMA schema_version")


def probe_write(unit: Unit) -> None:
    """Test writing: write one page. It sets `user_version`, which no program uses, to 0 as before."""
    unit.execute("PRAGMA user_version = 0")


def has_space(connection: sqlite3.Connection) -> bool:
    """Return whether the log can grow by more than any group needs: write that much, and roll back.

    A disk that has no space for any posting may still have space for the single page of `probe_write`.
    """
    try:
        # With a small cache SQLite writes the pages to the log before the commit.
        connection.execute(f"PRAGMA cache_size={_SMALL_CACHE}")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("CREATE TABLE probe (bytes BLOB)")
        connection.execute(f"INSERT INTO probe VALUES (randomblob({_SPACE}))")
        connection.execute("ROLLBACK")
        connection.execute(f"PRAGMA cache_size=-{WRITER_CACHE_KB}")
    except sqlite3.Error:
        return False
    return True


def _opened(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Read once, so that SQLite opens the log; return the connection."""
    connection.execute("PRAGMA schema_version").fetchall()
    return connection
