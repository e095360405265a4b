"""HTTP exchanges with webhook receivers, which are not trusted.

The receiver's name is resolved and each address checked here, and the checked address is connected to. No
redirect is followed, no proxy used, and nothing decompressed; only a limited part of the answer is read. It
is written on h11 and streams because a client library decides all of this on its own. h11 reads the answers;
the requests, which are ours and all alike, are written here: with h11 they took a third of the time.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import h11

from ledger_engine.events.webhooks.addresses import Target, check_resolved, is_address, parse_url, refusal

ANSWER_MAX = 64 * 1024  # bytes of a body that are read; then the connection is closed
KEPT_MAX = 4096  # bytes of a body, and characters of headers, that are stored (docs/decisions.md#events-list)
HEAD_MAX = 32 * 1024  # bytes of an answer's status line and headers
LOOK_UP_S = 2  # to resolve a name when its URL is registered
LOOKUPS_MAX = 64  # names resolved at a time: each has a thread until its name server answers
CONNECT_S = 5  # for each of several addresses, so that a dead one leaves time for the next

Headers = list[tuple[str, str]]


class Failed(Exception):
    """The exchange brought no answer; the message says why, in a few words."""


@dataclass(slots=True)
class Response:
    """An answer. `body` is its first 4 KB as text, whatever the content."""

    status: int
    headers: Headers
    body: str


class ReceiverConnection:
    """A connection to a receiver, for one exchange at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_MAX)
        self.answering = False  # part of the answer to the last request has arrived

    async def post(self, path: str, headers: Headers, body: bytes, on_sent: Callable[[], None]) -> Response:
        """Send the request, call `on_sent`, and return the answer. Raises Failed and OSError."""
        self.answering = False
        request = _head(path, headers) + body
        self._http.send(_ANY_POST)  # so that it expects an answer
        self._http.send(_END)
        # One write without waiting: a receiver may answer before it has read everything.
        self._writer.write(request)
        on_sent()
        try:
            return await self._take_answer()
        except h11.RemoteProtocolError as error:
            # After the reason h11 quotes the receiver's text, of any length.
            reason = str(error).partition(": b")[0]
            raise Failed(f"not a valid HTTP response: {reason}") from error

    @property
    def is_open(self) -> bool:
        """Whether the connection is open, as far as is known."""
        return not (self._reader.at_eof() or self._writer.is_closing())

    def make_ready(self) -> bool:
        """Prepare for the next exchange; return False when the connection cannot be used again."""
        if not self.is_open or self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    def close(self) -> None:
        """Close at once, without waiting for the receiver."""
        self._writer.transport.abort()

    async def _take_answer(self) -> Response:
        response: Response | None = None
        kept = b""
        read = 0
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                data = await self._reader.read(65_536)
                self.answering = self.answering or bool(data)
                if not data and response is None:
                    raise Failed("the connection was closed without an answer")
                self._http.receive_data(data)
            elif isinstance(event, h11.Response):
                response = Response(event.status_code, _kept_headers(event), "")
            elif isinstance(event, h11.Data):
                read += len(event.data)
                kept += bytes(event.data[: KEPT_MAX - len(kept)])
            elif isinstance(event, (h11.EndOfMessage, h11.ConnectionClosed)):
                break
            if read > ANSWER_MAX:
                break
        if response is None:
            raise Failed("the connection was closed without an answer")
        response.body = kept.decode("utf-8", "replace").replace("\x00", "\ufffd")
        return response


async def connect(target: Target, *, livemode: bool) -> ReceiverConnection:
    """Return a new connection to an allowed address. Raises Failed and OSError."""
    addresses = [target.host] if is_address(target.host) else await look_up(target.host)
    for address in addresses:
        reason = refusal(address, tls=target.tls, livemode=livemode)
        if reason is not None:
            raise Failed(f"{address} is not allowed: {reason}")
    failure: OSError = OSError(f"{target.host} has no address")
    for position, address in enumerate(addresses, 1):
        try:
            async with asyncio.timeout(CONNECT_S if position < len(addresses) else None):
                return ReceiverConnection(*await _open(address, target))
        except OSError as error:
            failure = error
    raise failure


async def check_url(url: str, *, livemode: bool) -> None:
    """Check a URL that is to be registered, and what its name resolves to. Raises InvalidRequest.

    It does not wait long for a slow name server, as each connection resolves the name again.
    """
    target = parse_url(url, livemode=livemode)
    if is_address(target.host):
        return
    addresses: list[str] = []
    with contextlib.suppress(Failed, TimeoutError):
        async with asyncio.timeout(LOOK_UP_S):
            addresses = await look_up(target.host)
    check_resolved(addresses, target, livemode=livemode)


async def look_up(host: str) -> list[str]:
    """Return the IP addresses of a name. Raises Failed when it has none.

    Each name is resolved in a thread of its own, once at a time: a name server that does not answer delays
    only those who need that name.
    """
    loop = asyncio.get_running_loop()
    answer = _lookups.get(host)
    if answer is None or answer.get_loop() is not loop:
        if len(_lookups) >= LOOKUPS_MAX:
            raise Failed(f"{host} cannot be looked up: too many lookups are pending")
        answer = _lookups[host] = loop.create_future()
        answer.add_done_callback(lambda _: _lookups.pop(host, None))
        threading.Thread(target=_ask, args=(host, answer), name=f"look up {host}", daemon=True).start()
    found = await asyncio.shield(answer)
    if isinstance(found, str):
        raise Failed(f"{host} cannot be looked up: {found}")
    return found


# The names that are being resolved.
_lookups: dict[str, asyncio.Future[list[str] | str]] = {}


def _ask(host: str, answer: asyncio.Future[list[str] | str]) -> None:
    """Resolve a name, in a thread; set `answer` to the addresses, or to why there are none."""
    found: list[str] | str
    try:
        entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        found = [str(address[0]) for _, _, _, _, address in entries]
    except OSError as error:
        found = error.strerror or str(error)
    except UnicodeError:
        found = "it is not a host name"

    def settle() -> None:
        if not answer.done():
            answer.set_result(found)

    with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits for the result
        answer.get_loop().call_soon_threadsafe(settle)


async def _open(address: str, target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if not target.tls:
        return await asyncio.open_connection(address, target.port)
    return await asyncio.open_connection(
        address, target.port, ssl=_tls_context(), server_hostname=target.host
    )


@cache
def _tls_context() -> ssl.SSLContext:
    return ssl.create_default_context()


def _head(path: str, headers: Headers) -> bytes:
    """Return the head of a request. Raises Failed when a line of it would be two."""
    lines = [f"POST {path} HTTP/1.1", *[f"{name}: {value}" for name, value in headers], "", ""]
    head = "\r\n".join(lines)
    if not head.count("\r") == head.count("\n") == len(lines) - 1:
        raise Failed("a header of the request has the end of a line in it")
    return head.encode("ascii")


_ANY_POST = h11.Request(method="POST", target="/", headers=[("Host", "any"), ("Content-Length", "0")])
_END = h11.EndOfMessage()


def _kept_headers(response: h11.Response) -> Headers:
    kept: Headers = []
    left = KEPT_MAX
    for name, value in response.headers:
        pair = name.decode("latin-1"), value.decode("latin-1")
        left -= len(pair[0]) + len(pair[1])
        if left < 0:
            break
        kept.append(pair)
    return kept
