"""Handshakes that never end are counted, are few, and keep nobody out."""

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

from ledger_engine.http.wire import connections, tls
from ledger_engine.http.wire.connections import Connections
from ledger_engine.http.wire.http1 import Http1, Service
from tests.certificates import make_certificate
from tests.ledger_engine.http.served import served

HALF = b"\x16\x03\x01\x02\x00\x01"  # of a client's first message
NEVER_S = 1000.0


async def app(scope: Any, receive: Any, send: Any) -> None:
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
    async with served(app, certfile=certfile, keyfile=keyfile, keep_alive_timeout=NEVER_S) as port:
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
    monkeypatch.setattr(tls, "HANDSHAKES_MAX", 2)
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
    port: int, monkeypatch: pytest.MonkeyPatch, halves: Halves
) -> None:
    monkeypatch.setattr(tls, "HANDSHAKE_S", 0.05)
    (half,) = await halves(port, 1)
    assert await half.read() == b""


@pytest.mark.parametrize(
    ("offered", "selected"), [(["http/1.1"], "http/1.1"), (["h2", "http/1.1"], "http/1.1"), (["h2"], None)]
)
async def test_who_offers_http_2_alone_is_answered_in_http_1_1(
    port: int, trusting: ssl.SSLContext, offered: list[str], selected: str | None
) -> None:
    trusting.set_alpn_protocols(offered)
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
    assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == selected
    writer.close()
    assert (await ask(port, trusting)).startswith(b"HTTP/1.1 200")
