"""One process serves a database file: the lock that keeps a second one, or a restore, away from it.

The operating system holds the lock on `<database>.lock` and lets go of it when the process ends, however
that comes. What stands in the file is only there to name the first process to the second one.

Where the lock file can be deleted under its holder, a second one would lock a new file. So the server locks
its write-ahead log too, which is there as long as the database is open. Not the database itself: SQLite has
its own locks there, the process would lose them with the first descriptor of the file that it closes, and
on some systems the two kinds of locks exclude each other. SQLite never locks the log.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.database.log import log_file

if sys.platform == "win32":
    import msvcrt

    _FAR_BEYOND = 1 << 30  # a locked byte cannot be read by others there, so none of the text is locked

    def _lock(file: int) -> None:
        os.lseek(file, _FAR_BEYOND, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


class ServingLock:
    """Held from its making until `release`, or until the process ends."""

    def __init__(self, database: Path) -> None:
        """Take the lock of a database file; raises StorageUnavailable while another process has it."""
        database = database.resolve()
        file = lock_file(database)
        self._file = _locked(file, database)
        try:
            log = hold_log(database)
        except StorageUnavailable:
            os.close(self._file)
            raise
        if log is not None:
            os.close(log)
        self._write({"pid": os.getpid()})

    def note_url(self, url: str) -> None:
        """Note where the database is served, for whoever is refused."""
        self._write({"pid": os.getpid(), "url": url})

    def release(self) -> None:
        """Let go; the file stays, since deleting it would let two processes lock two files of one name."""
        os.ftruncate(self._file, 0)
        os.close(self._file)

    def _write(self, holder: dict[str, int | str]) -> None:
        text = json.dumps(holder).encode()
        os.lseek(self._file, 0, os.SEEK_SET)
        os.write(self._file, text)
        os.ftruncate(self._file, len(text))


def hold_log(database: Path) -> int | None:
    """Lock the log of `database` and return the descriptor that holds the lock; None where there is no log.

    Raises StorageUnavailable while another process has it.
    """
    if sys.platform == "win32":  # which keeps a file that is open, the lock file as well
        return None
    try:
        log = os.open(log_file(database), os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        _lock(log)
    except OSError:
        os.close(log)
        raise StorageUnavailable(f"{database} is served by another process") from None
    return log


def _locked(file: Path, database: Path) -> int:
    while True:
        try:
            held = os.open(file, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise StorageUnavailable(f"{file}: {error.strerror}") from error
        try:
            _lock(held)
        except OSError:
            os.close(held)
            raise StorageUnavailable(f"{database} is served by {_holder(file)}") from None
        try:
            if os.path.samestat(os.fstat(held), os.stat(file)):
                return held
        except FileNotFoundError:  # deleted between the open and the lock
            pass
        os.close(held)


def lock_file(database: Path) -> Path:
    """Return the file whose lock the serving process of `database` holds."""
    return database.with_name(database.name + ".lock")


def served_at(database: Path) -> str | None:
    """Return the URL that the last server of this database noted; None without one."""
    try:
        url = json.loads(lock_file(database.resolve()).read_text(encoding="utf-8"))["url"]
        return url if isinstance(url, str) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _holder(file: Path) -> str:
    try:
        holder = json.loads(file.read_text(encoding="utf-8"))
        where = f" at {holder['url']}" if "url" in holder else ""
        return f"another process ({holder['pid']}){where}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
