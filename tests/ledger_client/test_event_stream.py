"""Event streams are read by the rules of WHATWG HTML, 9.2, however their bytes are divided."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from ledger_client.event_stream import ServerSentEvent, StreamMessage, StreamSession, events
from ledger_client.webhooks import sign

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


def sent(event: str, data: Any, id: str = "evt_1") -> ServerSentEvent:
    return ServerSentEvent(event, data if isinstance(data, str) else json.dumps(data), id)


def signed(body: str, secret: str = "whsec_x") -> dict[str, str]:
    return {"body": body, "signature": sign(body.encode(), secret)}


BODY = '{"name": "a\u2028b\x85c"}'


@pytest.mark.parametrize(
    ("session", "message", "received"),
    [
        ({"secret": "whsec_x"}, sent("event", signed(BODY)), StreamMessage("evt_1", BODY.encode(), True)),
        ({"secret": "whsec_x"}, sent("event", signed("{}", "other")), StreamMessage("evt_1", b"{}", False)),
        (None, sent("event", signed("{}")), StreamMessage("evt_1", b"{}", False)),
        ({"secret": "\ud800"}, sent("event", signed("{}")), StreamMessage("evt_1", b"{}", False)),
        ({"secret": "whsec_x"}, sent("event", signed("{}"), "evt_é"), StreamMessage("", b"{}", True)),
        (
            {"secret": "whsec_x"},
            sent("event", {"body": 5, "signature": None}),
            StreamMessage("evt_1", b"", False),
        ),
        ({"secret": "whsec_x"}, sent("event", {"body": "[]"}), StreamMessage("evt_1", b"[]", False)),
        ({"secret": "whsec_x"}, sent("event", "{"), StreamMessage("evt_1", b"", False)),
        ({"secret": "whsec_x"}, sent("event", "[5]"), StreamMessage("evt_1", b"", False)),
        ({"secret": "whsec_x"}, sent("later", {}), None),
        (None, sent("session", {"secret": "whsec_x"}), StreamMessage("evt_1", None, True)),
        (None, sent("session", {"secret": 5}), StreamMessage("evt_1", None, False)),
        (None, sent("session", "{"), StreamMessage("evt_1", None, False)),
    ],
)
def test_the_fields_of_a_message_are_read_and_nothing_is_believed_without_a_signature(
    session: Any, message: ServerSentEvent, received: StreamMessage | None
) -> None:
    connection = StreamSession()
    if session is not None:
        connection.read(sent("session", session))
    assert connection.read(message) == received
