"""Whether a database file in use still contains the pages that SQLite wrote, or another file was copied into
it.

SQLite does not notice `cp backup.db ledger.db`, which keeps the file and replaces its content. At its next
checkpoint it would write the pages of the log over the pages of the other file.

The file is read by the descriptor that SQLite has opened. When a process closes a descriptor of its own, it
loses all its locks on the file (`lock`).
"""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path

from ledger_engine.store.sqlite import log

_HEADER = 100  # bytes; SQLite changes them with each checkpoint of page 1
_PAGE_MAX = 65_536  # bytes
_WITH_LOG = b"\2\2"  # the header's versions for writing and reading of a file with a log
_DESCRIPTORS = Path("/dev/fd")

Identity = tuple[int, int]


class FileContent:
    """The content of the file with this identity, which a connection of this process reads."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._descriptor: int | None = None
        self._header: bytes | None = None

    def has_changed(self) -> bool:
        """Return whether the header differs from the last accepted one."""
        header = self._read(_HEADER)
        return header is not None and self._header is not None and header != self._header

    @property
    def is_known(self) -> bool:
        """Whether a header was accepted."""
        return self._header is not None

    def accept(self) -> None:
        """Accept the header as it is: it was checked before the file was opened."""
        self._header = self._read(_HEADER)

    def why_not_ours(self, log_lock: int) -> str | None:
        """Return what shows that the content is not what our log belongs to; None for nothing.

        `log_lock` is a descriptor of the log. Accept our own header, after a checkpoint.
        """
        with FileIO(log_lock, closefd=False) as file:
            file.seek(0)
            frames = log.read_frames(file)
        content = self._read(_PAGE_MAX)
        size = self._size()
        if content is None or size is None:
            return None
        if frames is None:  # as after a transaction that was rolled back: little is known
            is_ours = content[18:20] == _WITH_LOG
            reason = None if is_ours else "it is a copy without a log, such as a backup"
        else:
            reason = log.difference(content[: frames.page_size], size, frames)
        if reason is None:
            self._header = content[:_HEADER]
        return reason

    def forget(self) -> None:
        """Forget the descriptor: the connection that it belongs to is being closed."""
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
        except OSError:  # a system that does not list them
            return None
        return next((number for number in numbers if self._is_ours(number)), None)

    def _is_ours(self, descriptor: int) -> bool:
        try:
            status = os.fstat(descriptor)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._identity
