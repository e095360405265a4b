"""Listen to the events of any ledger server and post each to a local address, signed like a webhook.

For a handler on a machine that no server can reach. All deliveries of one run are signed with one secret,
that of the first session, so that the handler is configured once; the server's own signatures are checked
with it.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import httpx

from ledger_client.answers import SMALL_BYTES_MAX, Client
from ledger_client.event_stream import NotEvents, ServerSentEvent, events
from ledger_client.parsing import parsed
from ledger_engine.events.webhooks.signatures import sign, signed_headers

RETRIES_S = (1, 5, 30, 120, 600)
RETRIES_MAX = 100  # deliveries that wait for another attempt; with more, the listener waits
RECONNECTS_S = (0.5, 1, 2, 5, 10)
# the server sends something every 15 seconds, so after this time the connection is dead
SILENCE_TIMEOUT_S = 45
DEADLINE_S = 15  # seconds for one delivery, as on the server
UNREADABLE = "The server sent an event that cannot be read. Is it a ledger?"


class Refused(Exception):
    """The server refuses the stream; the text says why."""


@dataclass(slots=True, eq=False)
class Listener:
    """Follows the events of one server and forwards them; `write_line` gets each line for people."""

    server: str
    key: str
    forward_to: str
    write_line: Callable[[str], None]
    retry: bool = False
    _last: str | None = None
    _session: str = ""
    _secret: str | None = None
    _retries: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self) -> None:
        """Run until cancelled; raises Refused."""
        failed, said = 0, ""
        # The proxies in the environment are not meant for this machine, nor for the server of --url.
        limits = {"bytes_max": SMALL_BYTES_MAX, "trust_env": False}
        silence = httpx.Timeout(10, read=SILENCE_TIMEOUT_S)
        async with (
            Client(seconds_max=SILENCE_TIMEOUT_S, timeout=silence, **limits) as server,
            Client(seconds_max=DEADLINE_S, timeout=None, **limits) as receiver,
        ):
            try:
                while True:
                    try:
                        async for event in self._follow(server):
                            failed, said = 0, ""
                            await self._take(event, receiver)
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
            finally:
                for task in self._retries:
                    task.cancel()
                await asyncio.gather(*self._retries, return_exceptions=True)

    async def _follow(self, server: Client) -> AsyncIterator[ServerSentEvent]:
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
                    raise Refused(_refusal(response))
                raise httpx.HTTPError(_refusal(response))
            async for event in events(response):
                yield event

    async def _take(self, event: ServerSentEvent, receiver: Client) -> None:
        _require_ascii(event.id)
        if event.event == "session":
            (self._session,) = _texts(event.data, "secret")
            if self._secret is None:
                self._secret = self._session
                self.write_line(f"Listening to {self.server}, forwarding to {self.forward_to}")
                self.write_line(f"The signing secret for this run: {self._secret}")
            else:
                self.write_line("Connected again.")
        elif event.event == "event":
            text, signature = _texts(event.data, "body", "signature")
            body = text.encode()
            if not hmac.compare_digest(sign(self._session, body).encode(), signature.encode()):
                raise Refused("An event came with a wrong signature.")
            if not await self._forward(receiver, body, 1) and self.retry:
                await self._retry_later(receiver, body)
        self._last = event.id or self._last

    async def _forward(self, receiver: Client, body: bytes, attempt: int) -> bool:
        """Post the event and return whether it was accepted; writes a line before and one after."""
        kind, id = _texts(body, "type", "id")
        _require_ascii(kind + id)
        self.write_line(f"--> {kind} {id}{'' if attempt == 1 else f' (attempt {attempt})'}")
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "ledger-engine",
            "Ledger-Event-Id": id,
            "Ledger-Event-Type": kind,
            "Ledger-Attempt": str(attempt),
            **dict(signed_headers(self._secret or "", None, id, int(time.time()), body)),
        }
        began = time.monotonic()
        try:
            # The body of a success is not read: as for a webhook, the status decides.
            async with receiver.stream("POST", self.forward_to, content=body, headers=headers) as answer:
                outcome, taken = f"{answer.status_code} {answer.reason_phrase}", answer.is_success
        except httpx.HTTPError as error:
            outcome, taken = str(error) or type(error).__name__, False
        milliseconds = round((time.monotonic() - began) * 1000)
        self.write_line(f"<-- {outcome} {id} ({milliseconds} ms)")
        return taken

    async def _retry_later(self, receiver: Client, body: bytes) -> None:
        while len(self._retries) >= RETRIES_MAX:
            await asyncio.wait(self._retries, return_when=asyncio.FIRST_COMPLETED)
        task = asyncio.create_task(self._retry(receiver, body))
        self._retries.add(task)
        task.add_done_callback(self._retries.discard)

    async def _retry(self, receiver: Client, body: bytes) -> None:
        for attempt, wait in enumerate(RETRIES_S, 2):
            await asyncio.sleep(wait)
            if await self._forward(receiver, body, attempt):
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


def _refusal(response: httpx.Response) -> str:
    try:
        body = parsed(response.content)
        error = body["error"]
        message = error["message"] if isinstance(error, dict) else body["message"]
        return f"{response.status_code}: {message}"
    except (ValueError, KeyError, TypeError):
        return f"{response.status_code} from a server that is not a ledger"
