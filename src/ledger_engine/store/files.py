"""Private files, which get their name only when they are complete, and folders for unfinished files."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

_PREFIX = ".ledger-part-"


def _lock_folder(folder: Path) -> int | None:
    """Lock a folder and return the descriptor that holds the lock.

    Returns None if another process holds the lock or has removed the folder. Raises OSError if the system
    fails.

    The lock is on the folder and not on the database file inside, because SQLite locks this file, and on some
    systems the two kinds of locks exclude each other. The system releases the lock when the process ends,
    even if the process is killed.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Between the open and the lock, another process may have removed the folder as a leftover.
        if os.path.samestat(os.fstat(descriptor), os.stat(folder)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


@contextmanager
def work_folder(parent: Path) -> Iterator[Path]:
    """Create a private folder in `parent`, and remove it at the end of the block.

    A file in this folder can be renamed into `parent` in one step. First this removes the folders that
    killed commands have left in `parent`. Raises OSError, which names `parent`.
    """
    _remove_leftovers(parent)
    folder, descriptor = _make(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)


def _make(parent: Path) -> tuple[Path, int | None]:
    while True:
        folder = parent / f"{_PREFIX}{secrets.token_hex(4)}"
        try:
            folder.mkdir(mode=0o700)
        except OSError as error:  # the error names the temporary folder, which the user does not know
            raise OSError(error.errno, error.strerror, str(parent.resolve())) from error
        try:
            descriptor = _lock_folder(folder)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        if descriptor is not None:
            return folder, descriptor
        shutil.rmtree(folder, ignore_errors=True)


def _remove_leftovers(parent: Path) -> None:
    with contextlib.suppress(OSError):  # if the removal fails, the leftover files do no harm
        for folder in parent.glob(f"{_PREFIX}*"):
            descriptor = _lock_folder(folder)
            if descriptor is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(descriptor)


def write_private(file: Path, text: str) -> None:
    """Write the text to a file of mode 0600, replacing an existing file. Raises OSError."""
    with private_file(file) as stream:
        stream.write(text)


@contextmanager
def private_file(file: Path) -> Iterator[TextIO]:
    """Open a temporary file of mode 0600, which replaces `file` once everything is written.

    Raises OSError.
    """
    try:
        # Creates the file with mode 0600.
        descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    except OSError as error:  # the error names the temporary file, which the user does not know
        raise OSError(error.errno, error.strerror, str(file.parent.resolve())) from error
    try:
        with open(descriptor, "w", encoding="utf-8") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(name, file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
