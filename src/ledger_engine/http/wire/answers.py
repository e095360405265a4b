"""Writing answers: the head, and the chunks of a body without a length."""

from __future__ import annotations

import time
from email.utils import formatdate
from functools import lru_cache

from ledger_engine.http.wire.head import Headers

CONTINUE = b"HTTP/1.1 100 \r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
_PRINTABLE = bytes({*range(0x20, 0x100), ord("\t")} - {0x7F})


def write_head(status: int, headers: Headers, more: list[bytes]) -> bytes:
    """Return the head of an answer without the empty line; `more` are further lines.

    Raises ValueError for a header that could be taken for more than one.
    """
    lines = [b"HTTP/1.1 %d " % status, *map(b": ".join, headers), *more]
    lines.append(_date(int(time.time())))
    text = b"\r\n".join(lines)
    if text.translate(None, _PRINTABLE) != b"\r\n" * (len(lines) - 1):
        raise ValueError("a response header has characters that HTTP does not allow")
    return text + b"\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """Return the data as one chunk; b"" for no data, as an empty chunk would be the last one."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


@lru_cache(maxsize=2)
def _date(second: int) -> bytes:
    return b"date: " + formatdate(second, usegmt=True).encode()
