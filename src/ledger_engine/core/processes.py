"""Child processes of a program: their environment, and the pickled messages to the sender of webhooks."""

from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Iterator
from typing import Any

# The exit status of a child process that runs another version of the program than its parent (EX_PROTOCOL).
OTHER_PROGRAM = 76


def without_settings() -> dict[str, str]:
    """Return this process's environment without the variables `LEDGER_…`, which may contain secrets."""
    return {name: value for name, value in os.environ.items() if not name.startswith("LEDGER_")}


_HEAD = struct.Struct("<I")  # the length of the message that follows
# Every message is shorter than this. If the stream contains text instead of messages, `Messages` reads the
# first four letters as a length. The fourth letter is the highest byte of that length. A letter is 0x41 or
# more, so the length is above this limit.
_LENGTH_MAX = 1 << 30


class UnreadableMessage(Exception):
    """The data was not written by `framed`: the other process runs another version of the program."""


def framed(message: object) -> bytes:
    """Return a message in the form that `Messages` reads: its length, then the pickled message."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _HEAD.pack(len(data)) + data


class Messages:
    """Reads messages from a stream of bytes. Only trusted processes may write to it, with `framed`."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Any]:
        """Add `data` to the stream and yield the messages that are now complete. Raises UnreadableMessage."""
        buffer = self._buffer
        buffer += data
        while len(buffer) >= _HEAD.size:
            (length,) = _HEAD.unpack_from(buffer)
            if length > _LENGTH_MAX:
                raise UnreadableMessage(f"a message cannot be {length} bytes long")
            end = _HEAD.size + length
            if len(buffer) < end:
                return
            message = pickle.loads(memoryview(buffer)[_HEAD.size : end].toreadonly())
            del buffer[:end]
            yield message
