"""One request and its answer, as an ASGI application sees them."""

from __future__ import annotations

import asyncio
from typing import Any, Literal, Protocol

from ledger_engine.http.wire.answers import LAST_CHUNK, chunk, write_head
from ledger_engine.http.wire.asgi import LARGE
from ledger_engine.http.wire.errors import BadRequest
from ledger_engine.http.wire.framing import Chunked, Sized
from ledger_engine.http.wire.head import CHUNKED, Head, Headers

READ_AHEAD = 64 * 1024  # bytes of a body not yet received by the application at which reading pauses


class Client(Protocol):
    """The connection, as far as a request uses it."""

    def write(self, data: bytes) -> None:
        """Send data."""

    async def drain(self) -> None:
        """Wait until the client has read what was sent."""

    def let_body_come(self, exchange: Exchange) -> None:
        """Read the rest of the body."""

    def note_answered(self, exchange: Exchange) -> None:
        """Continue with the next request."""


# What a request waits for: `continue`, the application to ask for the body (its client expects 100 Continue);
# `body`, the client to send more of it; `answer`, the application, as the whole body has arrived; `refusal`,
# the same where the rest of the body cannot be read. An Enum's members take three times as long to compare.
Stage = Literal["continue", "body", "answer", "refusal"]


class Exchange:
    """A request on its way through the application; it is also the ASGI extension for this request."""

    task: asyncio.Task[None] | None = None  # the task of the application
    stage: Stage = "answer"
    body: Sized | Chunked  # the body that is being received, until the stage is `answer`
    is_wanted = False  # whether the application asks for the rest
    may_be_large = False
    _is_taken = False  # whether the application has received the whole body
    _is_gone = False  # whether the client has disconnected, or the rest of the body will not come
    broken: BadRequest | None = None  # why the rest of the body cannot be read
    _waiting: asyncio.Future[None] | None = None

    status = 0  # of the answer, once it has begun
    _head = b""  # the answer's head, until it is sent
    _left: int | None = None  # remaining bytes of the answer's body
    _is_bodiless = False
    _is_chunked = False
    _is_done = False

    def __init__(self, client: Client, head: Head) -> None:
        self._client = client
        self.refusal = head.refusal
        self._method = head.method
        self._version = head.version
        self.keeps_open = head.keeps_open  # whether the connection stays open after this
        self.parts: list[bytes] = []  # parts of the body not yet received by the application
        if head.body:
            self.body = Chunked() if head.body == CHUNKED else Sized(head.body)
            self.stage = "continue" if head.expects_continue else "body"
            # A small body is waited for, whoever sends it.
            self.is_wanted = 0 < head.body <= LARGE and not head.expects_continue

    @property
    def whole(self) -> bool:
        """Whether the whole body has arrived."""
        return self.stage == "answer"

    # Called by the connection.

    def wake(self) -> None:
        """Let the application receive the data that has arrived."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def break_off(self, broken: BadRequest | None = None) -> None:
        """Report that no more data will come, with the error that the body caused; the first call counts."""
        if not self._is_gone:
            self._is_gone = True
            self.broken = broken
            self.wake()

    def is_ahead(self) -> bool:
        """Return whether so much has arrived that the application should receive it first."""
        return len(self.parts) > 1 and sum(map(len, self.parts)) > READ_AHEAD

    # Called by the application.

    def want(self, *, may_be_large: bool) -> None:
        """Let the connection read on, in larger pieces if the body may be large."""
        self.is_wanted, self.may_be_large = True, may_be_large
        self._client.let_body_come(self)

    async def receive(self) -> dict[str, Any]:
        """Return the next ASGI message; ask for the body if nobody has."""
        while True:
            whole = self.whole
            if self.parts or (whole and not self._is_taken):
                body = b"".join(self.parts)
                self.parts.clear()
                self._is_taken = whole
                if not whole and self.is_wanted:
                    self._client.let_body_come(self)
                return {"type": "http.request", "body": body, "more_body": not whole}
            if self._is_gone:
                return {"type": "http.disconnect"}
            if not self.is_wanted and not whole:
                self.want(may_be_large=True)
                continue
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting

    async def send(self, message: dict[str, Any]) -> None:
        """Send an ASGI message. Raises ValueError for an answer that cannot be framed."""
        kind = message["type"]
        if kind == "http.response.start" and not self.status:
            self._start(message["status"], message["headers"])
            if self._left is None:
                # An answer without a length is a stream, and its client waits for the start.
                self._client.write(self._head)
                self._head = b""
        elif kind == "http.response.body" and self.status and not self._is_done:
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
            raise ValueError(f"unexpected ASGI message {kind}")

    async def answer(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole answer, with its length. Raises ValueError as `send` does."""
        if self.status:
            raise ValueError("the application started a second response")
        self._start(status, headers if status == 304 else [*headers, (b"content-length", b"%d" % len(body))])
        self._client.write(self._head + self._framed(body, is_last=True))
        self._is_done = True
        self._client.note_answered(self)

    def _start(self, status: int, headers: Headers) -> None:
        given = dict(headers)
        closes = b"close" in given.get(b"connection", b"").lower()
        if b"content-length" in given:
            self._left = int(given[b"content-length"])
        more: list[bytes] = []
        self._is_bodiless = self._method == "HEAD" or status in (204, 304)
        if self._left is None and status not in (204, 304):
            if self._version == "1.1":
                more.append(b"Transfer-Encoding: chunked")
                self._is_chunked = True
            else:
                self.keeps_open = False  # the end of the answer is that of the connection
        if not self.whole:
            self.keeps_open = False  # what follows on the connection is not read as a request
        if closes:
            self.keeps_open = False
        elif not self.keeps_open:
            more.append(b"Connection: close")
        self._head = write_head(status, headers, more)
        self.status = status

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
