"""What a client sends is answered alike, however TCP cuts it into pieces on its way."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest

from ledger_engine.http.wire.asgi import extension_of
from ledger_engine.http.wire.framing import LINE_MAX
from ledger_engine.http.wire.http1 import HEAD_MAX
from ledger_engine.http.wire.tcp import HEAD_PIECE
from tests.ledger_engine.http.wire.wires import answered, in_pieces_of

STATUS = re.compile(rb"HTTP/1.1 ([0-9]+) [A-Za-z -]+\r\n")

HOST = b"Host: a\r\n"
NEXT = b"GET /next HTTP/1.1\r\nHost: a\r\n\r\n"
CHUNKS = b"POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
STREAMS = [
    (b"GET / HTTP/1.1\r\n" + HOST + b"\r\n" + NEXT, [200, 200]),
    (b"\r\n\r\nGET / HTTP/1.1\r\n" + HOST + b"\r\n\r\n" + NEXT, [200, 200]),
    (b"HEAD /docs HTTP/1.1\r\n" + HOST + b"Content-Length:\t0\r\n\n\r\n" + NEXT, [400]),
    (b"GET / HTTP/1.1\n" + HOST + b"\n\r\n" + NEXT, [400]),
    (b"GET / HTTP/1.1\r\n" + HOST + b"\n" + NEXT, [400]),
    (b"GET / HTTP/1.1\r\n" + HOST + b"\r\n\n" + NEXT, [200, 400]),
    (b"GET / HTTP/1.1\r\n" + HOST + b"X: a\r\n b\r\n\r\n" + NEXT, [400]),
    (b"GET / HTTP/1.1\r\n" + HOST + b"\r\r\n\r\n" + NEXT, [400]),
    (b"POST /p HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\nhello" + NEXT, [200, 200]),
    (b"POST /p HTTP/1.1\r\n" + HOST + b"Content-Length: 5, 6\r\n\r\nhello" + NEXT, [400]),
    (b"POST /p HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\nhel", []),
    (CHUNKS + b"5;e=1\r\nhello\r\n0\r\nX: 1\r\n\r\n" + NEXT, [200, 200]),
    (CHUNKS + b"5\r\nhello\r\n0\r\n\n\r\n" + NEXT, [400]),
    (CHUNKS + b"zz\r\n" + NEXT, [400]),
    (CHUNKS + b"5\r\nhello!!0\r\n\r\n" + NEXT, [400]),
    (CHUNKS + b"11111111111111111\r\nhello" + NEXT, [400]),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01" + NEXT, [400]),
]


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answer with what was read of the request, or with why it cannot be read."""
    status, said = 200, b"%b %b %r" % (scope["method"].encode(), scope["raw_path"], scope["headers"])
    wire = extension_of(scope)
    assert wire is not None
    error = wire.refusal
    wire.want(may_be_large=False)
    more = error is None
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            if wire.body_error is None:
                return
            error = wire.body_error
            break
        said += message["body"]
        more = message["more_body"]
    if error is not None:
        status, said = 400, b"%b %b" % (scope["raw_path"], error.message.encode())
    headers = [(b"content-length", b"%d" % len(said))]
    if status == 400:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": said})


answers = partial(answered, application)


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "statuses"), STREAMS)
async def test_the_answers_are_the_same_wherever_a_stream_is_cut(sent: bytes, statuses: list[int]) -> None:
    whole = await answers([sent])
    assert [int(status) for status in STATUS.findall(whole)] == statuses
    for cut in range(1, len(sent)):
        assert await answers([sent[:cut], sent[cut:]]) == whole, (sent[:cut], sent[cut:])
    assert await answers(in_pieces_of(sent, 1)) == whole


@pytest.mark.parametrize("over", [-1, 0, 1, 2, 3, 4, HEAD_PIECE])
@pytest.mark.parametrize("start", [b"GET /", b"GET / HTTP/1.1\r\nHost: a\r\nX: "])
async def test_a_head_that_is_too_large_is_refused_alike_in_pieces_of_any_size(
    start: bytes, over: int
) -> None:
    end = b"\r\n\r\n" if start.endswith(b"X: ") else b" HTTP/1.1\r\nHost: a\r\n\r\n"
    sent = start + b"x" * (HEAD_MAX + over - len(start + end)) + end
    whole = await answers(in_pieces_of(sent, HEAD_PIECE))
    for size in (1000, 1024, 4096, 7001):
        assert await answers(in_pieces_of(sent, size)) == whole


@pytest.mark.parametrize("over", [-1, 0, 1, 2, 3, HEAD_PIECE])
async def test_a_chunk_line_that_is_too_long_is_refused_alike_in_pieces_of_any_size(over: int) -> None:
    sent = CHUNKS + b"5;" + b"x" * (LINE_MAX + over - 2) + b"\r\nhello\r\n0\r\n\r\n"
    whole = await answers(in_pieces_of(sent, HEAD_PIECE))
    assert STATUS.findall(whole) == ([b"200"] if over <= 0 else [b"400"])
    for size in (1000, 1024, 4096, 7001):
        assert await answers(in_pieces_of(sent, size)) == whole
