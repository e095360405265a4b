"""One request and its answer, as an ASGI application sees them."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from ledger_engine.http.wire.answers import LAST_CHUNK, chunk, write_head
from ledger_engine.http.wire.asgi import REFUSAL
from ledger_engine.http.wire.errors import BadRequest
from ledger_engine.http.wire.head import Head, Headers

READ_AHEAD = 64 * 1024  # bytes of a body not yet received by the application at which reading pauses


class Client(Protocol):
    """The connection, as far as a request uses it."""

    def write(self, data: bytes) -> None:
        """Send data."""

    async def drain(self) -> None:
        """Wait until the client has read what was sent."""

    def let_body_come(self) -> None:
        """Read the rest of the body."""

    def note_answered(self, exchange: Exchange) -> None:
        """Continue with the next request."""


class Exchange:
    """A request on its way through the application, which is also the request's `Arrival`."""

    task: asyncio.Task[None] | None = None  # the task of the application
    whole = False  # whether the whole body has arrived
    is_wanted = False  # whether the application asks for the rest
    may_be_large = False
    _is_taken = False  # whether the application has received the whole body
    _is_gone = False  # whether the client has disconnected, or the rest of the body will not come
    _broken: BadRequest | None = None
    _waiting: asyncio.Future[None] | None = None

    _status = 0
    _head = b""  # the answer's head, until it is sent
    _left: int | None = None  # remaining bytes of the answer's body
    _is_bodiless = False
    _is_chunked = False
    _is_done = False

    def __init__(self, client: Client, head: Head) -> None:
        self._client = client
        self._method = head.method
        self._version = head.version
        self.keeps_open = head.keeps_open  # whether the connection stays open after this
        self.parts: list[bytes] = []  # parts of the body not yet received by the application

    # Called by the connection.

    def wake(self) -> None:
        """Let the application receive the data that has arrived."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def break_off(self, broken: BadRequest | None = None) -> None:
        """Report that no more data will come, with the error that the body caused; the first call counts."""
        if not self._is_gone:
            self._is_gone = True
            self._broken = broken
            self.wake()

    def is_ahead(self) -> bool:
        """Return whether so much has arrived that the application should receive it first."""
        return len(self.parts) > 1 and sum(map(len, self.parts)) > READ_AHEAD

    # Called by the application.

    def want(self, *, may_be_large: bool = False) -> None:
        """Let the connection read on, in larger pieces if the body may be large."""
        self.is_wanted, self.may_be_large = True, may_be_large
        self._client.let_body_come()

    async def receive(self) -> dict[str, Any]:
        """Return the next ASGI message."""
        while True:
            if self.parts or (self.whole and not self._is_taken):
                body = b"".join(self.parts)
                self.parts.clear()
                self._is_taken = self.whole
                if not self.whole and self.is_wanted:
                    self._client.let_body_come()
                return {"type": "http.request", "body": body, "more_body": not self.whole}
            if self._is_gone:
                return {"type": "http.disconnect", REFUSAL: self._broken}
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting

    async def send(self, message: dict[str, Any]) -> None:
        """Send an ASGI message. Raises ValueError for an answer that cannot be framed."""
        kind = message["type"]
        if kind == "http.response.start" and not self._status:
            self._start(message["status"], message["headers"])
            if self._left is None:
                # An answer without a length is a stream, and its client waits for the start.
                self._client.write(self._head)
                self._head = b""
        elif kind == "http.response.body" and self._status and not self._is_done:
            is_last = not message.get("more_body", False)
            data = self._head + self._framed(message.get("body", b""), is_last)
            self._head = b""
            if data:
                self._client.write(data)
            if is_last:
                self._is_done = True
                self._client.note_answered(self)
            else:
                await self._client.drain()
        else:
            raise ValueError(f"{kind} cannot come here")

    async def answer(self, status: int, headers: Headers, body: bytes) -> None:
        """Send an answer that is whole. Raises ValueError as `send` does."""
        if self._status:
            raise ValueError("a second answer cannot come here")
        self._start(status, headers)
        self._client.write(self._head + self._framed(body, is_last=True))
        self._is_done = True
        self._client.note_answered(self)

    def _start(self, status: int, headers: Headers) -> None:
        closes = False
        for name, value in headers:
            if name == b"content-length":
                self._left = int(value)
            elif name == b"connection":
                closes = b"close" in value.lower()
        more: list[bytes] = []
        self._is_bodiless = self._method == "HEAD" or status in (204, 304)
        if self._left is None and status not in (204, 304):
            if self._version == "1.1":
                more.append(b"Transfer-Encoding: chunked")
                self._is_chunked = True
            else:
                self.keeps_open = False  # the end of the answer is that of the connection
        if closes:
            self.keeps_open = False
        elif not self.keeps_open:
            more.append(b"Connection: close")
        self._head = write_head(status, headers, more)
        self._status = status

    def _framed(self, data: bytes, is_last: bool) -> bytes:
        if self._is_bodiless:
            return b""
        if self._is_chunked:
            return chunk(data) + LAST_CHUNK if is_last else chunk(data)
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0 or (is_last and self._left):
                raise ValueError("the body of an answer has another length than its head says")
        return data
