"""A head is read as h11 reads it, whatever stands in it, and refused where its lines end in doubt."""

from __future__ import annotations

import random
from contextlib import suppress

import h11
import httptools
import pytest

from ledger_engine.http.wire.head import CHUNKED, BadRequest, BodyTooLarge, Head, read_head
from tests.conftest import Tally
from tests.contract.mutations import Mutations

HEADS = 1500
MAY_DIFFER = "Each line of a head must end in CRLF, and no line may be folded."


def by_h11(text: bytes) -> h11.Request | None:
    """The same head as h11 reads it, None if it refuses it."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=10**6)
    connection.receive_data(text)
    try:
        event = connection.next_event()
    except h11.RemoteProtocolError:
        return None
    assert isinstance(event, h11.Request)
    return event


def by_us(text: bytes) -> Head | None:
    """The same head as we read it, None if it cannot be read."""
    try:
        return read_head(text)
    except BadRequest:
        return None


def body_by_h11(request: h11.Request) -> int:
    given = dict(request.headers)
    return CHUNKED if b"transfer-encoding" in given else int(given.get(b"content-length", 0))


def heads(seed: int, count: int) -> list[bytes]:
    """Requests made wrong by chance, up to the end of their heads."""
    mutations = Mutations(seed, "sk_test_" + "A" * 32)
    found: list[bytes] = []
    while len(found) < count:
        text = b"".join(mutations.next().pieces)
        # Where a head ends, and what may come before it, is settled before it is read.
        ends = [place + len(mark) for mark in (b"\n\r\n", b"\n\n") if (place := text.find(mark)) >= 0]
        if ends and text[0] > 32:
            found.append(text[: min(ends)])
    return found


def is_read_alike(text: bytes) -> bool:
    """Assert that h11 reads the head as we do, or refuses it too; return whether it is read."""
    theirs, ours = by_h11(text), by_us(text)
    assert (theirs is None) == (ours is None), text
    if theirs is None or ours is None:
        return False
    assert ours.method == theirs.method.decode()
    assert ours.version == theirs.http_version.decode()
    # After the host of a whole URL a path may begin with what ends a host: `http://a?b` asks for `/?b`.
    assert theirs.target.endswith(ours.path) or ours.path[:2] in (b"/", b"/?", b"/#"), text
    assert ours.headers == list(theirs.headers), text
    assert ours.body == body_by_h11(theirs), text
    lines = text.count(b"\r\n")
    in_doubt = text.count(b"\n") != lines or b"\n " in text or b"\n\t" in text
    assert in_doubt == (ours.refusal is not None and ours.refusal.message == MAY_DIFFER), text
    return True


def test_every_head_is_read_as_h11_reads_it(
    seed: int, soak: int, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    monkeypatch.setattr("h11._headers.CONTENT_LENGTH_MAX_DIGITS", 4300)
    read = sum(is_read_alike(text) for text in heads(seed, HEADS * soak))
    assert read > HEADS * soak // 4
    tally(heads=HEADS * soak)


class _Seen:
    """What llhttp calls back with."""

    def __init__(self) -> None:
        self.headers: list[tuple[bytes, bytes]] = []
        self.is_whole = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        self.is_whole = True


def by_llhttp(text: bytes) -> tuple[str, str, list[tuple[bytes, bytes]]] | None:
    """Method, version and headers of the same head as llhttp reads them, None if it refuses it."""
    seen = _Seen()
    parser = httptools.HttpRequestParser(seen)
    with suppress(httptools.HttpParserUpgrade):
        try:
            parser.feed_data(text)
        except httptools.HttpParserError:
            return None
    if not seen.is_whole:
        return None
    return parser.get_method().decode(), parser.get_http_version(), seen.headers


def test_a_head_that_llhttp_accepts_is_read_as_it_reads_it(seed: int, soak: int, tally: Tally) -> None:
    """Each refuses some that the other takes, such as methods that are unknown to llhttp."""
    both = 0
    for text in heads(seed, HEADS * soak):
        theirs, ours = by_llhttp(text), by_us(text)
        if theirs is not None and ours is not None and ours.refusal is None:
            both += 1
            assert (ours.method, ours.version, ours.headers) == theirs, text
    assert both > HEADS * soak // 4
    tally(heads_by_llhttp=HEADS * soak)


@pytest.mark.parametrize(
    ("lines", "length"),
    [
        ([b"5"], b"5"),
        ([b"005"], b"005"),
        ([b"5, 5"], b"5"),
        ([b"5", b"5"], b"5"),
        ([b"0" * 5000 + b"5"], b"5"),
        ([b"9" * 4300], b"9" * 4300),
    ],
)
def test_a_length_is_sent_once_and_in_digits(lines: list[bytes], length: bytes) -> None:
    text = b"POST / HTTP/1.1\r\nHost: a\r\n%bX: y\r\n\r\n"
    head = read_head(text % b"".join(b"Content-Length: %b\r\n" % line for line in lines))
    assert head.headers == [(b"host", b"a"), (b"content-length", length), (b"x", b"y")]
    assert head.body == int(length)


def test_a_length_that_nobody_can_count_is_too_large() -> None:
    with pytest.raises(BodyTooLarge):
        read_head(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %b\r\n\r\n" % (b"9" * 4301))


@pytest.mark.parametrize("lengths", [[b"5", b"6"], [b"5", b"5x"], [b"5", b""], [b"", b""], [b"1,"], [b"+1"]])
def test_lengths_in_doubt_are_refused(lengths: list[bytes]) -> None:
    text = b"".join(b"Content-Length: %b\r\n" % length for length in lengths)
    with pytest.raises(BadRequest):
        read_head(b"POST / HTTP/1.1\r\nHost: a\r\n%b\r\n" % text)


@pytest.mark.parametrize(
    ("line", "version", "keeps_open", "expects"),
    [
        (b"X: y", b"1.1", True, False),
        (b"Connection: Close", b"1.1", False, False),
        (b"Connection: keep-alive, close", b"1.1", False, False),
        (b"Connection: x\r\nConnection: close", b"1.1", False, False),
        (b"Connection: keep-alive", b"1.0", False, False),
        (b"Expect: 100-Continue", b"1.1", True, True),
        (b"Expect: 100-continue", b"1.0", False, False),
    ],
)
def test_a_client_decides_whether_the_connection_stays(
    line: bytes, version: bytes, keeps_open: bool, expects: bool
) -> None:
    head = read_head(b"GET / HTTP/%b\r\nHost: a\r\n%b\r\n\r\n" % (version, line))
    assert (head.keeps_open, head.expects_continue) == (keeps_open, expects)


def test_a_head_that_almost_fits_is_refused_as_fast_as_the_rest() -> None:
    """A pattern that tries again and again would take minutes."""
    for part in (b"X: " + b" " * 20_000, b"X:" + b"a \t" * 7_000, b"X: y\r\n" * 4_000):
        with pytest.raises(BadRequest):
            read_head(b"GET / HTTP/1.1\r\nHost: a\r\n" + part + b"\x00\r\n\r\n")
    chance = random.Random(1)
    noise = bytes(chance.choice(b"aA: \t\r\n,") for _ in range(20_000))
    with pytest.raises(BadRequest):
        read_head(b"GET / HTTP/1.1\r\n" + noise + b"\r\n\r\n")
