"""Follows the events of any ledger server, and posts each event to a local address, signed like a webhook.

Use it for a handler on a machine that the server cannot reach. The listener signs all its deliveries with one
secret of its own, so you configure the handler once. The server signs the events with another secret, a new
one for each connection; the listener uses that secret only to check the server's signatures.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from ledger_client.answers import SMALL_BYTES_MAX, BoundedClient, no_answer
from ledger_client.errors import LedgerError
from ledger_client.event_stream import StreamMessage
from ledger_client.ledger import AsyncLedger
from ledger_client.parsing import parsed
from ledger_engine.cli.asking import notice_of_waiting, refusal
from ledger_engine.events.webhooks.signing import signed_headers

RETRIES_S = (1, 5, 30, 120, 600)  # seconds before each further attempt
RETRIES_MAX = 100  # while this many deliveries wait for another attempt, the listener takes no new event
SILENCE_TIMEOUT_S = 45
DEADLINE_S = 15  # seconds for one delivery, the same as on the server
UNREADABLE = "The server sent an event that cannot be read. Is it a ledger?"


class StreamRefusal(Exception):
    """The server refuses the stream; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """An event from the stream: the raw body, with the id and the type that the body contains."""

    body: bytes
    id: str
    kind: str


@dataclass(slots=True, eq=False)
class EventFollower:
    """Follows the events of one server; `write_line` prints a line for the user.

    `begin` is called once, when the stream opens for the first time. If the server cannot be reached at the
    start, `events` raises StreamRefusal, because the address may be wrong. Once the server has answered,
    `events` reconnects after each loss of the connection, without a limit.
    """

    server: str
    key: str
    write_line: Callable[[str], None]
    begin: Callable[[], None]
    _is_connected: bool = False
    _was_reached: bool = False
    _end_notice: Callable[[], None] = lambda: None
    _last_line: str = ""
    _wait: float | None = None

    async def events(self) -> AsyncGenerator[StreamEvent, None]:
        """Yield each event that happens from now on; if the connection is lost, reconnect and go on.

        Raises StreamRefusal.
        """
        last: str | None = None
        settings: dict[str, Any] = {"seconds_max": SILENCE_TIMEOUT_S, "trust_env": False}
        async with AsyncLedger(self.server, self.key, **settings) as ledger, self._with_notice():
            while True:
                try:
                    async for message in ledger.follow(last, self._report_loss):
                        last, self._last_line = message.id or last, ""
                        if message.body is None:
                            self._begin_session(message)
                        else:
                            yield self._read(message)
                except LedgerError as error:
                    if error.code != "invalid_cursor" or last is None:
                        raise StreamRefusal(refusal(error, self.server)) from None
                    # The server no longer stores the last event that arrived here, so it cannot continue the
                    # stream after this event. Follow the events that happen from now on.
                    reason = f"the server no longer stores the event {last}; newer events are forwarded"
                    last = None
                    self._report_loss(LedgerError(reason), 0)

    @asynccontextmanager
    async def _with_notice(self) -> AsyncIterator[None]:
        for_what = f"{self.server} to answer, {SILENCE_TIMEOUT_S} s at most"
        with notice_of_waiting(for_what) as self._end_notice:
            yield

    def _report_loss(self, error: LedgerError, wait: float) -> None:
        """Print why the connection is lost, and after how many seconds the next attempt begins.

        Raises StreamRefusal if the server was never reached.
        """
        self._end_notice()
        if not self._was_reached and error.status is None:
            raise StreamRefusal(refusal(error, self.server))
        self._was_reached = True
        again = f"every {wait:g} s" if wait == self._wait else f"in {wait:g} s"
        reason = str(error) if error.status is None else refusal(error, self.server)
        line = f"Not connected to {self.server}: {reason}. Trying again {again}."
        if line != self._last_line:
            self.write_line(line)
        self._last_line, self._wait = line, wait

    def _begin_session(self, message: StreamMessage) -> None:
        self._wait = None
        self._end_notice()
        if not message.is_signed:
            raise StreamRefusal(UNREADABLE)
        if self._is_connected:
            self.write_line("Connected again.")
        else:
            self._is_connected = self._was_reached = True
            self.begin()

    def _read(self, message: StreamMessage) -> StreamEvent:
        """Return the event in a message. Raises StreamRefusal for an event that cannot be forwarded.

        The event's id and type become headers of a request, so they must be ASCII.
        """
        if not message.is_signed or message.body is None:
            raise StreamRefusal("An event came with a wrong signature.")
        try:
            record = parsed(message.body)
            id, kind = record["id"], record["type"]
            if (id + kind).isascii():
                return StreamEvent(message.body, id, kind)
        except (ValueError, LookupError, TypeError, AttributeError):
            pass
        raise StreamRefusal(UNREADABLE)


@dataclass(slots=True, eq=False)
class WebhookListener:
    """Forwards the events of one server, signed with `secret`; `write_line` prints a line for the user.

    Without `kinds` it forwards every type. It adds `headers` to each request. If `retry` is true, it sends an
    event again after each wait in RETRIES_S, until the handler accepts the event or the waits are used up.
    """

    server: str
    key: str
    forward_to: str
    secret: str
    write_line: Callable[[str], None]
    retry: bool = False
    kinds: Collection[str] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    _retries: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self) -> None:
        """Forward events until cancelled. Raises StreamRefusal."""
        follower = EventFollower(self.server, self.key, self.write_line, self._begin)
        try:
            async with (
                BoundedClient(
                    bytes_max=SMALL_BYTES_MAX, seconds_max=DEADLINE_S, timeout=None, trust_env=False
                ) as receiver,
                aclosing(follower.events()) as stream,
            ):
                async for event in stream:
                    if self.kinds and event.kind not in self.kinds:
                        continue
                    if not await self._forward(receiver, event, 1) and self.retry:
                        await self._retry_later(receiver, event)
        finally:
            for task in self._retries:
                task.cancel()
            await asyncio.gather(*self._retries, return_exceptions=True)

    def _begin(self) -> None:
        self.write_line(f"Listening to {self.server}, forwarding to {self.forward_to}")
        self.write_line(f"The signing secret: {self.secret}")

    async def _forward(self, receiver: BoundedClient, event: StreamEvent, attempt: int) -> bool:
        """Post the event, and print a line before and after; return whether the handler accepted it."""
        self.write_line(f"--> {event.kind} {event.id}{'' if attempt == 1 else f' (attempt {attempt})'}")
        headers = {
            **self.headers,
            "Content-Type": "application/json",
            "User-Agent": "ledger-engine",
            "Ledger-Event-Id": event.id,
            "Ledger-Event-Type": event.kind,
            "Ledger-Attempt": str(attempt),
            **dict(signed_headers(self.secret, None, event.id, int(time.time()), event.body)),
        }
        began = time.monotonic()
        try:
            # Do not read the body of the answer: only its status counts, as for a webhook of the server.
            async with receiver.stream(
                "POST", self.forward_to, content=event.body, headers=headers
            ) as answer:
                outcome, is_accepted = f"{answer.status_code} {answer.reason_phrase}", answer.is_success
        except httpx.HTTPError as error:
            outcome, is_accepted = str(no_answer(error)), False
        milliseconds = round((time.monotonic() - began) * 1000)
        self.write_line(f"<-- {outcome} {event.id} ({milliseconds} ms)")
        return is_accepted

    async def _retry_later(self, receiver: BoundedClient, event: StreamEvent) -> None:
        while len(self._retries) >= RETRIES_MAX:
            await asyncio.wait(self._retries, return_when=asyncio.FIRST_COMPLETED)
        task = asyncio.create_task(self._retry(receiver, event))
        self._retries.add(task)
        task.add_done_callback(self._retries.discard)

    async def _retry(self, receiver: BoundedClient, event: StreamEvent) -> None:
        for attempt, wait in enumerate(RETRIES_S, 2):
            await asyncio.sleep(wait)
            if await self._forward(receiver, event, attempt):
                return
