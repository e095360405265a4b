"""Event streams are read by the rules of WHATWG HTML, 9.2, however their bytes are divided."""

from collections.abc import AsyncIterator

import httpx
import pytest

from ledger_client.event_stream import ServerSentEvent, events

STREAM = (
    b"\xef\xbb\xbfid: 1\r\nevent: a\r\ndata: caf\xc3\xa9\r\n\r\n"  # a BOM, and lines that end with CR LF
    b": a comment\n\ndata:two\ndata:  lines\n\n"  # one space is removed; the id stays
    b"id\rdata: \xff\r\r"  # CR alone; an id that is none, and bytes that are no UTF-8
    b"event: nothing\ndata:\n\ndata: never ends"
)
EVENTS = [
    ServerSentEvent("a", "café", "1"),
    ServerSentEvent("message", "two\n lines", "1"),
    ServerSentEvent("message", "\ufffd", ""),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
async def test_each_event_is_read_with_its_fields_however_it_is_cut(size: int) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for start in range(0, len(STREAM), size):
            yield STREAM[start : start + size]

    answer = httpx.Response(200, headers={"Content-Type": "text/event-stream; charset=hex"}, content=parts())
    assert [event async for event in events(answer)] == EVENTS
