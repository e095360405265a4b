"""A plain ASGI application, which knows nothing of this server, on a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypercorn.config import Config
from hypercorn.utils import LifespanFailureError

from ledger_engine.http.wire import serving
from ledger_engine.http.wire.connections import Connections
from ledger_engine.http.wire.serving import PassedConnections, serve
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
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 \r\n\r\n"
    writer.write(b"x" * 10_000)
    assert b"x" * 10_000 in await reader.read()
    writer.close()


# Connections that another process has accepted, through a real Unix socket


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The socket from which connections are taken, and the one that passes them."""
    taken_from, passed_to = socket.socketpair()
    with taken_from, passed_to:
        yield taken_from, passed_to


async def test_at_the_end_all_that_were_passed_already_are_taken_however_many(
    ends: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their clients are connected, and nobody else would answer them."""
    monkeypatch.setattr(serving, "AT_ONCE", 2)
    source, other = ends
    with contextlib.ExitStack() as stack:
        begun: list[socket.socket] = []
        taking = PassedConnections(source, lambda _taken, _open: None)
        taking.start(begun.append, Connections(1000))
        clients = []
        for _ in range(5):
            client, accepted = (stack.enter_context(each) for each in socket.socketpair())
            socket.send_fds(other, [b"c"], [accepted.fileno()])
            clients.append(client)
        taking.close()
        for number, each in enumerate(begun):
            stack.enter_context(each).sendall(b"%d" % number)
        assert [client.recv(1) for client in clients] == [b"0", b"1", b"2", b"3", b"4"]


async def test_one_that_came_without_its_file_is_reported_as_taken_and_not_open(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    """A process that can open no more files gets the byte alone; whoever passed it counts it otherwise."""
    source, other = ends
    reported: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
    begun: list[socket.socket] = []
    taking = PassedConnections(source, lambda *numbers: reported.set_result(numbers))
    taking.start(begun.append, Connections(1000))
    other.sendall(b"c")
    async with asyncio.timeout(60):
        assert await reported == (1, 0)
    assert begun == []
    taking.close()
