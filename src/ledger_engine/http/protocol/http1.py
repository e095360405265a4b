"""HTTP/1.1 on Hypercorn's and h11's classes, made strict.

A request that cannot be read also goes to the gate, as a refusal, so that its answer has a JSON body, a
request id and the rate limit like every other.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from functools import lru_cache
from typing import Any, ParamSpec, cast

import h11
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.events import Body, Request, Response, StreamClosed
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.h11 import STREAM_ID, H11Protocol
from hypercorn.protocol.http_stream import ASGIHTTPState, HTTPStream
from hypercorn.typing import ConnectionState, H11SendableEvent
from hypercorn.utils import suppress_body

from ledger_engine.core.errors import AuthenticationError, InvalidRequest, LedgerError
from ledger_engine.http.errors import HeadersTooLarge, PayloadTooLarge, UnsupportedMethod, UriTooLong
from ledger_engine.http.protocol.request_body import ARRIVAL, REFUSAL, Arrival, is_small
from ledger_engine.http.protocol.tcp import BodyAwaited, Reading

HEAD_MAX = 28 * 1024  # bytes of request line and headers that are read; the gate takes 8 + 16 KB
CHUNKS_MAX = 100_000  # of one body: each costs as much to read as a kilobyte
STRANGERS_CHUNKS_MAX = 100  # … of a caller without a good credential
TRAILER_MAX = 16 * 1024  # bytes; nothing is made of them
METHODS = ["DELETE", "GET", "HEAD", "PATCH", "POST"]
_ABSOLUTE = re.compile(rb"https?://[^/?#]*", re.IGNORECASE)
_REQUEST_TARGET = re.compile(rb"\S* +(?:https?://[^/?#\s]*)?(/[\x21-\x7e]*)", re.IGNORECASE)
_HUGE_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*0*[1-9][0-9]{19,}[ \t]*\r\n", re.IGNORECASE)
_EMPTY_LINES = re.compile(rb"(?:\r\n)+")
# What tells where a message ends and whether another can follow.
_FRAMING = frozenset({b"content-length", b"transfer-encoding", b"connection"})
_PRINTABLE = bytes({*range(0x20, 0x100), ord("\t")} - {0x7F})
_END = h11.EndOfMessage()
_CONFLICTS = ("multiple Host", "conflicting Content-Length", "multiple Transfer-Encoding")

P = ParamSpec("P")
Headers = list[tuple[bytes, bytes]]
AppPut = Callable[[dict[str, Any]], Awaitable[None]]


class Http1(H11Protocol):
    """HTTP/1.1 on one connection: no upgrade to anything, and no message that leaves a doubt."""

    connection: h11.Connection
    stream: HTTPStream | None
    _unread = b""  # from the start of the request's head on
    _is_gone = False  # the client; or nothing more that it sends will be answered
    _chunks = 0  # of the body so far
    _arrival = Arrival()  # of the body of the request at hand
    _is_awaited = False  # more of that body

    async def handle(self, event: Event) -> None:
        if isinstance(event, Closed):
            self._is_gone = True
            await self.can_read.set()  # a request that waits for its turn waits no longer
        elif self._is_gone or self._is_over():
            return
        await super().handle(event)

    async def stream_send(self, event: StreamEvent) -> None:
        if isinstance(event, Response) and event.status_code >= 200:
            await self._write(self._head, event.status_code, event.headers)
        else:
            await super().stream_send(event)

    async def answer(self, status: int, headers: Headers, body: bytes) -> None:
        """Send an answer that is whole, with one write to the socket, and go on to the next request."""
        await self._write(self._whole, status, headers, body)
        await self._maybe_recycle()

    async def _send_h11_event(self, event: H11SendableEvent) -> None:
        await self._write(self.connection.send, event)

    async def _write(self, make: Callable[P, bytes | None], *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            data = make(*args, **kwargs)
        except h11.LocalProtocolError:
            if self.connection.their_state != h11.ERROR:
                raise
        else:
            if data:
                await self.send(RawData(data))

    def _whole(self, status: int, headers: Headers, body: bytes) -> bytes:
        head, send = self._head(status, headers), self.connection.send
        return head + (send(h11.Data(data=body)) if body else b"") + send(_END)

    def _head(self, status: int, headers: Headers) -> bytes:
        """The first lines of an answer.

        h11 frames the message, so it is told of the headers that matter to that. The others it would only
        copy, after a look at each by two patterns, which takes a thirtieth of a posting's time.
        """
        framing = [header for header in headers if header[0] in _FRAMING]
        lines = [b"%s: %s" % header for header in headers if header[0] not in _FRAMING]
        lines.append(_date(int(time.time())))
        rest = b"\r\n".join(lines)
        if rest.translate(None, _PRINTABLE) != b"\r\n" * (len(lines) - 1):
            raise ValueError("a header of an answer holds what no header may")
        head = self.connection.send(h11.Response(headers=framing, status_code=status))
        return head.removesuffix(b"\r\n") + rest + b"\r\n\r\n"

    def _is_over(self) -> bool:
        """Whether nothing more that the client sends will be answered."""
        return self.connection.their_state is h11.ERROR or self.connection.our_state in (
            h11.MUST_CLOSE,
            h11.CLOSED,
            h11.ERROR,
        )

    async def _handle_events(self) -> None:
        parts: list[bytes] = []  # of the body, handed on together: a chunk may have a single byte
        while not self._is_gone:
            if self.connection.their_state is h11.IDLE and not self._is_at_request_line():
                return
            try:
                event = self.connection.next_event()
            except h11.RemoteProtocolError as error:
                await self._refuse(error)
                return
            # By type, and not by isinstance: these are abstract classes, which take long to say no.
            if type(event) is h11.Data:
                parts.append(event.data)
                self._chunks += event.chunk_start
                if self._chunks == STRANGERS_CHUNKS_MAX and not self._arrival.is_wanted:
                    await self._let_body_come()
                elif self._chunks > (most := self._chunks_max()) and self.stream is not None:
                    self._is_gone = True
                    await self._break_off(self.stream, f"it comes in more than {most:,} chunks")
                continue
            if type(event) is h11.EndOfMessage and self.stream is not None:
                if sum(len(name) + len(value) for name, value in event.headers) > TRAILER_MAX:
                    self._is_gone = True
                    await self._break_off(self.stream, f"its trailer is larger than {TRAILER_MAX:,} bytes")
                    continue
                await self._end_body(self.stream, b"".join(parts))
                parts = []
                continue
            if event is h11.NEED_DATA:
                self._unread = b""  # of an unfinished head there is one copy, not two
                if self.connection.their_state is h11.SEND_BODY:
                    await self._let_body_come()
                if parts and self.stream is not None:
                    await self.stream.handle(Body(STREAM_ID, b"".join(parts)))
                return
            if event is h11.PAUSED:
                # The next request is here already; it waits until this one is answered.
                await self.can_read.clear()
                await self.can_read.wait()
            elif type(event) is h11.Request:
                await self._take(event)
            elif type(event) is h11.ConnectionClosed or self.stream is None:
                return

    def _chunks_max(self) -> int:
        is_strangers = self._arrival.is_wanted and not self._arrival.may_be_large
        return STRANGERS_CHUNKS_MAX if is_strangers else CHUNKS_MAX

    def _is_at_request_line(self) -> bool:
        """Drop empty lines before the request line (RFC 9112, 2.2). Return whether anything else has come."""
        self._unread, is_ended = self.connection.trailing_data
        empty = _EMPTY_LINES.match(self._unread)
        if empty is not None:
            self._unread = self._unread[empty.end() :]
            # h11 would refuse the lines, and cannot be made to forget them.
            self.connection = h11.Connection(h11.SERVER, self.config.h11_max_incomplete_size)
            if self._unread:
                self.connection.receive_data(self._unread)
            if is_ended:
                self.connection.receive_data(b"")
        return self._unread != b"\r"

    async def _take(self, head: h11.Request) -> None:
        method = head.method.decode("ascii")
        version = head.http_version.decode("ascii")
        path = head.target
        if not path.startswith(b"/") and _ABSOLUTE.match(path):
            path = _ABSOLUTE.sub(b"", path, count=1)
            path = path if path.startswith(b"/") else b"/" + path
        refusal: LedgerError | None = None
        lines = self._unread.partition(b"\r\n\r\n")[0]
        if lines.count(b"\n") != lines.count(b"\r\n") or b"\n " in lines or b"\n\t" in lines:
            # Other readers end or join these lines elsewhere (RFC 9112, 2.2 and 5.2).
            refusal = InvalidRequest(
                "invalid_value", "Each line of a head must end in CRLF, and none be folded."
            )
        elif version not in ("1.0", "1.1"):
            refusal = InvalidRequest("invalid_value", "This server speaks HTTP/1.1.")
        elif method == "CONNECT" or not method.isupper():
            # Methods are told apart by case (RFC 9110, 9.1); the URL map would take `get` for `GET`.
            refusal = UnsupportedMethod(METHODS)
        elif path[:1] != b"/":
            refusal = InvalidRequest("invalid_value", "The request must be for a path, like /v1/accounts.")
        await self._begin(method, path, version, list(head.headers), refusal)

    async def _refuse(self, error: h11.RemoteProtocolError) -> None:
        """Have the gate answer what cannot be read; nothing after it on this connection can be trusted."""
        if self.stream is not None:
            await self._break_off(self.stream, "its framing is not valid HTTP/1.1")
        elif self.connection.our_state is h11.IDLE:
            # As far as it can be read, so that the answer has the shape that is used where it was asked.
            target = _REQUEST_TARGET.match(self._unread)
            path = target[1] if target is not None else b"/"
            await self._begin("", path, "1.1", [], self._head_error(error))
        else:
            await self.send(Closed())

    def _head_error(self, error: h11.RemoteProtocolError) -> LedgerError:
        """What is wrong with a head, as an error of ours."""
        if error.error_status_hint == 431:
            # It is the last line that does not end.
            earlier, _, last = self._unread.rpartition(b"\n")
            if not earlier:
                return UriTooLong("The URL is far too long.")
            if last[:14].lower() == b"authorization:":
                return AuthenticationError("invalid_credential", "No API key or token is that long.")
            return HeadersTooLarge("The headers are far too large.")
        # What h11 quotes after this is the client's own text, however long.
        reason = str(error).partition(": b")[0]
        if "Content-Length" in reason and _HUGE_LENGTH.search(
            self._unread.partition(b"\r\n\r\n")[0] + b"\r\n"
        ):
            return PayloadTooLarge("The body is larger than 1 MB.")
        code = "header_conflict" if any(conflict in reason for conflict in _CONFLICTS) else "invalid_value"
        return InvalidRequest(code, f"This is not valid HTTP/1.1: {reason}.")

    async def _let_body_come(self) -> None:
        """Read no more until the application asks for the body, or has answered without it."""
        if self.stream is not None and not (
            self._arrival.is_wanted or is_small(dict(self.stream.scope["headers"]))
        ):
            await self.send(Reading(is_paused=True))
            await self._arrival.until_wanted()
            if not self._is_gone and self.stream is not None:
                await self.send(Reading(is_paused=False, may_be_large=self._arrival.may_be_large))
        if not self._is_awaited and self.stream is not None:
            self._is_awaited = True
            await self.send(BodyAwaited(is_whole=False))
        if self.connection.they_are_waiting_for_100_continue and not self._is_gone:
            await self._send_h11_event(h11.InformationalResponse(status_code=100, headers=[]))

    async def _close_stream(self) -> None:
        self._arrival.want()
        await super()._close_stream()

    async def _maybe_recycle(self) -> None:
        is_done = self.connection.our_state is h11.DONE and self.connection.their_state is h11.DONE
        if self.context.terminated.is_set() or not is_done:
            self._is_gone = True  # a request that waits is not answered any more
        await super()._maybe_recycle()

    async def _end_body(self, stream: HTTPStream, rest: bytes) -> None:
        """Hand on the last of a body, with its end: one message, where Hypercorn makes two."""
        if not stream.closed:
            self._arrival.whole = True
            if self._is_awaited:
                await self.send(BodyAwaited(is_whole=True))
            await _app_put(stream)({"type": "http.request", "body": rest, "more_body": False})

    async def _break_off(self, stream: HTTPStream, reason: str) -> None:
        """Tell the gate that the rest of the body will not come."""
        broken = InvalidRequest("invalid_value", f"The body cannot be read: {reason}.")
        await _app_put(stream)({"type": "http.disconnect", REFUSAL: broken})

    async def _begin(
        self,
        method: str,
        path: bytes,
        version: str,
        headers: Headers,
        refusal: LedgerError | None,
    ) -> None:
        await self.send(Updated(idle=False))
        self._chunks = 0
        self._is_awaited = False
        self.stream = stream = Stream(
            self.app,
            self.config,
            self.context,
            self.task_group,
            self.ssl,
            self.client,
            self.server,
            self.stream_send,
            STREAM_ID,
        )
        stream.answer = self.answer
        self._arrival = Arrival()
        state = ConnectionState({**self.connection_state, ARRIVAL: self._arrival})
        if refusal is not None:
            state[REFUSAL] = refusal
        self._unread = b""
        await stream.handle(Request(STREAM_ID, headers, version, method, path, state))
        await self.context.mark_request()


class Stream(HTTPStream):
    """One request on its way through the application, which sends headers as they have to be.

    An application that ends without an answer was ended: its client is gone, or the server stops. Then the
    connection is closed; the answer that Hypercorn would make up has not what each of ours has.
    """

    answer: Callable[[int, Headers, bytes], Awaitable[None]]
    _waits = False  # the head of the answer, for its body

    async def app_send(self, message: Any) -> None:
        kind = None if message is None else message["type"]
        if kind is None and self.state == ASGIHTTPState.REQUEST:
            self.state = ASGIHTTPState.CLOSED
            await self.send(StreamClosed(self.stream_id))
        elif kind == "http.response.start" and self.state == ASGIHTTPState.REQUEST:
            self.response = message
            self.state = ASGIHTTPState.RESPONSE
            # What has no length is a stream, whose client wants to see it begin.
            self._waits = any(name == b"content-length" for name, _ in message["headers"])
            if not self._waits:
                await self._send_head()
        elif kind == "http.response.body" and self._waits:
            self._waits = False
            if message.get("more_body", False):
                await self._send_head()
                await super().app_send(message)
                return
            status = self.response["status"]
            body = b"" if suppress_body(self.scope["method"], status) else message.get("body", b"")
            self.state = ASGIHTTPState.CLOSED
            await self.answer(status, list(self.response["headers"]), body)
        else:
            await super().app_send(message)

    async def _send_head(self) -> None:
        await self.send(Response(self.stream_id, list(self.response["headers"]), self.response["status"]))


@lru_cache(maxsize=2)
def _date(second: int) -> bytes:
    return b"date: " + formatdate(second, usegmt=True).encode()


def _app_put(stream: HTTPStream) -> AppPut:
    """What puts a message before the application."""
    return cast(AppPut, stream.app_put)
