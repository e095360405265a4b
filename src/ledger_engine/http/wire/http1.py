"""HTTP/1.1 on a connection: passes the requests to the application, one after the other.

A second application, `Service.refuse`, answers the requests that are ambiguous or cannot be read.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Literal
from urllib.parse import unquote

from ledger_engine.http.wire.asgi import EXTENSION, LARGE, Asgi, refuse_plainly
from ledger_engine.http.wire.connections import Connections
from ledger_engine.http.wire.framing import CHUNKS_MAX, FEW_CHUNKS_MAX, ChunkedBody, SizedBody, unreadable
from ledger_engine.http.wire.head import (
    CHUNKED,
    BadRequest,
    Head,
    Headers,
    guess_path,
    invalid,
    read_head,
    too_large,
)
from ledger_engine.http.wire.tcp import TcpConnection

HEAD_MAX = 28 * 1024  # bytes of request line and headers
# The end of a head. The pattern also accepts a bare LF; `read_head` then refuses the head.
_END = re.compile(rb"\n\r?\n")
_EMPTY_LINES = re.compile(rb"(?:\r\n)+")
_VERSIONS = {"version": "3.0", "spec_version": "2.1"}
READ_AHEAD = 64 * 1024  # bytes of a body; while more bytes wait for the application, reading pauses
# Each line has a reason phrase, because some clients treat an answer without a reason phrase as a failure.
_STATUS_LINES = {status.value: b"HTTP/1.1 %d %b" % (status, status.phrase.encode()) for status in HTTPStatus}
CONTINUE = _STATUS_LINES[100] + b"\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
_PRINTABLE = bytes({*range(0x20, 0x100), ord("\t")} - {0x7F})

log = logging.getLogger("ledger_engine.http")


@dataclass(slots=True, eq=False)
class Service:
    """The state that the connections of a server share.

    `state` contains the values that the application stored for its requests when the application started.
    `refuse` is the application that answers refused requests.
    """

    app: Asgi
    connections: Connections
    scheme: str
    state: dict[str, Any]
    refuse: Asgi = refuse_plainly
    # The tasks of the requests in progress.
    tasks: dict[HttpExchange, asyncio.Task[None]] = field(default_factory=dict)

    async def finish(self) -> None:
        """Wait until no request is in progress."""
        while tasks := [task for task in self.tasks.values() if not task.done()]:
            await asyncio.wait(tasks)

    def cut(self) -> None:
        """End all connections and requests at once."""
        self.connections.cut()
        for task in self.tasks.values():
            task.cancel()


class Http1(TcpConnection):
    """A connection that speaks HTTP/1.1, and cannot be upgraded to another protocol."""

    __slots__ = ("_exchange", "_searched", "_service", "_unread")

    def __init__(self, service: Service) -> None:
        super().__init__(service.connections)
        self._service = service
        self._unread = b""  # received data that belongs to the next request
        self._searched = 0  # how many bytes of `_unread` were searched for the end of a head
        # The request in progress; None while the connection waits for the next request.
        self._exchange: HttpExchange | None = None

    # Called by the connection

    def take(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is not None and not exchange.whole:
            self._read_body(exchange, data)
            return
        self._unread = self._unread + data if self._unread else data
        if exchange is None:
            self._read_head()
        else:
            self.set_reading(False)  # the next request waits until the current request is answered

    def take_end(self) -> None:
        exchange = self._exchange
        if exchange is None:
            self.shut_down()
        elif not exchange.whole or not self._unread:
            # Tell the application that no more data will arrive. The application still answers a complete
            # request. An incomplete request ends here, and so does an answer that is a stream.
            exchange.break_off()

    def take_loss(self) -> None:
        self._unread = b""
        if self._exchange is not None:
            self._exchange.break_off()

    def go_on(self) -> None:
        if self._exchange is None and not self.is_over:
            self._begin_next()

    # Called by the current exchange

    def let_body_come(self, exchange: HttpExchange) -> None:
        """Read more of the body, because the application wants it."""
        if self.is_over or exchange.whole or exchange is not self._exchange:
            return
        if exchange.may_be_large and not self._wants_much:
            self._wants_much = True
            self.enlarge_buffer()
        if exchange.stage == "continue":
            exchange.stage = "body"
            self.write(CONTINUE)
        if exchange.body.is_stopped:
            self._read_body(exchange, b"")
        elif not exchange.is_ahead():
            self.set_reading(True)

    def note_answered(self, exchange: HttpExchange) -> None:
        """Begin the next request, or shut the connection down, because the answer is complete."""
        if exchange is not self._exchange:
            return
        self._exchange = None
        self._wants_much = False
        exchange.parts.clear()  # parts of a body that the application did not ask for
        exchange.break_off()  # if the application still calls `receive`, it gets a disconnect
        if self.is_over or not (exchange.keeps_open and exchange.whole) or self._connections.is_stopping:
            self.shut_down()
        elif self._is_blocked:
            self.set_reading(False)
        else:
            self._begin_next()

    @property
    def is_stopping(self) -> bool:
        """Return whether the server stops, and closes each connection after the answer in progress."""
        return self._connections.is_stopping

    # Reading

    def _begin_next(self) -> None:
        """Begin the next request if its head has arrived; otherwise wait for the head."""
        if self._unread:
            self._read_head()
        if self._exchange is None and not self.is_over:
            if self._client_has_ended:
                self.shut_down()
                return
            self._connections.note_idle(self)
            self.set_reading(True)

    def _read_head(self) -> None:
        unread = self._unread
        if unread[0] == 13:
            # Empty lines before the request line are skipped (RFC 9112, 2.2).
            empty = _EMPTY_LINES.match(unread)
            unread = self._unread = unread[empty.end() :] if empty is not None else unread
            if unread in (b"", b"\r"):
                return
        if unread[0] <= 32:
            self._refuse(b"", invalid("illegal request line"))
            return
        end = _END.search(unread, self._searched)
        if (len(unread) if end is None else end.end()) > HEAD_MAX:
            # Use only the data up to the limit, so that the error does not depend on how much more data has
            # arrived.
            most = unread[: HEAD_MAX + 1]
            self._refuse(most, too_large(most))
            return
        if end is None:
            self._searched = max(0, len(unread) - 2)
            return
        self._searched = 0
        text, self._unread = unread[: end.end()], unread[end.end() :]
        try:
            head = read_head(text)
        except BadRequest as error:
            # Remove the traceback: its frames refer to the connection, so the error would keep the connection
            # in memory.
            self._refuse(text, error.with_traceback(None))
        else:
            self._begin(head)

    def _refuse(self, text: bytes, error: BadRequest) -> None:
        """Let `Service.refuse` answer an unreadable request; ignore all data after this request."""
        self._unread = b""
        self._begin(Head("", guess_path(text), "1.1", [], 0, False, False, error))

    def _begin(self, head: Head) -> None:
        exchange = self._exchange = HttpExchange(self, head)
        data = self._unread
        if not head.body:
            self._pause_before(data)
        else:
            self._unread = b""
            if data:
                exchange.stage = "body"  # the client does not wait for 100 Continue
            self._read_body(exchange, data)
            if not exchange.whole:
                self._connections.note_awaited(self)
        run = self._run(exchange, self._scope(head, exchange))
        self._service.tasks[exchange] = asyncio.get_running_loop().create_task(run)

    def _read_body(self, exchange: HttpExchange, data: bytes) -> None:
        body = exchange.body
        most = CHUNKS_MAX if exchange.may_be_large else FEW_CHUNKS_MAX
        try:
            rest = body.take(data, exchange.parts, most)
        except BadRequest as error:
            self._break_off(exchange, error.with_traceback(None))
            return
        if rest is None:
            if body.is_stopped and exchange.is_wanted:
                self._break_off(exchange, unreadable(f"it comes in more than {most:,} chunks"))
                return
            self.set_reading(exchange.is_wanted and not exchange.is_ahead())
        else:
            exchange.stage = "answer"
            self._unread = rest
            self._pause_before(rest)
        exchange.wake()

    def _pause_before(self, unread: bytes) -> None:
        """Note that the current request is complete; stop reading if `unread` begins another request.

        The other request then waits until the current request is answered.
        """
        self._connections.note_busy(self)
        self.set_reading(not unread)

    def _break_off(self, exchange: HttpExchange, reason: BadRequest) -> None:
        """Report to the application that the rest of the body will not arrive."""
        exchange.stage = "refusal"
        self.is_over = True
        exchange.break_off(reason)

    # Answering

    def _scope(self, head: Head, exchange: HttpExchange) -> dict[str, Any]:
        path, _, query = head.path.partition(b"?")
        return {
            "type": "http",
            "http_version": head.version,
            "asgi": _VERSIONS,
            "method": head.method,
            "scheme": self._service.scheme,
            "path": unquote(path.decode("ascii")) if b"%" in path else path.decode("ascii"),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": head.headers,
            "client": self.client,
            "server": self.server,
            "state": self._service.state.copy(),
            "extensions": {EXTENSION: exchange},
        }

    async def _run(self, exchange: HttpExchange, scope: dict[str, Any]) -> None:
        """Run the application for one request.

        If the application returns without a complete answer, the connection is shut down.
        """
        service = self._service
        try:
            app = service.app if exchange.refusal is None else service.refuse
            try:
                await app(scope, exchange.receive, exchange.send)
            finally:
                if exchange.body_error is not None and not exchange.status:
                    await service.refuse(scope, exchange.receive, exchange.send)
        except Exception:
            log.exception("an answer was cut off")
        finally:
            del service.tasks[exchange]
            if exchange is self._exchange:
                exchange.keeps_open = False
                self.note_answered(exchange)


# A request and its answer


# The stage of a request. `continue`: the client waits for 100 Continue, which is sent once the application
# wants the body. `body`: the client must send more of the body. `answer`: the whole body has arrived, and the
# application must answer. `refusal`: the rest of the body is unreadable, and the application must answer.
# The stages are texts, because comparing the members of an Enum takes three times as long as comparing texts.
Stage = Literal["continue", "body", "answer", "refusal"]


class HttpExchange:
    """A request and its answer. The object is also the ASGI extension of the request (`asgi.Extension`)."""

    stage: Stage = "answer"
    body: SizedBody | ChunkedBody  # the body that is being received, until the stage is `answer`
    is_wanted = False  # whether the application wants the rest of the body
    may_be_large = False  # whether the application accepts a large body
    _is_taken = False  # whether the application has received the whole body
    _is_gone = False  # whether the client has disconnected, or the rest of the body will not arrive
    body_error: BadRequest | None = None  # the reason why the rest of the body is unreadable
    _waiting: asyncio.Future[None] | None = None

    status = 0  # the status of the answer, once it has begun
    _head = b""  # the answer's head, until it is sent
    _bytes_left: int | None = None  # bytes of the answer's body still to send; None without Content-Length
    _is_bodiless = False
    _is_chunked = False
    _is_done = False

    def __init__(self, client: Http1, head: Head) -> None:
        self._client = client
        self.refusal = head.refusal
        self._method = head.method
        self._version = head.version
        self.keeps_open = head.keeps_open  # whether the connection stays open after this answer
        self.parts: list[bytes] = []  # parts of the body not yet received by the application
        if head.body:
            self.body = ChunkedBody() if head.body == CHUNKED else SizedBody(head.body)
            self.stage = "continue" if head.expects_continue else "body"
            # A small body costs little memory, so read it before the application asks for it.
            self.is_wanted = 0 < head.body <= LARGE and not head.expects_continue

    @property
    def whole(self) -> bool:
        """Return whether the whole body has arrived."""
        return self.stage == "answer"

    # Called by the connection

    def wake(self) -> None:
        """Let the application receive the data that has arrived."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def break_off(self, error: BadRequest | None = None) -> None:
        """Tell the application that no more data will arrive.

        `error` is the error in the body, if there is one. Only the first call has an effect.
        """
        if not self._is_gone:
            self._is_gone = True
            self.body_error = error
            self.wake()

    def is_ahead(self) -> bool:
        """Return whether so much data waits for the application that reading must pause."""
        return len(self.parts) > 1 and sum(map(len, self.parts)) > READ_AHEAD

    # Called by the application

    def want(self, *, may_be_large: bool) -> None:
        """Let the connection read the rest of the body, in larger pieces if the body may be large."""
        self.is_wanted, self.may_be_large = True, may_be_large
        self._client.let_body_come(self)

    async def receive(self) -> dict[str, Any]:
        """Return the next ASGI message.

        If no data has arrived, and the application has not called `want`, this method calls `want`.
        """
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
            if self._bytes_left is None:
                # An answer without a length is a stream. Send its head at once, because the client may wait
                # for the head long before the stream has data.
                self._client.write(self._head)
                self._head = b""
        elif kind == "http.response.body" and self.status and not self._is_done:
            is_last = not message.get("more_body", False)
            data = self._head + self._frame(message.get("body", b""), is_last)
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

    def _start(self, status: int, headers: Headers) -> None:
        by_name = dict(headers)
        closes = b"close" in by_name.get(b"connection", b"").lower()
        if b"content-length" in by_name:
            self._bytes_left = int(by_name[b"content-length"])
        more: list[bytes] = []
        self._is_bodiless = self._method == "HEAD" or status in (204, 304)
        if self._bytes_left is None and status not in (204, 304):
            if self._version == "1.1":
                more.append(b"Transfer-Encoding: chunked")
                self._is_chunked = True
            else:
                self.keeps_open = False  # the end of the connection shows the client where the answer ends
        if self._client.is_stopping:
            self.keeps_open = False  # so that the client sends its next request to another server
        if not self.whole:
            self.keeps_open = False  # the rest of the body must not be read as a request
        if closes:
            self.keeps_open = False
        elif not self.keeps_open:
            more.append(b"Connection: close")
        self._head = write_head(status, headers, more)
        self.status = status

    def _frame(self, data: bytes, is_last: bool) -> bytes:
        if self._is_bodiless:
            return b""
        if self._is_chunked:
            return chunk(data) + LAST_CHUNK if is_last else chunk(data)
        if self._bytes_left is not None:
            self._bytes_left -= len(data)
            if self._bytes_left < 0 or (is_last and self._bytes_left):
                raise ValueError("the body of an answer differs in length from its Content-Length")
        return data


def write_head(status: int, headers: Headers, more: list[bytes]) -> bytes:
    """Return the head of an answer, with the empty line at its end; `more` are further header lines.

    Raises ValueError for a header that a client could read as several headers.
    """
    first = _STATUS_LINES.get(status) or b"HTTP/1.1 %d Status %d" % (status, status)
    lines = [first, *map(b": ".join, headers), *more]
    lines.append(_date(int(time.time())))
    text = b"\r\n".join(lines)
    if text.translate(None, _PRINTABLE) != b"\r\n" * (len(lines) - 1):
        raise ValueError("a response header has characters that HTTP does not allow")
    return text + b"\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """Return the data as one chunk; b"" for no data, because an empty chunk would end the body."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


@lru_cache(maxsize=2)
def _date(second: int) -> bytes:
    return b"date: " + formatdate(second, usegmt=True).encode()
