"""The serving lock: it keeps a second server, or a restore, away from a database file.

The lock is on the file `<database>.lock`. The operating system releases the lock when the process ends, even
if the process is killed. The content of the file, called its entry here, describes the process that holds the
lock.

If somebody deleted the lock file while it is locked, a second process would lock a new file. So the server
also locks its write-ahead log, which exists while the database is open; SQLite never locks the log.

The server does not lock the database file itself, because SQLite locks this file. Our lock would need a
descriptor of its own, and when a process closes any descriptor of a file, it loses all of SQLite's locks on
this file. Besides, on some systems SQLite's locks and our lock exclude each other.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledger_engine import __version__
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.settings import Location
from ledger_engine.store.sqlite.log import log_file

# The numbers of the errors that mean that another process holds the lock.
_HELD = {errno.EAGAIN, errno.EACCES, errno.EDEADLK}


def _lock(file: int) -> None:
    """Lock an open file. Raises OSError with a number in `_HELD` while another process holds the lock.

    When `_is_held` runs in another process, that process has a shared lock for a moment. A shared lock must
    not keep a server from starting, so this function then tries again.
    """
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _HELD:
                raise
            # This raises OSError if a process holds the lock, but not if processes only test the lock.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        else:
            return


def _is_held(file: int) -> bool:
    """Return whether a process holds the lock of an open file."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in _HELD
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


@dataclass(frozen=True, slots=True)
class LockHolder:
    """The process that a lock file describes; a field is None if the file does not contain it.

    `is_alive` is false for a process that was killed: its entry stayed in the file, but it holds no lock.
    `url` is the address at which the process serves. `started` is the Unix time in milliseconds at which the
    process took the lock.
    """

    is_alive: bool
    pid: int | None = None
    url: str | None = None
    version: str | None = None
    started: int | None = None


class ServingLock:
    """The lock of one database, held until `release` or the end of the process."""

    def __init__(self, database: Path) -> None:
        """Acquire the lock of a database file. Raises StorageUnavailable if another process holds it."""
        database = database.resolve()
        self._name = lock_file(database)
        self._is_new = not self._name.exists()
        self._file = _open_and_lock(self._name, database)
        try:
            # Only test whether a server is running although its lock file was deleted. `DatabaseFile` locks
            # the log later.
            log = hold_log(database)
        except StorageUnavailable:
            self.release()
            raise
        if log is not None:
            os.close(log)
        self._entry: dict[str, int | str] = {
            "pid": os.getpid(),
            "version": __version__,
            "started": time.time_ns() // 1_000_000,
        }
        self._write()

    def note_url(self, url: str) -> None:
        """Store the URL of this server for other processes."""
        self._entry["url"] = url
        self._write()

    def release(self) -> None:
        """Release the lock, and remove the lock file if this object created it.

        If another process has already opened the removed file, that process notices that the file has no name
        any more, and opens a new file.
        """
        os.ftruncate(self._file, 0)
        with contextlib.suppress(OSError):  # somebody may have deleted the file
            if self._is_new and os.path.samestat(os.fstat(self._file), os.stat(self._name)):
                self._name.unlink()
        os.close(self._file)

    def _write(self) -> None:
        text = json.dumps(self._entry).encode()
        os.lseek(self._file, 0, os.SEEK_SET)
        os.write(self._file, text)
        os.ftruncate(self._file, len(text))


@contextlib.contextmanager
def serving_lock(database: Location) -> Iterator[ServingLock | None]:
    """Hold the lock of a file during the block. Raises StorageUnavailable if another process holds it.

    Yield None for a PostgreSQL database: it can have many servers, so it needs no lock.
    """
    if isinstance(database, str):
        yield None
        return
    lock = ServingLock(database)
    try:
        yield lock
    finally:
        lock.release()


def hold_log(database: Path) -> int | None:
    """Lock the log of `database` and return the descriptor that holds the lock; None if there is no log.

    Raises StorageUnavailable if another process holds the lock.
    """
    try:
        log = os.open(log_file(database), os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        _lock(log)
    except OSError as error:
        os.close(log)
        raise _refusal(error, log_file(database), f"{database} is served by another process") from error
    return log


def _open_and_lock(file: Path, database: Path) -> int:
    while True:
        try:
            descriptor = os.open(file, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise StorageUnavailable(f"{file}: {error.strerror}") from error
        try:
            _lock(descriptor)
        except OSError as error:
            os.close(descriptor)
            raise _refusal(error, file, f"{database} is served by {_describe_holder(file)}") from error
        try:
            if os.path.samestat(os.fstat(descriptor), os.stat(file)):
                os.ftruncate(descriptor, 0)  # otherwise the entry of a killed process would look like ours
                return descriptor
        except FileNotFoundError:  # the lock file was deleted between the open and the lock
            pass
        os.close(descriptor)


def _refusal(error: OSError, file: Path, held_by_other: str) -> StorageUnavailable:
    """Return the error for a failed attempt to lock `file`.

    The message is `held_by_other` if another process holds the lock, and the system's reason otherwise.
    """
    return StorageUnavailable(
        held_by_other if error.errno in _HELD else f"{file} cannot be locked: {error.strerror}"
    )


def lock_file(database: Path) -> Path:
    """Return the file whose lock the serving process of `database` holds."""
    return database.with_name(database.name + ".lock")


def holder_of(database: Path) -> LockHolder | None:
    """Return the process that serves this database, or that was killed while it served the database.

    Return None if there is no such process. Raises OSError when the lock file cannot be read.
    """
    database = database.resolve()
    try:
        with open(lock_file(database), "rb") as file:
            if _is_held(file.fileno()):
                return _parse_holder(file.read(), is_alive=True)
            entry = file.read()
    except FileNotFoundError:
        entry = b""
    if _is_log_held(database):  # a server is running, but somebody deleted its lock file
        return LockHolder(is_alive=True)
    return _parse_holder(entry, is_alive=False) if entry else None


def served_at(database: Path) -> str | None:
    """Return the URL of the process that serves this database, or None.

    A killed process leaves its URL in the lock file, and another program may listen at this URL now. So this
    function returns the URL only while a process holds the lock.
    """
    try:
        holder = holder_of(database)
    except (OSError, RuntimeError):  # RuntimeError: symbolic links in a circle
        return None
    return holder.url if holder is not None and holder.is_alive else None


def _is_log_held(database: Path) -> bool:
    try:
        with open(log_file(database), "rb") as log:
            return _is_held(log.fileno())
    except FileNotFoundError:
        return False


def _parse_holder(text: bytes, *, is_alive: bool) -> LockHolder:
    try:
        entry = json.loads(text)
    except ValueError:
        entry = None
    fields: dict[str, Any] = entry if isinstance(entry, dict) else {}
    kinds = {"pid": int, "url": str, "version": str, "started": int}
    values = {name: fields[name] for name, kind in kinds.items() if isinstance(fields.get(name), kind)}
    return LockHolder(is_alive, **values)


def _describe_holder(file: Path) -> str:
    try:
        holder = _parse_holder(file.read_bytes(), is_alive=True)
    except OSError:
        return "another process"
    number = "" if holder.pid is None else f" ({holder.pid})"
    where = "" if holder.url is None else f" at {holder.url}"
    return f"another process{number}{where}"
