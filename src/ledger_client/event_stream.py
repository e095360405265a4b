"""Server-sent events (WHATWG HTML, 9.2), of which each is read up to a size."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx

from ledger_client.answers import Unread, require_plain

EVENT_BYTES_MAX = 16_000_000  # an event has a record of up to 1 MB, as JSON within JSON


class NotEvents(httpx.TransportError):
    """The answer is not an event stream."""


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event; `id` is the last one that the stream named, "" for none."""

    event: str
    data: str
    id: str


async def events(answer: httpx.Response) -> AsyncIterator[ServerSentEvent]:
    """Yield the events that have data, as they arrive. Raises NotEvents, Unread and httpx.HTTPError."""
    if answer.headers.get("Content-Type", "").partition(";")[0].strip().lower() != "text/event-stream":
        raise NotEvents("the answer is not an event stream")
    require_plain(answer)
    event, id, data = "", "", bytearray()
    first = True
    async for line in _lines(answer):
        if first:
            line, first = line.removeprefix(b"\xef\xbb\xbf"), False
        if not line:
            if len(data) > 1:
                yield ServerSentEvent(event or "message", data[:-1].decode("utf-8", "replace"), id)
            event, data = "", bytearray()
            continue
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            data += value + b"\n"
            _require_small(data)
        elif name == b"event":
            event = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            id = value.decode("utf-8", "replace")


async def _lines(answer: httpx.Response) -> AsyncIterator[bytes]:
    """Yield the lines, which end with CR, LF or both, without their ends."""
    line = bytearray()
    after_cr = False
    assert isinstance(answer.stream, httpx.AsyncByteStream)
    async for part in answer.stream:
        if not part:
            continue
        if after_cr:
            part = part.removeprefix(b"\n")
        after_cr = part.endswith(b"\r")
        for piece in part.splitlines(keepends=True):
            line += piece
            _require_small(line)
            if piece.endswith((b"\r", b"\n")):
                yield bytes(line.rstrip(b"\r\n"))
                line.clear()


def _require_small(held: bytearray) -> None:
    if len(held) > EVENT_BYTES_MAX:
        raise Unread(f"an event has more than {EVENT_BYTES_MAX // 1_000_000} MB")
