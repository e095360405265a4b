"""A plain ASGI application, which knows nothing of this server, on a real socket."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from hypercorn.config import Config
from hypercorn.utils import LifespanFailureError

from ledger_engine.http.wire import connections, serving
from ledger_engine.http.wire.connections import Connections
from ledger_engine.http.wire.http1 import Http1, Service
from ledger_engine.http.wire.serving import serve
from ledger_engine.server.listening import listen
from tests.certificates import make_certificate
from tests.ledger_engine.http.served import served


async def fails_to_start(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "there is no ledger"})


async def test_the_reason_of_an_application_that_cannot_start_is_raised() -> None:
    config = Config()
    config.bind = ["127.0.0.1:0"]
    with pytest.raises(LifespanFailureError, match="there is no ledger"):
        await serve(fails_to_start, config, shutdown_trigger=asyncio.Event().wait)


class Plain:
    """An ASGI application that says hello, echoes a body, or sends an answer in two parts."""

    def __init__(self) -> None:
        self.lived: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for event in ("startup", "shutdown"):
                await receive()
                self.lived.append(event)
                scope["state"]["greeting"] = b"hello"
                await send({"type": f"lifespan.{event}.complete"})
            return
        parts = [b"one", b"two"] if scope["path"] == "/stream" else [scope["state"]["greeting"]]
        if scope["path"] == "/echo":
            parts, more = [], True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return
                parts.append(message["body"])
                more = message["more_body"]
            parts = [b"".join(parts)]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for number, part in enumerate(parts, 1):
            await send({"type": "http.response.body", "body": part, "more_body": number < len(parts)})


@pytest.fixture
async def plain() -> AsyncIterator[int]:
    """The port of a server of a plain application, whose lifespan is over in the end."""
    app = Plain()
    async with served(app) as port:
        yield port
    assert app.lived == ["startup", "shutdown"]


HEAD = b" HTTP/1.1\r\nHost: here\r\nConnection: close\r\n"
CHUNKED = b"POST /echo" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "status", "body"),
    [
        (b"GET /" + HEAD + b"\r\n", b"200", b"5\r\nhello\r\n0\r\n\r\n"),
        (b"GET /stream" + HEAD + b"\r\n", b"200", b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"),
        (CHUNKED + b"1\r\nx\r\n" * 200 + b"0\r\n\r\n", b"200", b"c8\r\n" + b"x" * 200 + b"\r\n0\r\n\r\n"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400", b"This is not valid HTTP/1.1: missing Host header.\n"),
        (CHUNKED + b"zz\r\n", b"400", b"The body cannot be read: its framing is not valid HTTP/1.1.\n"),
    ],
    ids=["hello", "stream", "echo", "bad head", "bad body"],
)
async def test_any_application_is_served(plain: int, sent: bytes, status: bytes, body: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", plain)
    writer.write(sent)
    head, _, rest = (await reader.read()).partition(b"\r\n\r\n")
    assert (head[9:12], rest) == (status, body)
    writer.close()


async def test_a_body_is_asked_for_when_the_application_receives_it(plain: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", plain)
    writer.write(b"POST /echo" + HEAD + b"Content-Length: 10000\r\nExpect: 100-continue\r\n\r\n")
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(b"x" * 10_000)
    assert b"x" * 10_000 in await reader.read()
    writer.close()


# Handshakes that never end are counted, are few, and keep nobody out


HALF = b"\x16\x03\x01\x02\x00\x01"  # of a client's first message
NEVER_S = 1000.0


async def answers_ok(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
def trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[int]:
    """The port of a server that speaks TLS, where nobody is idle too long."""
    certificate = make_certificate(tmp_path, x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    certfile, keyfile = map(str, certificate)
    async with served(answers_ok, certfile=certfile, keyfile=keyfile, keep_alive_timeout=NEVER_S) as port:
        yield port


Halves = Callable[[int, int], Awaitable[list[asyncio.StreamReader]]]


@pytest.fixture
async def halves() -> AsyncIterator[Halves]:
    """Return a function that opens clients who begin a session and do not go on."""
    writers = []

    async def begin(port: int, count: int) -> list[asyncio.StreamReader]:
        opened = []
        for _ in range(count):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writers.append(writer)
            writer.write(HALF)
            opened.append(reader)
        return opened

    yield begin
    for each in writers:
        each.close()


async def ask(port: int, trusting: ssl.SSLContext) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
    writer.write(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
    try:
        return await reader.readuntil(b"\r\n\r\nok")
    finally:
        writer.close()


async def test_one_handshake_too_many_ends_the_one_that_takes_longest(
    port: int, trusting: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, halves: Halves
) -> None:
    monkeypatch.setattr(serving, "HANDSHAKES_MAX", 2)
    first, second = await halves(port, 2)
    assert (await ask(port, trusting)).startswith(b"HTTP/1.1 200")
    assert await first.read() == b""
    await halves(port, 2)
    assert await second.read() == b""


@pytest.fixture
def room_for_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "connections_max", lambda: 2)


@pytest.mark.usefixtures("room_for_two")
async def test_a_handshake_has_the_place_of_a_connection(
    port: int, trusting: ssl.SSLContext, halves: Halves
) -> None:
    first, _ = await halves(port, 2)
    assert (await ask(port, trusting)).startswith(b"HTTP/1.1 200")
    assert await first.read() == b""


async def test_no_handshake_begins_where_all_places_are_of_connections_that_are_answered(
    trusting: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "connections_max", lambda: 1)
    room = Connections(NEVER_S)
    service = Service(answers_ok, room, "https", {})
    answered = Http1(service)
    assert room.add(answered)
    room.note_busy(answered)
    client, accepted = socket.socketpair()
    client.setblocking(False)
    serving.Handshakes(trusting, room, partial(Http1, service)).begin(accepted)
    del accepted
    with client:
        assert await asyncio.get_running_loop().sock_recv(client, 1) == b""
    assert len(room) == 1


async def test_a_handshake_has_a_limit_of_time(
    port: int, monkeypatch: pytest.MonkeyPatch, halves: Halves
) -> None:
    monkeypatch.setattr(serving, "HANDSHAKE_S", 0.05)
    (half,) = await halves(port, 1)
    assert await half.read() == b""


@pytest.mark.parametrize(
    ("offered", "selected"), [(["http/1.1"], "http/1.1"), (["h2", "http/1.1"], "http/1.1"), (["h2"], None)]
)
async def test_a_client_that_offers_http_2_alone_is_answered_in_http_1_1(
    port: int, trusting: ssl.SSLContext, offered: list[str], selected: str | None
) -> None:
    trusting.set_alpn_protocols(offered)
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
    assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == selected
    writer.close()
    assert (await ask(port, trusting)).startswith(b"HTTP/1.1 200")


async def test_little_is_sent_to_a_client_that_reads_nothing() -> None:
    """The system would take some megabytes for each of its connections, and the server would render them."""
    piece, sent, is_blocked, is_over = 64 * 1024 * b"x", 0, asyncio.Event(), asyncio.Event()

    async def endless(scope: dict[str, Any], receive: Any, send: Any) -> None:
        nonlocal sent
        assert scope["type"] == "http"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not is_over.is_set():
            sending = asyncio.ensure_future(
                send({"type": "http.response.body", "body": piece, "more_body": True})
            )
            sent += len(piece)
            await asyncio.sleep(0)
            if not sending.done():
                is_blocked.set()
            await sending

    listener = listen("127.0.0.1", 0)
    listener.listen()
    async with served(endless, listener) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(60):
            await is_blocked.wait()
        assert sent < 1_000_000
        is_over.set()
        writer.transport.abort()


async def test_a_request_that_has_arrived_when_the_server_stops_is_answered_as_the_last() -> None:
    """A proxy sends it on a connection that it knows as open, and could not repeat it elsewhere."""

    async def rest_of(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        received = await reader.read()
        writer.close()
        return received

    async with served(answers_ok) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        first = await reader.readuntil(b"ok")
        assert b"connection: close" not in first.lower()
        rest = asyncio.create_task(rest_of(reader, writer))
        await asyncio.sleep(0)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    received = await rest
    assert received.startswith(b"HTTP/1.1 200 ")
    assert b"connection: close" in received.lower()
    assert received.endswith(b"ok")
