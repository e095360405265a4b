"""Finds the end of a request's body, either by the body's length or by its last chunk and trailer."""

from __future__ import annotations

import re

from ledger_engine.http.wire.head import TOKEN, VALUE, BadRequest

# The most chunks of one body; reading a chunk takes as long as reading a kilobyte of data.
CHUNKS_MAX = 100_000
FEW_CHUNKS_MAX = 100  # the most chunks of a body if the application does not accept a large body
LINE_MAX = 28 * 1024  # bytes of the line before a chunk, with its extensions
TRAILER_MAX = 16 * 1024  # bytes; the content is ignored
# The line before a chunk: the chunk's size, and extensions. The line must contain no single CR or LF, because
# some readers treat a single CR or LF as the end of the line (RFC 9112, 7.1.1). A size has at most 16 digits,
# because a reader with 64-bit numbers would read a wrong size from more digits.
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,16})(?:[ \t]*;[^\r\n]*)?[ \t]*")
_TRAILER = re.compile(TOKEN + b":" + VALUE)


def unreadable(reason: str = "its framing is not valid HTTP/1.1") -> BadRequest:
    """Return the error for a body whose end cannot be determined."""
    return BadRequest(f"The body cannot be read: {reason}.")


class SizedBody:
    """A body whose length in bytes is known from its head."""

    __slots__ = ("_bytes_left",)
    is_stopped = False

    def __init__(self, length: int) -> None:
        self._bytes_left = length

    def take(self, data: bytes, parts: list[bytes], chunks_max: int) -> bytes | None:
        """Append the part of `data` that belongs to the body to `parts`.

        Return the data after the end of the body, or None if the body is not complete yet. `chunks_max` has
        no effect on a body without chunks.
        """
        left = self._bytes_left
        if left > len(data):
            self._bytes_left -= len(data)
            if data:
                parts.append(data)
            return None
        parts.append(data[:left])
        return data[left:]


class ChunkedBody:
    """A body that consists of chunks and a trailer."""

    __slots__ = ("is_stopped", "_count", "_in_trailer", "_bytes_left", "_rest", "_trailer")

    def __init__(self) -> None:
        self.is_stopped = False  # whether `take` stopped because the next chunk would exceed `chunks_max`
        self._count = 0  # chunks so far
        self._bytes_left = 0  # bytes of the current chunk, and of the CRLF after it, that are still missing
        self._rest = b""  # data that is not parsed yet
        self._in_trailer = False
        self._trailer = 0  # bytes of the trailer so far

    def take(self, data: bytes, parts: list[bytes], chunks_max: int) -> bytes | None:
        """Append the content of the chunks in `data` to `parts`, and return what `SizedBody.take` returns.

        The body may have `chunks_max` chunks in all calls together. If a call stops at this limit, it returns
        None, and a later call with a larger limit continues there. Raises BadRequest.
        """
        data, self._rest, at = self._rest + data, b"", 0
        self.is_stopped = False
        while True:
            if self._bytes_left:
                at = self._pass_chunk(data, at, parts)
                if self._bytes_left:
                    return None
            end = data.find(b"\r\n", at)
            # If no CRLF follows, the last byte may be a CR whose LF has not arrived yet. Do not count this
            # byte, because a CR is not part of the line.
            if (len(data) - 1 if end < 0 else end) - at > LINE_MAX:
                raise unreadable()
            if end < 0:
                self._rest = data[at:]
                return None
            line = data[at:end]
            if self._in_trailer:
                if not line:
                    return data[end + 2 :]
                self._read_trailer(line)
            elif not self._read_size(line, chunks_max):
                self.is_stopped = True
                self._rest = data[at:]
                return None
            at = end + 2

    def _pass_chunk(self, data: bytes, at: int, parts: list[bytes]) -> int:
        """Take the data of the current chunk from `data`, beginning at `at`; return the position after it."""
        if self._bytes_left > 2:
            part = data[at : at + self._bytes_left - 2]
            if part:
                parts.append(part)
                at += len(part)
                self._bytes_left -= len(part)
        if self._bytes_left <= 2:
            due = b"\r\n"[2 - self._bytes_left :]
            end = data[at : at + len(due)]
            if not due.startswith(end):
                raise unreadable()
            at += len(end)
            self._bytes_left -= len(end)
        return at

    def _read_size(self, line: bytes, chunks_max: int) -> bool:
        """Read the line before a chunk; return False if the chunk would be one more than `chunks_max`.

        The size 0 means that the trailer follows.
        """
        chunk = _CHUNK.fullmatch(line)
        if chunk is None:
            raise unreadable()
        size = int(chunk[1], 16)
        if not size:
            self._in_trailer = True
        elif self._count >= chunks_max:
            return False
        else:
            self._count += 1
            self._bytes_left = size + 2
        return True

    def _read_trailer(self, line: bytes) -> None:
        self._trailer += len(line) + 2
        if self._trailer > TRAILER_MAX:
            raise unreadable(f"its trailer is larger than {TRAILER_MAX:,} bytes")
        if _TRAILER.fullmatch(line) is None:
            raise unreadable()
