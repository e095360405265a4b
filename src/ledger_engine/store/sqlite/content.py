"""Checks whether a database file in use was overwritten with another file.

SQLite does not notice that `cp backup.db ledger.db` replaces the content of the file. At the next checkpoint
it would write the pages of our log (the write-ahead log) over the pages of the backup.

This module reads the file through the descriptor that SQLite has opened. It must not open and close another
descriptor of the file, because the process would then lose all its locks on the file (`lock`).
"""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path

from ledger_engine.store.sqlite import log

_HEADER = 100  # bytes; a checkpoint of page 1 changes them
_PAGE_MAX = 65_536  # bytes
_WITH_LOG = b"\2\2"  # the format versions, for writing and reading, in the header of a file with a log
_DESCRIPTORS = Path("/dev/fd")

Identity = tuple[int, int]


class FileContent:
    """The content of the file with this identity. A connection of this process keeps the file open."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._descriptor: int | None = None
        self._header: bytes | None = None

    def has_changed(self) -> bool:
        """Return whether the header differs from the last accepted header."""
        header = self._read(_HEADER)
        return header is not None and self._header is not None and header != self._header

    @property
    def is_known(self) -> bool:
        """Return whether a header of the file has been accepted."""
        return self._header is not None

    def accept(self) -> None:
        """Accept the current header: the caller has checked the file before it was opened."""
        self._header = self._read(_HEADER)

    def why_not_ours(self, log_lock: int) -> str | None:
        """Return why the content does not belong to our log.

        Return None if the content belongs to our log, or if the content cannot be read.

        `log_lock` is a descriptor of the log. A checkpoint also changes the header, so if the content belongs
        to the log, this method accepts the new header.
        """
        content = self._read(_PAGE_MAX)
        size = self._size()
        if content is None or size is None:
            return None
        reason = _difference(content, size, log_lock, verified=False)
        if reason is not None:
            reason = _difference(content, size, log_lock, verified=True)
        if reason is None:
            self._header = content[:_HEADER]
        return reason

    def forget(self) -> None:
        """Forget the descriptor, because its connection is being closed."""
        self._descriptor = None

    def _read(self, size: int) -> bytes | None:
        descriptor = self._own_descriptor()
        return None if descriptor is None else os.pread(descriptor, size, 0)

    def _size(self) -> int | None:
        descriptor = self._own_descriptor()
        return None if descriptor is None else os.fstat(descriptor).st_size

    def _own_descriptor(self) -> int | None:
        if self._descriptor is None or not self._is_ours(self._descriptor):
            self._descriptor = self._find()
        return self._descriptor

    def _find(self) -> int | None:
        try:
            numbers = sorted(int(entry.name) for entry in _DESCRIPTORS.iterdir())
        except OSError:  # this system does not list descriptors
            return None
        return next((number for number in numbers if self._is_ours(number)), None)

    def _is_ours(self, descriptor: int) -> bool:
        try:
            status = os.fstat(descriptor)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._identity


def _difference(content: bytes, size: int, log_lock: int, *, verified: bool) -> str | None:
    """Return why a file of `size` bytes that begins with `content` does not belong to the log.

    `verified` is as in `log.read_log`.
    """
    with FileIO(log_lock, closefd=False) as file:
        file.seek(0)
        frames = log.read_frames(file, verified=verified)
    if frames is None:  # the log contains nothing to compare, for example after a rollback
        is_ours = content[18:20] == _WITH_LOG
        return None if is_ours else "it is a copy without a log, such as a backup"
    return log.difference(content[: frames.page_size], size, frames)
