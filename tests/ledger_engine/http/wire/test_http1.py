"""How answers leave on the wire; what comes in is `tests/contract/test_wire.py`'s."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ledger_engine.http.wire import connections
from ledger_engine.http.wire.asgi import until_gone
from ledger_engine.http.wire.connections import Connections
from ledger_engine.http.wire.http1 import Http1, Service
from tests.ledger_engine.http.served import served
from tests.ledger_engine.http.wire.wires import DATE, Wire

Messages = list[dict[str, Any]]


class Connection:
    """A client that asks byte by byte and reads what comes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.read_past = reader.readuntil
        self.read_to_the_end = reader.read
        self.leave = writer.close
        self.end = writer.write_eof  # sends nothing more, and waits for what comes

    def ask(self, method: str = "GET", version: str = "1.1", more: bytes = b"") -> None:
        self._writer.write(f"{method} / HTTP/{version}\r\nHost: here\r\n\r\n".encode() + more)

    @property
    def server(self) -> tuple[str, int]:
        """The address of the server."""
        address: tuple[str, int] = self._writer.get_extra_info("peername")
        return address


@contextlib.asynccontextmanager
async def serving(app: Any) -> AsyncIterator[Connection]:
    """A connection to a server of this ASGI application."""
    async with served(app) as port:
        connection = Connection(*await asyncio.open_connection("127.0.0.1", port))
        try:
            yield connection
        finally:
            connection.leave()


@contextlib.asynccontextmanager
async def answering(messages: Messages, waits: asyncio.Event | None = None) -> AsyncIterator[Connection]:
    """A connection to a server whose answer is always these ASGI messages; `waits` comes before the last."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        for number, message in enumerate(messages, 1):
            if waits is not None and number == len(messages):
                await waits.wait()
            await send(dict(message))

    async with serving(app) as connection:
        yield connection


def start(status: int, **headers: str) -> dict[str, Any]:
    lines = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    return {"type": "http.response.start", "status": status, "headers": lines}


def body(data: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


OK = [start(200, content_length="2"), body(b"ok")]
WAY: dict[str, tuple[str, Messages, bytes]] = {
    "a body of known length": (
        "GET 1.1",
        [start(201, content_length="2", x_mark="é\t1"), body(b"ok")],
        b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\nx-mark: \xe9\t1\r\n\r\nok" * 2,
    ),
    "a status without a name": (
        "GET 1.1",
        [start(499, content_length="0"), body(b"")],
        b"HTTP/1.1 499 Status 499\r\ncontent-length: 0\r\n\r\n" * 2,
    ),
    "a body in pieces": (
        "GET 1.1",
        [start(200, content_length="4"), body(b"ab", more=True), body(b"cd")],
        b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nabcd" * 2,
    ),
    "no second answer": ("GET 1.1", OK + OK, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok" * 2),
    "no body for HEAD": ("HEAD 1.1", OK, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n" * 2),
    "no body of a 304": (
        "GET 1.1",
        [start(304, content_length="2"), body(b"ok")],
        b"HTTP/1.1 304 Not Modified\r\ncontent-length: 2\r\n\r\n" * 2,
    ),
    "the end of the connection": (
        "GET 1.1",
        [start(400, content_length="2", connection="close"), body(b"no")],
        b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno",
    ),
    "its end for HTTP 1.0": (
        "GET 1.0",
        OK,
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nConnection: close\r\n\r\nok",
    ),
    # HTTP/1.0 has no chunks, which would be taken for part of the data.
    "its end as that of a stream for HTTP 1.0": (
        "GET 1.0",
        [start(200), body(b"in ", more=True), body(b"pieces")],
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nin pieces",
    ),
    # What the client could misread is never sent; the connection ends.
    **{
        f"no header with {value!r} {'and a length' if length else ''}": (
            "GET 1.1",
            [start(200, location=value, **length), body(b"ok")],
            b"",
        )
        for value in ["a\r\nset-cookie: b", "a\nb", "a\rb", "a\x00b", "a\x1bb", "a\x7fb"]
        for length in ({}, {"content_length": "2"})
    },
    "no body that is too short": ("GET 1.1", [start(200, content_length="2"), body(b"o")], b""),
    "no body that is too long": ("GET 1.1", [start(200, content_length="2"), body(b"okay")], b""),
    "no body before its start": ("GET 1.1", [body(b"ok")], b""),
    "no answer with two starts": ("GET 1.1", [start(200, content_length="2"), *OK], b""),
    "no answer without an end": ("GET 1.1", [start(200, content_length="2")], b""),
}


@pytest.mark.parametrize(("asked", "messages", "answers"), WAY.values(), ids=WAY)
async def test_so_two_requests_are_answered_on_a_connection(
    asked: str, messages: Messages, answers: bytes
) -> None:
    method, version = asked.split()
    async with answering(messages) as connection:
        for _ in range(2):
            connection.ask(method, version)
        connection.end()
        seen, dates = DATE.subn(b"", await connection.read_to_the_end())
    assert (seen, dates) == (answers, answers.count(b"HTTP/1.1"))


async def test_a_stream_begins_before_the_first_event() -> None:
    go_on = asyncio.Event()
    async with answering([start(200), body(b"at last")], waits=go_on) as connection:
        connection.ask()
        assert b"Transfer-Encoding: chunked\r\n" in await connection.read_past(b"\r\n\r\n")
        go_on.set()
        assert await connection.read_past(b"0\r\n\r\n") == b"7\r\nat last\r\n0\r\n\r\n"


@pytest.mark.parametrize("more", [b"", b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"])
async def test_that_the_client_of_a_stream_left_is_noticed(more: bytes) -> None:
    """Also while its next request waits, and nothing is read."""
    is_gone = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        gone = asyncio.ensure_future(until_gone(receive))
        await send(start(200))
        while not gone.done():
            await send(body(b"still here", more=True))
            await asyncio.wait([gone], timeout=0.01)
        is_gone.set()

    async with serving(app) as connection:
        connection.ask(more=more)
        await connection.read_past(b"still here")
        connection.leave()
        async with asyncio.timeout(60):
            await is_gone.wait()


async def test_a_client_that_ends_its_side_between_two_requests_is_let_go_at_once() -> None:
    async with answering([start(200, content_length="2"), body(b"ok")]) as connection:
        connection.ask()
        await connection.read_past(b"\r\n\r\nok")
        connection.end()
        async with asyncio.timeout(20):  # and not when it has stood idle too long
            assert await connection.read_to_the_end() == b""


async def test_a_client_that_ends_its_side_while_it_waits_is_answered_and_let_go() -> None:
    go_on = asyncio.Event()
    async with answering([start(200, content_length="2"), body(b"ok")], waits=go_on) as connection:
        connection.ask(more=b"GET / HTTP/1.1\r\nHost: here\r\n\r\nGET /")
        connection.end()
        go_on.set()
        async with asyncio.timeout(20):
            assert (await connection.read_to_the_end()).count(b"\r\n\r\nok") == 2


@pytest.mark.parametrize("count", [2, 1])
async def test_a_client_that_reads_late_has_all_of_a_large_answer(count: int) -> None:
    """The server waits with the next request, or with the end, until the answer has left."""
    large = b"x" * 8_000_000
    closing = {} if count > 1 else {"connection": "close"}
    async with answering([start(200, content_length=str(len(large)), **closing), body(large)]) as connection:
        for _ in range(count):
            connection.ask()
        if count > 1:
            connection.end()
        answers = await connection.read_to_the_end()
    assert answers.count(b"HTTP/1.1 200") == count
    assert answers.count(b"x") == len(large) * count


async def test_a_connection_for_which_there_is_no_room_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """All others are answered just then, so none of them can make room."""
    monkeypatch.setattr(connections, "connections_max", lambda: 1)
    go_on = asyncio.Event()
    async with answering([start(200), body(b"at last")], waits=go_on) as connection:
        connection.ask()
        await connection.read_past(b"\r\n\r\n")
        with socket.create_connection(connection.server) as late:
            late.setblocking(False)
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.get_running_loop().sock_recv(late, 1) == b""
        go_on.set()
        assert await connection.read_past(b"0\r\n\r\n") == b"7\r\nat last\r\n0\r\n\r\n"


async def test_a_server_that_is_cut_off_waits_for_no_request_that_had_not_begun() -> None:
    room = Connections(1000)
    service = Service(until_gone, room, "http", {})  # type: ignore[arg-type]
    protocol = Http1(service)
    await Wire().pass_on(protocol, [b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"])
    service.cut()
    async with asyncio.timeout(60):
        await service.finish()
        await room.stop()
