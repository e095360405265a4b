"""A body ends where its framing says, however it is cut into pieces on its way."""

from __future__ import annotations

import random

import h11
import pytest

from ledger_engine.http.wire.framing import ChunkedBody, SizedBody
from ledger_engine.http.wire.head import BadRequest
from tests.conftest import Tally

MANY = 1000
BODY = b"5\r\nhello\r\nA;a=b \r\n" + b"x" * 10 + b"\r\n1;e\r\n!\r\n0\r\nChecksum: 1\r\n\r\n"
NEXT = b"GET / HTTP/1.1\r\n"


def pieces_of(data: bytes, chance: random.Random) -> list[bytes]:
    cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.choice([0, 1, 2, 5, 60])))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def read(body: SizedBody | ChunkedBody, pieces: list[bytes]) -> tuple[bytes, bytes | None]:
    """The body, and what follows it, None if it does not end."""
    parts: list[bytes] = []
    for place, piece in enumerate(pieces):
        rest = body.take(piece, parts, MANY)
        if rest is not None:
            return b"".join(parts), rest + b"".join(pieces[place + 1 :])
    return b"".join(parts), None


def by_h11(data: bytes) -> tuple[bytes, bytes | None] | None:
    """The same as h11 reads it, None if it refuses it."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=10**6)
    connection.receive_data(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + data)
    body = b""
    while True:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError:
            return None
        if isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            return body, connection.trailing_data[0]
        elif event is h11.NEED_DATA:
            return body, None


def test_a_body_is_the_same_in_whatever_pieces_it_comes(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(300):
        assert read(ChunkedBody(), pieces_of(BODY + NEXT, chance)) == (b"hello" + b"x" * 10 + b"!", NEXT)
        assert read(SizedBody(5), pieces_of(b"hello" + NEXT, chance)) == (b"hello", NEXT)
        assert read(SizedBody(50), pieces_of(b"hello", chance)) == (b"hello", None)


@pytest.mark.slow
def test_wrong_chunks_are_read_as_h11_reads_them_or_refused(seed: int, soak: int, tally: Tally) -> None:
    chance = random.Random(seed)
    taken = 0
    for _ in range(2000 * soak):
        data = bytearray(BODY)
        for _ in range(chance.choice([0, 1, 1, 2])):
            place = chance.randrange(len(data))
            data[place : place + chance.choice([0, 1])] = chance.choice(
                [b"", b"\r", b"\n", b"0", b"f", b";", b"\0", b":", b"\x80"]
            )
        text = bytes(data) + NEXT
        try:
            ours = read(ChunkedBody(), pieces_of(text, chance))
        except BadRequest:
            continue  # CR or LF alone, which h11 lets pass
        theirs = by_h11(text)
        assert theirs == ours or (ours[1] is None and theirs is None), text
        taken += ours[1] is not None
    assert taken > 200 * soak
    tally(bodies=2000 * soak)


def test_spaces_may_stand_before_an_extension() -> None:
    assert read(ChunkedBody(), [b"1 \t; a=b \t\r\nx\r\n0\r\n\r\n"]) == (b"x", b"")


@pytest.mark.parametrize(
    "wrong",
    [
        b"zz\r\n",
        b"\r\n",
        b"-1\r\n",
        b"0x5\r\n",
        b"5\rx\r\n",
        b"5;a\nb\r\n",
        b"5\r\nhello!",
        b"5\r\nhello\n",
        b"1" * 17 + b"\r\n",
        b"5;" + b"x" * 30_000,
        b"0\r\nbad trailer\r\n\r\n",
        b"0\r\n folded: 1\r\n\r\n",
        b"0\r\nX: 1\nY: 2\r\n\r\n",
        b"0\r\n" + b"X: 1234\r\n" * 2000,
    ],
)
def test_a_text_that_is_no_chunk_is_refused(wrong: bytes) -> None:
    with pytest.raises(BadRequest):
        read(ChunkedBody(), [wrong])


def test_reading_stops_before_a_chunk_too_many_and_goes_on_when_more_are_allowed() -> None:
    body, parts = ChunkedBody(), list[bytes]()
    data = b"1\r\nx\r\n" * 5 + b"0\r\n\r\n"
    assert body.take(data + NEXT, parts, 4) is None
    assert (body.is_stopped, parts) == (True, [b"x"] * 4)
    assert body.take(b"", parts, 5) == NEXT
    assert (body.is_stopped, parts) == (False, [b"x"] * 5)
