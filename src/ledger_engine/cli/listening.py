"""Follow the events of any ledger server, and post each to a local address, signed like a webhook.

For a handler on a machine that no server can reach. All deliveries are signed with one secret, so that the
handler is configured once; the server's own signatures are checked with that of the session.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import httpx

from ledger_client.answers import SMALL_BYTES_MAX, Client
from ledger_client.event_stream import NotEvents, ServerSentEvent, events
from ledger_client.parsing import parsed
from ledger_engine.cli.asking import refusal
from ledger_engine.events.webhooks.signatures import sign, signed_headers

RETRIES_S = (1, 5, 30, 120, 600)
RETRIES_MAX = 100  # deliveries that wait for another attempt; with more, the listener waits
RECONNECTS_S = (0.5, 1, 2, 5, 10)
# the server sends something every 15 seconds, so after this time the connection is dead
SILENCE_TIMEOUT_S = 45
DEADLINE_S = 15  # seconds for one delivery, as on the server
# The proxies in the environment are not meant for this machine, nor for the server of --url.
_LIMITS: dict[str, Any] = {"bytes_max": SMALL_BYTES_MAX, "trust_env": False}
UNREADABLE = "The server sent an event that cannot be read. Is it a ledger?"


class Refused(Exception):
    """The server refuses the stream; the text says why."""


@dataclass(frozen=True, slots=True)
class Followed:
    """An event as it came: the raw body, and the id and type that it names."""

    body: bytes
    id: str
    kind: str


@dataclass(slots=True, eq=False)
class Follower:
    """Follows the events of one server; `write_line` gets each line for people.

    `begin` is called once, when the server has answered with events.
    """

    server: str
    key: str
    write_line: Callable[[str], None]
    begin: Callable[[], None]
    _last: str | None = None
    _session: str = ""

    async def events(self) -> AsyncGenerator[Followed, None]:
        """Yield each event from now on, through lost connections; raises Refused."""
        failed, said = 0, ""
        silence = httpx.Timeout(10, read=SILENCE_TIMEOUT_S)
        async with Client(seconds_max=SILENCE_TIMEOUT_S, timeout=silence, **_LIMITS) as server:
            while True:
                try:
                    async for message in self._messages(server):
                        failed, said = 0, ""
                        event = self._read(message)
                        if event is not None:
                            yield event
                        self._last = message.id or self._last
                    reason = "the server has ended the stream"
                except NotEvents:
                    raise Refused(f"{self.server} does not answer with events.") from None
                except httpx.HTTPError as error:
                    reason = str(error) or type(error).__name__
                wait = RECONNECTS_S[min(failed, len(RECONNECTS_S) - 1)]
                failed += 1
                again = f"every {wait:g} s" if failed > len(RECONNECTS_S) else f"in {wait:g} s"
                line = f"Not connected to {self.server}: {reason}. Trying again {again}."
                if line != said:
                    self.write_line(line)
                said = line
                await asyncio.sleep(wait)

    async def _messages(self, server: Client) -> AsyncIterator[ServerSentEvent]:
        headers = {"Authorization": f"Bearer {self.key}", "Accept": "text/event-stream"}
        if self._last is not None:
            headers["Last-Event-ID"] = self._last
        async with server.stream("GET", f"{self.server}/v1/events/stream", headers=headers) as response:
            if not response.is_success:
                if self._last is not None and _code(response) == "invalid_cursor":
                    lost, self._last = self._last, None
                    raise httpx.HTTPError(
                        f"the server no longer has the event {lost}; what comes next is forwarded"
                    )
                if response.status_code < 500 and response.status_code != 429:
                    raise Refused(refusal(response))
                raise httpx.HTTPError(refusal(response))
            async for event in events(response):
                yield event

    def _read(self, message: ServerSentEvent) -> Followed | None:
        """Return the event of a message, None for one that has none."""
        _require_ascii(message.id)
        if message.event == "session":
            is_first, (self._session,) = not self._session, _texts(message.data, "secret")
            if is_first:
                self.begin()
            else:
                self.write_line("Connected again.")
        if message.event != "event":
            return None
        text, signature = _texts(message.data, "body", "signature")
        body = text.encode()
        if not hmac.compare_digest(sign(self._session, body).encode(), signature.encode()):
            raise Refused("An event came with a wrong signature.")
        id, kind = _texts(body, "id", "type")
        _require_ascii(id + kind)
        return Followed(body, id, kind)


@dataclass(slots=True, eq=False)
class Listener:
    """Forwards the events of one server, signed with `secret`; `write_line` gets each line for people.

    Without `kinds` it forwards every type. `headers` are sent along.
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
        """Run until cancelled; raises Refused."""
        follower = Follower(self.server, self.key, self.write_line, self._begin)
        try:
            async with (
                Client(seconds_max=DEADLINE_S, timeout=None, **_LIMITS) as receiver,
                aclosing(follower.events()) as followed,
            ):
                async for event in followed:
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

    async def _forward(self, receiver: Client, event: Followed, attempt: int) -> bool:
        """Post the event and return whether it was accepted; writes a line before and one after."""
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
            # The body of a success is not read: as for a webhook, the status decides.
            async with receiver.stream(
                "POST", self.forward_to, content=event.body, headers=headers
            ) as answer:
                outcome, taken = f"{answer.status_code} {answer.reason_phrase}", answer.is_success
        except httpx.HTTPError as error:
            outcome, taken = str(error) or type(error).__name__, False
        milliseconds = round((time.monotonic() - began) * 1000)
        self.write_line(f"<-- {outcome} {event.id} ({milliseconds} ms)")
        return taken

    async def _retry_later(self, receiver: Client, event: Followed) -> None:
        while len(self._retries) >= RETRIES_MAX:
            await asyncio.wait(self._retries, return_when=asyncio.FIRST_COMPLETED)
        task = asyncio.create_task(self._retry(receiver, event))
        self._retries.add(task)
        task.add_done_callback(self._retries.discard)

    async def _retry(self, receiver: Client, event: Followed) -> None:
        for attempt, wait in enumerate(RETRIES_S, 2):
            await asyncio.sleep(wait)
            if await self._forward(receiver, event, attempt):
                return


def _texts(text: str | bytes, *names: str) -> tuple[str, ...]:
    """Return the texts of these names in a JSON object; raises Refused when one is missing or no text."""
    try:
        record = parsed(text)
        found = tuple(record[name] for name in names)
        for each in found:
            each.encode()
    except (ValueError, LookupError, TypeError, AttributeError):
        raise Refused(UNREADABLE) from None
    return found


def _require_ascii(text: str) -> None:
    """Raise Refused for text that cannot be sent in a header."""
    if not text.isascii():
        raise Refused(UNREADABLE)


def _code(response: httpx.Response) -> object:
    try:
        return parsed(response.content)["error"]["code"]
    except (ValueError, KeyError, TypeError):
        return None
