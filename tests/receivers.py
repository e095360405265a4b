"""Webhook receivers on real sockets: a good one, and many with faults."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache


@dataclass
class Received:
    """One received request; header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> str:
        return self.headers["ledger-event-id"]

    @property
    def attempt(self) -> int:
        return int(self.headers["ledger-attempt"])


Behaviour = Callable[[Received, asyncio.StreamWriter], Awaitable[None]]


def answer(status: int = 200, body: bytes = b"ok", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def answering(status: int = 200, body: bytes = b"ok", *headers: str) -> Behaviour:
    async def behave(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(status, body, *headers))

    return behave


async def hang(_: Received, __: asyncio.StreamWriter) -> None:
    """Read the request and never answer."""
    await asyncio.Event().wait()


async def drip(_: Received, writer: asyncio.StreamWriter) -> None:
    """Send a good answer one byte at a time, without an end."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(0.02)


async def drip_head(_: Received, writer: asyncio.StreamWriter) -> None:
    """Send headers one byte at a time, without an end."""
    writer.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while True:
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(0.02)


async def reset(_: Received, writer: asyncio.StreamWriter) -> None:
    """Close with RST instead of an answer."""
    plug: socket.socket = writer.get_extra_info("socket")
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def close(_: Received, writer: asyncio.StreamWriter) -> None:
    """Close without an answer."""
    writer.close()


@cache
def _bomb() -> bytes:
    megabyte = gzip.compress(bytes(1_000_000))
    return gzip.compress(100 * megabyte)  # the members of a gzip file follow one another


async def bomb(_: Received, writer: asyncio.StreamWriter) -> None:
    """Send a small body that decompresses to a large one."""
    writer.write(answer(200, _bomb(), "Content-Encoding: gzip, gzip"))


async def flood(_: Received, writer: asyncio.StreamWriter) -> None:
    """Send an answer without an end, as fast as it is read."""
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
        await writer.drain()


async def flood_head(_: Received, writer: asyncio.StreamWriter) -> None:
    """Send headers without an end."""
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"X-More: " + b"x" * 0x1000 + b"\r\n")
        await writer.drain()


async def babble(_: Received, writer: asyncio.StreamWriter) -> None:
    """Send something that is not HTTP."""
    writer.write(b"220 mail.example ESMTP\r\n\r\n")


@dataclass
class Receiver:
    """Listens on a port of this machine; `behave` can be changed at any time."""

    behave: Behaviour = field(default_factory=answering)
    received: list[Received] = field(default_factory=list)
    connections: int = 0
    closed: int = 0
    port: int = 0
    scheme: str = "http"
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/hook"

    @property
    def events(self) -> list[str]:
        """The ids of the events in the order received."""
        return [each.event for each in self.received]

    async def until(self, condition: Callable[[], object], patience_s: float = 60) -> None:
        """Wait until the condition holds, checking it after each request."""
        async with asyncio.timeout(patience_s):
            while not condition():
                self._news.clear()
                await self._news.wait()

    async def until_received(self, count: int) -> None:
        await self.until(lambda: len(self.received) >= count)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while not writer.is_closing():
                request = await _read(reader)
                self.received.append(request)
                self._news.set()
                await self.behave(request, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except asyncio.CancelledError:
            pass
        finally:
            writer.transport.abort()
            self.closed += 1
            self._news.set()


async def _read(reader: asyncio.StreamReader) -> Received:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
    method, path, _ = first.split(" ")
    return Received(method, path, headers, await reader.readexactly(int(headers["content-length"])))


@asynccontextmanager
async def receiving(
    behave: Behaviour | None = None, *, port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Receiver]:
    """Run a receiver on a free port, or on the given one."""
    receiver = Receiver(behave or answering())
    handlers: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.add(task)
        try:
            await receiver._serve(reader, writer)
        finally:
            handlers.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", port, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    receiver.scheme = "http" if tls is None else "https"
    try:
        yield receiver
    finally:
        server.close()
        for task in list(handlers):
            task.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)
