"""The processes that a program starts: their environment, and the pickled messages to the webhook sender."""

from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Iterator
from typing import Any

# The exit status of a process that was started from files of another version (EX_PROTOCOL).
OTHER_PROGRAM = 76


def without_settings(*keep: str) -> dict[str, str]:
    """Return our environment without the variables `LEDGER_…`, which have secrets, except those to `keep`."""
    return {
        name: value for name, value in os.environ.items() if name in keep or not name.startswith("LEDGER_")
    }


_HEAD = struct.Struct("<I")  # the length of the message that follows
# No message is so long. A text that is read as a length is longer: its letters are bytes from 0x40 on.
_LENGTH_MAX = 1 << 30


class UnreadableMessage(Exception):
    """The data is not what `framed` makes: the other process runs another version of the program."""


def framed(message: object) -> bytes:
    """Return a message as `Messages` reads it from a stream: pickled, behind its length."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _HEAD.pack(len(data)) + data


class Messages:
    """Reads what `framed` made from a stream that only trusted processes write to."""

    __slots__ = ("_arrived",)

    def __init__(self) -> None:
        self._arrived = bytearray()

    def feed(self, data: bytes) -> Iterator[Any]:
        """Return the messages that `data` completes. Raises UnreadableMessage."""
        arrived = self._arrived
        arrived += data
        while len(arrived) >= _HEAD.size:
            (length,) = _HEAD.unpack_from(arrived)
            if length > _LENGTH_MAX:
                raise UnreadableMessage(f"a message of {length} bytes was announced, which cannot be right")
            end = _HEAD.size + length
            if len(arrived) < end:
                return
            message = pickle.loads(memoryview(arrived)[_HEAD.size : end].toreadonly())
            del arrived[:end]
            yield message
