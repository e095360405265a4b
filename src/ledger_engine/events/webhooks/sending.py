"""The sender makes attempts: each attempt sends one event to one endpoint. No endpoint delays another.

Each endpoint has a lane, which makes the endpoint's first attempts in sequence. The next attempt may start
when the previous attempt has a result, or a quarter of a second after the previous request was sent. So a
receiver that is slow or hangs delays only its own lane. Retries run at the same time as the first attempts.

Each lane can always run one first attempt and one retry. The further attempts of all lanes together share a
limit. So a working receiver gets its events, however many other receivers hang.

Receivers are not trusted. This module resolves the receiver's name, checks each address, and connects to a
checked address. It follows no redirect, uses no proxy, decompresses nothing, and reads only a limited part of
the answer. It uses streams and h11, because a client library would make all these decisions itself. h11 only
reads the answers. The requests are written without h11, because writing them with h11 took a third of the
sender's whole time. The requests are easy to write, because they are all alike.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import h11

from ledger_engine.core.records import dumps
from ledger_engine.events.webhooks.addresses import ParsedUrl, check_resolved, is_address, parse_url, refusal

ANSWER_MAX = 64 * 1024  # bytes of a body that are read before the connection is closed
KEPT_MAX = 4096  # bytes of a body, and characters of headers, that are stored (docs/decisions.md#events-list)
HEAD_MAX = 32 * 1024  # bytes of an answer's status line and headers
LOOK_UP_S = 2  # seconds to resolve a name when its URL is registered
LOOKUPS_MAX = 64  # names resolved at a time; each lookup occupies a thread until the name server answers
CONNECT_S = 5  # seconds to connect to an address before the next address of the name is tried
DEADLINE_S = 15  # seconds for a whole attempt (docs/decisions.md#webhooks-retries)
OVERTAKE_S = 0.25  # seconds after a request was sent until the lane's next first attempt may start
FIRSTS_MAX = 8  # first attempts in progress in one lane
RETRIES_MAX = 4  # retries in progress in one lane
# Attempts in progress in all lanes together, not counting the two attempts that each lane may always run.
SHARED_MAX = 128
# Seconds after which the sender closes an idle connection. The value is less than 5, because common servers
# close an idle connection after 5 seconds or later.
IDLE_S = 4
Headers = list[tuple[str, str]]


class SendFailed(Exception):
    """The request was not sent, or got no valid answer; the message gives the reason in a few words."""


@dataclass(slots=True)
class Response:
    """A receiver's answer. `body` is the first 4 KB of its body, decoded as UTF-8 whatever the content is."""

    status: int
    headers: Headers
    body: str


class ReceiverConnection:
    """A connection to a receiver, for one exchange at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_MAX)
        self.answering = False  # whether a part of the answer to the last request has arrived

    async def post(self, path: str, headers: Headers, body: bytes, on_sent: Callable[[], None]) -> Response:
        """Send the request, call `on_sent`, and return the answer. Raises SendFailed and OSError."""
        self.answering = False
        request = _head(path, headers) + body
        self._http.send(_ANY_POST)  # only so that h11 expects an answer: the text that it returns is not used
        self._http.send(_END)
        # Do not wait until the whole request is sent, because a receiver can answer before it has read the
        # whole request.
        self._writer.write(request)
        on_sent()
        try:
            return await self._take_answer()
        except h11.RemoteProtocolError as error:
            # h11 appends the receiver's text to the reason, and this text may be very long.
            reason = str(error).partition(": b")[0]
            raise SendFailed(f"not a valid HTTP response: {reason}") from error

    @property
    def is_open(self) -> bool:
        """Return False if the connection is known to be closed; the receiver can close it at any time."""
        return not (self._reader.at_eof() or self._writer.is_closing())

    def make_ready(self) -> bool:
        """Prepare the connection for the next exchange; return False if it cannot be used again."""
        if not self.is_open or self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    def close(self) -> None:
        """Close the connection at once, without waiting for the receiver."""
        self._writer.transport.abort()

    async def _take_answer(self) -> Response:
        response: Response | None = None
        start = b""
        read = 0
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                data = await self._reader.read(65_536)
                self.answering = self.answering or bool(data)
                if not data and response is None:
                    raise SendFailed("the connection was closed without an answer")
                self._http.receive_data(data)
            elif isinstance(event, h11.Response):
                response = Response(event.status_code, _kept_headers(event), "")
            elif isinstance(event, h11.Data):
                read += len(event.data)
                start += bytes(event.data[: KEPT_MAX - len(start)])
            elif isinstance(event, (h11.EndOfMessage, h11.ConnectionClosed)):
                break
            if read > ANSWER_MAX:
                break
        if response is None:
            raise SendFailed("the connection was closed without an answer")
        response.body = start.decode("utf-8", "replace").replace("\x00", "\ufffd")
        return response


async def connect(target: ParsedUrl, *, livemode: bool) -> ReceiverConnection:
    """Connect to the receiver, if all its addresses are allowed. Raises SendFailed and OSError."""
    addresses = [target.host] if is_address(target.host) else await look_up(target.host)
    for address in addresses:
        reason = refusal(address, tls=target.tls, livemode=livemode)
        if reason is not None:
            raise SendFailed(f"{address} is not allowed: {reason}")
    failure: OSError = OSError(f"{target.host} has no address")
    for position, address in enumerate(addresses, 1):
        try:
            async with asyncio.timeout(CONNECT_S if position < len(addresses) else None):
                return ReceiverConnection(*await _open(address, target))
        except OSError as error:
            failure = error
    raise failure


async def check_url(url: str, *, livemode: bool) -> None:
    """Check a URL, and the addresses of its host name, before it is registered. Raises InvalidRequest.

    If the name server does not answer within LOOK_UP_S, an https URL is accepted, because each connection
    resolves the name and checks the addresses again.
    """
    target = parse_url(url, livemode=livemode)
    if is_address(target.host):
        return
    addresses: list[str] = []
    with contextlib.suppress(SendFailed, TimeoutError):
        async with asyncio.timeout(LOOK_UP_S):
            addresses = await look_up(target.host)
    check_resolved(addresses, target, livemode=livemode)


async def look_up(host: str) -> list[str]:
    """Return the IP addresses of a host name. Raises SendFailed if it has none.

    Each lookup runs in a separate thread. So a name server that does not answer delays only the attempts to
    the hosts that it serves. If a lookup of the same name is in progress, wait for its result instead of
    starting a second lookup.
    """
    loop = asyncio.get_running_loop()
    answer = _lookups.get(host)
    if answer is None or answer.get_loop() is not loop:
        if len(_lookups) >= LOOKUPS_MAX:
            raise SendFailed(f"{host} cannot be looked up: too many lookups are pending")
        answer = _lookups[host] = loop.create_future()
        answer.add_done_callback(lambda _: _lookups.pop(host, None))
        threading.Thread(target=_ask, args=(host, answer), name=f"look up {host}", daemon=True).start()
    result = await asyncio.shield(answer)
    if isinstance(result, str):
        raise SendFailed(f"{host} cannot be looked up: {result}")
    return result


# The lookups in progress, by name.
_lookups: dict[str, asyncio.Future[list[str] | str]] = {}


def _ask(host: str, answer: asyncio.Future[list[str] | str]) -> None:
    """Resolve a host name; set `answer` to its addresses, or to the reason why it has none.

    Call this in a thread of its own.
    """
    result: list[str] | str
    try:
        entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        result = [str(address[0]) for _, _, _, _, address in entries]
    except OSError as error:
        result = error.strerror or str(error)
    except UnicodeError:
        result = "it is not a host name"

    def settle() -> None:
        if not answer.done():
            answer.set_result(result)

    with contextlib.suppress(RuntimeError):  # raised if the loop is closed; nobody waits for the result then
        answer.get_loop().call_soon_threadsafe(settle)


async def _open(address: str, target: ParsedUrl) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if not target.tls:
        return await asyncio.open_connection(address, target.port)
    return await asyncio.open_connection(
        address, target.port, ssl=_tls_context(), server_hostname=target.host
    )


@cache
def _tls_context() -> ssl.SSLContext:
    return ssl.create_default_context()


def _head(path: str, headers: Headers) -> bytes:
    """Return the head of a request. Raises SendFailed if a header contains a line break."""
    lines = [f"POST {path} HTTP/1.1", *[f"{name}: {value}" for name, value in headers], "", ""]
    head = "\r\n".join(lines)
    if not head.count("\r") == head.count("\n") == len(lines) - 1:
        raise SendFailed("a header of the request contains a line break")
    return head.encode("ascii")


_ANY_POST = h11.Request(method="POST", target="/", headers=[("Host", "any"), ("Content-Length", "0")])
_END = h11.EndOfMessage()


def _kept_headers(response: h11.Response) -> Headers:
    headers: Headers = []
    left = KEPT_MAX
    for name, value in response.headers:
        pair = name.decode("latin-1"), value.decode("latin-1")
        left -= len(pair[0]) + len(pair[1])
        if left < 0:
            break
        headers.append(pair)
    return headers


class AttemptJob(NamedTuple):
    """One attempt to make. The caller chooses `number`; host, port, TLS and path come from a ParsedUrl.

    `headers` is the JSON text of an array of pairs. The recorder stores the same text, so the text is made
    only once.
    """

    number: int
    endpoint: str
    is_first: bool
    livemode: bool
    host: str
    port: int
    tls: bool
    path: str
    headers: str
    body: str


class SendResult(NamedTuple):
    """The result of the job with the same `number`.

    If `made` is false, the attempt was not started, or was cancelled and its outcome is unknown.

    `error` is None for a 2xx answer within the deadline. `status`, `headers` (JSON text as in a job) and
    `body` come from the receiver's answer, and are None if there is no answer.
    """

    number: int
    made: bool
    latency_ms: int = 0
    status: int | None = None
    error: str | None = None
    headers: str | None = None
    body: str | None = None


@dataclass(slots=True, eq=False)
class _Queue:
    """The first attempts or the retries of one lane.

    The jobs start in the order of their submission, and at most `most` jobs run at the same time. In a queue
    that is `in_order`, the job that was started last is the `head`. The next job starts when the head has a
    result, or OVERTAKE_S after the head's request was sent.
    """

    lane: _Lane
    most: int
    in_order: bool
    waiting: deque[AttemptJob] = field(default_factory=deque)
    under_way: int = 0
    head: AttemptJob | None = None


@dataclass(slots=True, eq=False)
class _Lane:
    """The jobs of one endpoint, and the idle connections to this endpoint.

    `idle` maps each idle connection to the timer that closes the connection.
    """

    endpoint: str
    idle: dict[ReceiverConnection, asyncio.TimerHandle] = field(default_factory=dict)
    firsts: _Queue = field(init=False)
    retries: _Queue = field(init=False)

    def __post_init__(self) -> None:
        self.firsts = _Queue(self, FIRSTS_MAX, in_order=True)
        self.retries = _Queue(self, RETRIES_MAX, in_order=False)

    @property
    def is_empty(self) -> bool:
        return not self.idle and not any(
            queue.waiting or queue.under_way for queue in (self.firsts, self.retries)
        )


class Sender:
    """Makes the submitted attempts, and calls `report` once for each job, with its result."""

    is_ready = True

    def __init__(self, report: Callable[[SendResult], None], deadline_s: float = DEADLINE_S) -> None:
        self._report = report
        self._deadline_s = deadline_s
        self._lanes: dict[str, _Lane] = {}
        self._shared_count = 0  # attempts in progress that count for the shared limit
        self._until = math.inf
        # Queues that wait until the shared limit allows another attempt, the longest waiting first.
        self._waiting_queues: dict[_Queue, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(self, job: AttemptJob) -> None:
        """Submit a job.

        An endpoint's first attempts are started in the order in which they were submitted.
        """
        lane = self._lanes.get(job.endpoint)
        if lane is None:
            lane = self._lanes[job.endpoint] = _Lane(job.endpoint)
        queue = lane.firsts if job.is_first else lane.retries
        queue.waiting.append(job)
        self._start_waiting(queue)

    def drop(self, endpoint: str) -> None:
        """For each job of the endpoint that has not been started, report that no attempt was made.

        Also close the endpoint's idle connections.
        """
        lane = self._lanes.get(endpoint)
        if lane is None:
            return
        waiting = [*lane.firsts.waiting, *lane.retries.waiting]
        lane.firsts.waiting.clear()
        lane.retries.waiting.clear()
        for connection in list(lane.idle):
            self._close_idle(lane, connection)
        for job in waiting:
            self._report(SendResult(job.number, made=False))

    def send_until(self, moment: float) -> None:
        """Start no attempt at or after this moment of the monotonic clock.

        A job that could not start before this moment is reported as not made.
        """
        self._until = moment

    async def stop(self, grace_s: float) -> None:
        """Start nothing more; wait up to `grace_s` seconds for attempts in progress, and cancel the rest."""
        for endpoint in list(self._lanes):
            self.drop(endpoint)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for endpoint in list(self._lanes):
            self.drop(endpoint)

    def _start_waiting(self, queue: _Queue) -> None:
        while queue.waiting and queue.head is None and queue.under_way < queue.most:
            if queue.under_way and self._shared_count >= SHARED_MAX:
                self._waiting_queues[queue] = None
                return
            job = queue.waiting.popleft()
            self._shared_count += queue.under_way > 0
            queue.under_way += 1
            queue.head = job if queue.in_order else None
            task = asyncio.create_task(self._make(queue, job))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _make(self, queue: _Queue, job: AttemptJob) -> None:
        """Make one attempt and report it, then start the jobs that waited for it."""
        result = SendResult(job.number, made=False)
        try:
            if time.monotonic() < self._until:
                result = await self._attempt(queue, job)
            else:
                # The event of this job will be read and submitted again. The endpoint's later jobs must not
                # be sent before this event.
                self.drop(job.endpoint)
        finally:
            queue.under_way -= 1
            self._shared_count -= queue.under_way > 0
            self._report(result)
            self._pass_on(queue, job)
            while self._waiting_queues and self._shared_count < SHARED_MAX:
                oldest = next(iter(self._waiting_queues))
                del self._waiting_queues[oldest]
                self._start_waiting(oldest)
            self._forget_if_empty(queue.lane)

    async def _attempt(self, queue: _Queue, job: AttemptJob) -> SendResult:
        began = time.monotonic()
        error: str | None
        response = None
        try:
            async with asyncio.timeout(self._deadline_s):
                response = await self._post(queue, job)
            error = _error_of(response.status)
        except TimeoutError:
            error = f"no complete answer within {self._deadline_s:g} s"
        except SendFailed as failure:
            error = str(failure)
        except ssl.SSLError as failure:
            error = f"TLS: {failure.reason or failure}"
        except OSError as failure:
            error = os.strerror(failure.errno) if failure.errno else str(failure)
        except Exception as failure:
            # Report any error as a failed attempt, because a job that is reported as not made would be
            # submitted again at once.
            error = f"{type(failure).__name__}: {failure}"
        latency_ms = round((time.monotonic() - began) * 1000)
        if response is None:
            return SendResult(job.number, True, latency_ms, error=error)
        headers = dumps(response.headers)
        return SendResult(job.number, True, latency_ms, response.status, error, headers, response.body)

    async def _post(self, queue: _Queue, job: AttemptJob) -> Response:
        loop = asyncio.get_running_loop()
        target = ParsedUrl(job.host, job.port, job.tls, job.path)
        lane = queue.lane
        overtaken: asyncio.TimerHandle | None = None

        def on_sent() -> None:
            nonlocal overtaken
            if queue.in_order:
                overtaken = loop.call_later(OVERTAKE_S, self._pass_on, queue, job)

        while True:
            connection = _take_idle(lane)
            used_before = connection is not None
            if connection is None:
                connection = await connect(target, livemode=job.livemode)
            try:
                headers = json.loads(job.headers)
                response = await connection.post(job.path, headers, job.body.encode(), on_sent)
            except (SendFailed, OSError):
                connection.close()
                # A receiver may close an idle connection while our request is on its way. This is not a
                # failure of the attempt: send the request again, on another connection.
                if not used_before or connection.answering:
                    raise
                continue
            except BaseException:
                connection.close()
                raise
            finally:
                if overtaken is not None:
                    overtaken.cancel()
            self._keep(lane, connection)
            return response

    def _pass_on(self, queue: _Queue, job: AttemptJob) -> None:
        """Let the next job start, because `job` has a result or was sent OVERTAKE_S ago."""
        if queue.head is job:
            queue.head = None
        self._start_waiting(queue)

    def _keep(self, lane: _Lane, connection: ReceiverConnection) -> None:
        if not connection.make_ready():
            connection.close()
            return
        loop = asyncio.get_running_loop()
        lane.idle[connection] = loop.call_later(IDLE_S, self._close_idle, lane, connection)

    def _close_idle(self, lane: _Lane, connection: ReceiverConnection) -> None:
        lane.idle.pop(connection).cancel()
        connection.close()
        self._forget_if_empty(lane)

    def _forget_if_empty(self, lane: _Lane) -> None:
        if lane.is_empty and self._lanes.get(lane.endpoint) is lane:
            del self._lanes[lane.endpoint]


def _take_idle(lane: _Lane) -> ReceiverConnection | None:
    while lane.idle:
        connection, timer = lane.idle.popitem()
        timer.cancel()
        if connection.is_open:
            return connection
        connection.close()
    return None


def _error_of(status: int) -> str | None:
    if 200 <= status < 300:
        return None
    return f"answered {status}" + (": redirects are not followed" if 300 <= status < 400 else "")
