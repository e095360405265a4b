"""How answers leave on the wire; what comes in is `tests/contract/test_wire.py`'s."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypercorn.config import Config

from ledger_engine.http.wire import connections
from ledger_engine.http.wire.asgi import until_gone
from ledger_engine.http.wire.serving import serve

Messages = list[dict[str, Any]]


class Connection:
    """A client that asks byte by byte and reads what comes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def ask(self, method: str = "GET", version: str = "1.1", more: bytes = b"") -> None:
        self._writer.write(f"{method} / HTTP/{version}\r\nHost: here\r\n\r\n".encode() + more)

    def leave(self) -> None:
        self._writer.close()

    def end(self) -> None:
        """Send nothing more, and wait for what comes."""
        self._writer.write_eof()

    @property
    def server(self) -> tuple[str, int]:
        """The address of the server."""
        address: tuple[str, int] = self._writer.get_extra_info("peername")
        return address

    async def read_past(self, mark: bytes) -> bytes:
        """What comes up to the mark and with it."""
        return await self._reader.readuntil(mark)

    async def read_to_the_end(self) -> bytes:
        """All that comes until the server ends the connection."""
        return await self._reader.read()


@contextlib.asynccontextmanager
async def serving(app: Any) -> AsyncIterator[Connection]:
    """A connection to a server of this ASGI application."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    config = Config()
    config.bind = [f"fd://{listener.detach()}"]
    config.errorlog = None
    stop = asyncio.Event()
    running = asyncio.create_task(serve(app, config, shutdown_trigger=stop.wait))
    connection = Connection(*await asyncio.open_connection("127.0.0.1", port))
    try:
        yield connection
    finally:
        connection.leave()
        stop.set()
        await running


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


@pytest.mark.parametrize("answers", [1, 2], ids=["one", "two, of which the client must not see the second"])
async def test_an_answer_of_known_length_leaves_the_connection_open_for_the_next(answers: int) -> None:
    answer = [start(201, content_length="2", x_mark="é\t1"), body(b"ok")]
    async with answering(answer * answers) as connection:
        for _ in range(2):
            connection.ask()
            head = await connection.read_past(b"\r\n\r\n")
            status, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
            assert status == "HTTP/1.1 201 "
            assert sorted(line.partition(": ")[0].lower() for line in lines) == [
                "content-length",
                "date",
                "x-mark",
            ]
            assert "x-mark: é\t1" in lines
            assert await connection.read_past(b"ok") == b"ok"


async def test_a_body_in_pieces_has_the_announced_length() -> None:
    pieces = [start(200, content_length="4"), body(b"ab", more=True), body(b"cd")]
    async with answering(pieces) as connection:
        for _ in range(2):
            connection.ask()
            assert b"content-length: 4\r\n" in await connection.read_past(b"\r\n\r\n")
            assert await connection.read_past(b"abcd") == b"abcd"


async def test_a_stream_begins_before_the_first_event() -> None:
    go_on = asyncio.Event()
    async with answering([start(200), body(b"at last")], waits=go_on) as connection:
        connection.ask()
        assert b"Transfer-Encoding: chunked\r\n" in await connection.read_past(b"\r\n\r\n")
        go_on.set()
        assert await connection.read_past(b"0\r\n\r\n") == b"7\r\nat last\r\n0\r\n\r\n"


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 304)])
async def test_an_answer_that_can_have_no_body_has_none(method: str, status: int) -> None:
    async with answering([start(status, content_length="2"), body(b"ok")]) as connection:
        for _ in range(2):
            connection.ask(method)
            assert b"content-length: 2\r\n" in await connection.read_past(b"\r\n\r\n")


async def test_an_answer_may_end_the_connection() -> None:
    messages = [start(400, content_length="2", connection="close"), body(b"no")]
    async with answering(messages) as connection:
        connection.ask()
        assert (await connection.read_to_the_end()).endswith(b"\r\n\r\nno")


async def test_an_http_1_0_answer_says_that_the_connection_closes() -> None:
    async with answering([start(200, content_length="2"), body(b"ok")]) as connection:
        connection.ask(version="1.0")
        assert b"Connection: close\r\n" in await connection.read_to_the_end()


async def test_the_end_of_an_http_1_0_stream_is_that_of_the_connection() -> None:
    """HTTP/1.0 has no chunks, which would be taken for part of the data."""
    async with answering([start(200), body(b"in ", more=True), body(b"pieces")]) as connection:
        connection.ask(version="1.0")
        head, _, data = (await connection.read_to_the_end()).partition(b"\r\n\r\n")
        assert b"Connection: close" in head
        assert b"transfer-encoding" not in head.lower()
        assert data == b"in pieces"


@pytest.mark.parametrize("value", ["a\r\nset-cookie: b", "a\nb", "a\rb", "a\x00b", "a\x1bb", "a\x7fb"])
@pytest.mark.parametrize("length", [{}, {"content_length": "2"}])
async def test_a_header_that_could_be_taken_for_more_than_one_is_never_sent(
    value: str, length: dict[str, str]
) -> None:
    async with answering([start(200, location=value, **length), body(b"ok")]) as connection:
        connection.ask()
        assert await connection.read_to_the_end() == b""


@pytest.mark.parametrize("data", [b"o", b"okay"])
async def test_a_body_of_another_length_than_announced_is_never_sent(data: bytes) -> None:
    async with answering([start(200, content_length="2"), body(data)]) as connection:
        connection.ask()
        assert await connection.read_to_the_end() == b""


@pytest.mark.parametrize(
    "messages", [[body(b"ok")], [start(200, content_length="2"), start(500, content_length="2"), body(b"ok")]]
)
async def test_parts_of_an_answer_in_a_wrong_order_are_never_sent(messages: Messages) -> None:
    async with answering(messages) as connection:
        connection.ask()
        assert await connection.read_to_the_end() == b""


async def test_an_application_that_ends_in_the_middle_ends_the_connection() -> None:
    async with answering([start(200, content_length="2")]) as connection:
        connection.ask()
        assert await connection.read_to_the_end() == b""


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
