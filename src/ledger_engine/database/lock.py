"""One process serves a database file: the lock that keeps a second one, or a restore, away from it.

The operating system holds the lock on `<database>.lock` and lets go of it when the process ends, however
that comes. What stands in the file is only there to tell the second one about the first.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from ledger_engine.core.errors import StorageUnavailable

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
        try:
            self._file = os.open(file, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise StorageUnavailable(f"{file}: {error.strerror}") from error
        try:
            _lock(self._file)
        except OSError:
            os.close(self._file)
            raise StorageUnavailable(f"{database} is served by {_holder(file)}") from None
        self._write({"pid": os.getpid()})

    def tell(self, url: str) -> None:
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


def lock_file(database: Path) -> Path:
    """The file whose lock the serving process of `database` holds."""
    return database.with_name(database.name + ".lock")


def served_at(database: Path) -> str | None:
    """The URL of the server that noted it serves this database last; None without one."""
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
