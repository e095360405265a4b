"""HTTP/1.1 on a connection: one request after the other, and none that is ambiguous.

A request that cannot be read goes to the application that answers refusals.
"""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from ledger_engine.http.wire.answers import CONTINUE
from ledger_engine.http.wire.asgi import EXTENSION, Asgi, refuse_plainly
from ledger_engine.http.wire.connections import Connections
from ledger_engine.http.wire.errors import BadRequest
from ledger_engine.http.wire.exchange import Exchange
from ledger_engine.http.wire.framing import CHUNKS_MAX, FEW_CHUNKS_MAX, BadFraming
from ledger_engine.http.wire.head import Head, asked_path, illegal_start, read_head, too_large
from ledger_engine.http.wire.tcp import TcpConnection

HEAD_MAX = 28 * 1024  # bytes of request line and headers that are read
_END = re.compile(rb"\n\r?\n")  # of a head, which is refused if one of its lines ends in LF alone
_EMPTY_LINES = re.compile(rb"(?:\r\n)+")
_VERSIONS = {"version": "3.0", "spec_version": "2.1"}

log = logging.getLogger("ledger_engine.http")


@dataclass(slots=True, eq=False)
class Service:
    """What a server's connections share.

    `state` is what the application's start stored for requests. `refuse` is the application that answers a
    request which cannot be read.
    """

    app: Asgi
    connections: Connections
    scheme: str
    state: dict[str, Any]
    refuse: Asgi = refuse_plainly
    tasks: set[asyncio.Task[None]] = field(default_factory=set)  # requests under way

    async def finish(self) -> None:
        """Wait until no request is under way."""
        while self.tasks:
            await asyncio.wait(self.tasks)

    def cut(self) -> None:
        """End all connections and requests at once."""
        self.connections.cut()
        for task in self.tasks:
            task.cancel()


class Http1(TcpConnection):
    """A connection with HTTP/1.1, which cannot be upgraded."""

    __slots__ = ("_exchange", "_looked_at", "_service", "_unread")

    def __init__(self, service: Service) -> None:
        super().__init__(service.connections)
        self._service = service
        self._unread = b""  # data of the next request
        self._looked_at = 0  # bytes of it that were searched for the end of its head
        self._exchange: Exchange | None = None  # the request under way; None while the next one is awaited

    # Called by the connection.

    def take(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is not None and not exchange.whole:
            self._read_body(exchange, data)
            return
        self._unread = self._unread + data if self._unread else data
        if exchange is None:
            self._read_head()
        else:
            self.pause_reading()  # the next request must wait for this one's answer

    def take_end(self) -> None:
        exchange = self._exchange
        if exchange is None:
            self.end()
        elif not exchange.whole or not self._unread:
            # Complete requests are still answered; an incomplete one, or a stream, ends here.
            exchange.break_off()

    def take_loss(self) -> None:
        self._unread = b""
        if self._exchange is not None:
            self._exchange.break_off()

    def go_on(self) -> None:
        if self._exchange is None and not self.is_over:
            self._begin_next()

    # Called by the current exchange.

    def let_body_come(self, exchange: Exchange) -> None:
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
            self.resume_reading()

    def note_answered(self, exchange: Exchange) -> None:
        if exchange is not self._exchange:
            return
        self._exchange = None
        self._wants_much = False
        exchange.parts.clear()  # of a body that nobody wanted
        exchange.break_off()  # whatever still listens
        if self.is_over or not (exchange.keeps_open and exchange.whole) or self._connections.is_stopping:
            self.end()
        elif self._is_blocked:
            self.pause_reading()
        else:
            self._begin_next()

    # Reading

    def _begin_next(self) -> None:
        """Start the next request if it is complete enough, or wait for it."""
        if self._unread:
            self._read_head()
        if self._exchange is None and not self.is_over:
            if self._has_ended:
                self.end()
                return
            self._connections.note_idle(self)
            self.resume_reading()

    def _read_head(self) -> None:
        unread = self._unread
        if unread[0] == 13:
            # Empty lines before the request line are skipped (RFC 9112, 2.2).
            empty = _EMPTY_LINES.match(unread)
            unread = self._unread = unread[empty.end() :] if empty is not None else unread
            if unread in (b"", b"\r"):
                return
        if unread[0] <= 32:
            self._refuse(b"", illegal_start())
            return
        found = _END.search(unread, self._looked_at)
        if (len(unread) if found is None else found.end()) > HEAD_MAX:
            # Nothing beyond the limit is looked at: how much of it is here depends on the network.
            most = unread[: HEAD_MAX + 1]
            self._refuse(most, too_large(most))
            return
        if found is None:
            self._looked_at = max(0, len(unread) - 2)
            return
        self._looked_at = 0
        text, self._unread = unread[: found.end()], unread[found.end() :]
        try:
            head = read_head(text)
        except BadRequest as error:
            # Without the frames it came through, which hold the connection.
            self._refuse(text, error.with_traceback(None))
        else:
            self._begin(head)

    def _refuse(self, text: bytes, error: BadRequest) -> None:
        """Let the application answer a request that cannot be read; what follows it is not read."""
        self._unread = b""
        self._begin(Head("", asked_path(text), "1.1", [], 0, False, False, error))

    def _begin(self, head: Head) -> None:
        exchange = self._exchange = Exchange(self, head)
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
        service = self._service
        task = asyncio.get_running_loop().create_task(self._run(exchange, self._scope(head, exchange)))
        exchange.task = task
        service.tasks.add(task)

    def _read_body(self, exchange: Exchange, data: bytes) -> None:
        body = exchange.body
        most = CHUNKS_MAX if exchange.may_be_large else FEW_CHUNKS_MAX
        try:
            rest = body.take(data, exchange.parts, most)
        except BadFraming as error:
            self._break_off(exchange, str(error))
            return
        if rest is None:
            if body.is_stopped and exchange.is_wanted:
                self._break_off(exchange, f"it comes in more than {most:,} chunks")
                return
            if not exchange.is_wanted or exchange.is_ahead():
                self.pause_reading()
            else:
                self.resume_reading()
        else:
            exchange.stage = "answer"
            self._unread = rest
            self._pause_before(rest)
        exchange.wake()

    def _pause_before(self, unread: bytes) -> None:
        """Make the next request, if there is one, wait for the current answer."""
        self._connections.note_busy(self)
        if unread:
            self.pause_reading()
        else:
            self.resume_reading()

    def _break_off(self, exchange: Exchange, reason: str) -> None:
        """Report to the application that the rest of the body will not come."""
        exchange.stage = "refusal"
        self.is_over = True
        exchange.break_off(BadRequest(f"The body cannot be read: {reason}."))

    # Answering

    def _scope(self, head: Head, exchange: Exchange) -> dict[str, Any]:
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

    async def _run(self, exchange: Exchange, scope: dict[str, Any]) -> None:
        """Run the application for one request.

        When it ends without an answer, the connection ends too.
        """
        service = self._service
        try:
            app = service.app if exchange.refusal is None else service.refuse
            try:
                await app(scope, exchange.receive, exchange.send)
            finally:
                if exchange.broken is not None and not exchange.status:
                    await service.refuse(scope, exchange.receive, exchange.send)
        except Exception:
            log.exception("an answer was cut off")
        finally:
            task, exchange.task = exchange.task, None
            if task is not None:
                service.tasks.discard(task)
            if exchange is self._exchange:
                exchange.keeps_open = False
                self.note_answered(exchange)
