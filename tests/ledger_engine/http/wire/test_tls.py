"""Handshakes that never end are counted, are few, and keep nobody out."""

from __future__ import annotations

import asyncio
import contextlib
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

from ledger_engine.http.wire import connections, tls
from ledger_engine.http.wire.connections import Connections
from ledger_engine.http.wire.http1 import Http1, Service
from ledger_engine.http.wire.serving import tls_context
from tests.certificates import make_certificate

HALF = b"\x16\x03\x01\x02\x00\x01"  # of a client's first message
NEVER_S = 1000.0


async def app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
def trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@contextlib.asynccontextmanager
async def listening(folder: Path) -> AsyncIterator[int]:
    """The port of a server that speaks TLS."""
    certificate = make_certificate(folder, x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    config = Config()
    config.certfile, config.keyfile = map(str, certificate)
    own = tls_context(config)
    room = Connections(NEVER_S)
    service = Service(app, room, "https", {})
    bound = socket.create_server(("127.0.0.1", 0))
    listener = tls.TlsListener(bound, tls.Handshakes(own, room, partial(Http1, service)))
    listener.start(100)
    try:
        yield bound.getsockname()[1]
    finally:
        listener.close()
        service.cut()
        await room.stop()


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
    tmp_path: Path, trusting: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, halves: Halves
) -> None:
    monkeypatch.setattr(tls, "HANDSHAKES_MAX", 2)
    async with listening(tmp_path) as port:
        first, second = await halves(port, 2)
        assert (await ask(port, trusting)).startswith(b"HTTP/1.1 200")
        assert await first.read() == b""
        await halves(port, 2)
        assert await second.read() == b""


async def test_a_handshake_has_the_place_of_a_connection(
    tmp_path: Path, trusting: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, halves: Halves
) -> None:
    monkeypatch.setattr(connections, "connections_max", lambda: 2)
    async with listening(tmp_path) as port:
        first, _ = await halves(port, 2)
        assert (await ask(port, trusting)).startswith(b"HTTP/1.1 200")
        assert await first.read() == b""


async def test_no_handshake_begins_where_all_places_are_of_connections_that_are_answered(
    trusting: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "connections_max", lambda: 1)
    room = Connections(NEVER_S)
    service = Service(app, room, "https", {})
    answered = Http1(service)
    assert room.add(answered)
    room.note_busy(answered)
    client, accepted = socket.socketpair()
    client.setblocking(False)
    tls.Handshakes(trusting, room, partial(Http1, service)).begin(accepted)
    del accepted
    with client:
        assert await asyncio.get_running_loop().sock_recv(client, 1) == b""
    assert len(room) == 1


async def test_a_handshake_has_a_limit_of_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, halves: Halves
) -> None:
    monkeypatch.setattr(tls, "HANDSHAKE_S", 0.05)
    async with listening(tmp_path) as port:
        (half,) = await halves(port, 1)
        assert await half.read() == b""


@pytest.mark.parametrize(
    ("offered", "selected"), [(["http/1.1"], "http/1.1"), (["h2", "http/1.1"], "http/1.1"), (["h2"], None)]
)
async def test_who_offers_http_2_alone_is_answered_in_http_1_1(
    tmp_path: Path, trusting: ssl.SSLContext, offered: list[str], selected: str | None
) -> None:
    trusting.set_alpn_protocols(offered)
    async with listening(tmp_path) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == selected
        writer.write(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\nok")).startswith(b"HTTP/1.1 200")
        writer.close()
