"""A plain ASGI application, which knows nothing of this server, on a real socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypercorn.config import Config
from hypercorn.utils import LifespanFailureError

from ledger_engine.http.wire.serving import serve


async def fails_to_start(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "there is no ledger"})


@pytest.fixture
def config() -> Config:
    config = Config()
    config.bind = ["127.0.0.1:0"]
    return config


async def test_the_reason_of_an_application_that_cannot_start_is_raised(config: Config) -> None:
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
async def plain(config: Config) -> AsyncIterator[int]:
    """The port of a server of a plain application, whose lifespan is over in the end."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    config.bind = [f"fd://{listener.detach()}"]
    app, stop = Plain(), asyncio.Event()
    running = asyncio.create_task(serve(app, config, shutdown_trigger=stop.wait))
    yield port
    stop.set()
    await running
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
