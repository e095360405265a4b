"""A server on a real socket that answers every request in one of many hostile or broken ways."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import chain, repeat

Parts = Callable[[], Iterator[bytes]]
JSON, EVENTS = "Content-Type: application/json", "Content-Type: text/event-stream"


def head(*headers: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", "Connection: close", *headers, "", ""]).encode()


def whole(body: bytes, *headers: str, status: str = "200 OK") -> Parts:
    return lambda: iter([head(f"Content-Length: {len(body)}", *headers, status=status), body])


def endless(start: bytes, part: bytes) -> Parts:
    return lambda: chain([start], repeat(part))


CHUNK = b"10000\r\n" + b" " * 65_536 + b"\r\n"
PACKED = gzip.compress(b" " * 30_000_000)
DEEP = b'{"error": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"
SESSION = b'event: session\ndata: {"secret": "whsec_x"}\n\n'

# Answers that end, or that are cut because of what was sent.
BROKEN: dict[str, Parts] = {
    "packed twice": whole(gzip.compress(PACKED), JSON, "Content-Encoding: gzip, gzip"),
    "packed": whole(PACKED, JSON, "Content-Encoding: gzip"),
    "endless chunks": endless(head(JSON, "Transfer-Encoding: chunked"), CHUNK),
    "an endless body without a length": endless(head(JSON), b" " * 65_536),
    "an endless error": endless(head(JSON, "Transfer-Encoding: chunked", status="500 Oops"), CHUNK),
    "an endless refusal": endless(head(JSON, "Transfer-Encoding: chunked", status="400 Oops"), CHUNK),
    "an endless header": endless(b"HTTP/1.1 200 OK\r\nX-A: ", b"a" * 65_536),
    "a line of events without an end": endless(head(EVENTS) + b"data: ", b"a" * 65_536),
    "an event without an end": endless(head(EVENTS), b"data: " + b"a" * 65_536 + b"\n"),
    "an event of empty lines": endless(head(EVENTS), b"data:\n" * 10_000),
    "packed events": whole(gzip.compress(b"data: a\n" * 1_000_000), EVENTS, "Content-Encoding: gzip"),
    "events about nothing": whole(SESSION + b'event: event\ndata: {"body": {}, "signature": []}\n\n', EVENTS),
    "deep events": whole(b"event: session\ndata: " + DEEP + b"\n\n", EVENTS),
    "a deep error": whole(DEEP, JSON, status="401 Unauthorized"),
    "a deep answer": whole(DEEP, JSON),
    "many values": whole(b"[" + b"{}," * 2_000_000 + b"{}]", JSON),
    "no JSON": whole(b"<html>", "Content-Type: text/html"),
    "no UTF-8": whole(b'"\xff\xfe"', JSON),
    "no HTTP": lambda: iter([b"SSH-2.0-OpenSSH_9.2\r\n"]),
    "nothing": lambda: iter([]),
    "half a body": lambda: iter([head(JSON, "Content-Length: 100"), b"{"]),
    "a redirect to nowhere": whole(b"", "Location: http://[::1", status="302 Found"),
    "a very late retry": whole(b"{}", JSON, "Retry-After: " + "9" * 500, status="429 Wait"),
    "odd limits": whole(b"{}", JSON, *(f"X-RateLimit-{name}: {'9' * 5000}" for name in ("Limit", "Reset"))),
    **{
        f"the charset {name}": whole(b'{"error": "a"}', f"{JSON}; charset={name}")
        for name in ("hex", "zlib_codec", "base64", "undefined", "rot13", "idna", "utf-16")
    },
    **{
        f"the body {text[:30]!r}": whole(text.encode(), JSON, status="201 Created")
        for text in (
            *("null", "1", '"text"', "[null]", "[[]]", "{}", '{"data": null}', '{"data": [null]}'),
            *('{"data": [{"id": {}}], "has_more": true}', '{"data": [{"id": "\\ud800"}], "has_more": true}'),
            *('{"id": {"a": []}}', '{"id": "acc_\\u001b[2J"}', '{"id": "acc_\\ud800"}', '{"id": "../?#"}'),
            '{"data": [], "has_more": true, "next_cursor": "\\ud800"}',
            '{"access_token": "\\ud800\\r\\n", "refresh_token": "\\u001b", "expires_in": {}}',
            '{"error": {"message": {}, "code": []}}',
            *('{"lines": [null]}', '{"lines": [1]}', '{"lines": {}}', '{"livemode": 1e999, "balance": NaN}'),
        )
    },
}
# Answers that only the time ends.
SLOW: dict[str, Parts] = {
    "endless 100 Continue": endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    "a head that does not end": lambda: iter([b"HTTP/1.1 200 OK\r\nX-A: "]),
    "a body that does not end": lambda: iter([head(JSON, "Content-Length: 100"), b"{"]),
    "an error that does not end": lambda: iter([head(JSON, "Content-Length: 100", status="500 Oops"), b"{"]),
}


@dataclass
class Hostile:
    """Where the server is, and how many bytes it could send."""

    url: str = ""
    sent: int = 0
    open: set[asyncio.Task[None]] = field(default_factory=set)


@asynccontextmanager
async def hostile(parts: Parts, *, hangs: bool = False) -> AsyncIterator[Hostile]:
    """Run a server that answers with these parts, and then hangs or closes the connection."""
    server = Hostile()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        server.open.add(task)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            try:
                await reader.readuntil(b"\r\n\r\n")
                for part in parts():
                    writer.write(part)
                    await writer.drain()
                    server.sent += len(part)
                if hangs:
                    await reader.read()
            finally:
                server.open.discard(task)
                writer.close()

    listener = await asyncio.start_server(answer, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listener.close()
        for task in [*server.open]:
            task.cancel()
        await asyncio.gather(*server.open, return_exceptions=True)
