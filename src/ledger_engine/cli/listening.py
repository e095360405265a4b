"""Listen to the events of any ledger server and post each to a local address, signed as a webhook is.

For a handler on a machine that no server can reach. All deliveries of one run are signed with one secret,
the first session's, so that the handler can be told it once; what the server signs with it is checked.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import httpx

from ledger_engine.events.webhooks.endpoints import sign

RETRIES_S = (1, 5, 30, 120, 600)
RETRIES_MAX = 100  # deliveries that wait for another try; more make the listener wait
RECONNECTS_S = (0.5, 1, 2, 5, 10)
SILENT_S = 45  # the server speaks every 15 seconds: longer than that, and the line is dead
DEADLINE_S = 15  # of a delivery, as the server has it


class Refused(Exception):
    """The server will not let us listen; the text says why."""


@dataclass(frozen=True, slots=True)
class Heard:
    """One server-sent event."""

    kind: str
    id: str
    data: str


@dataclass(slots=True, eq=False)
class Listener:
    """Follows one server and forwards to one address; `tell` is given each line for people."""

    server: str
    key: str
    forward_to: str
    tell: Callable[[str], None]
    retry: bool = False
    _last: str | None = None
    _session: str = ""
    _secret: str | None = None
    _retries: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self) -> None:
        """Until it is cancelled; raises Refused."""
        failed = 0
        # What the environment says of proxies is not meant for this machine and the one behind --url.
        async with (
            httpx.AsyncClient(trust_env=False, timeout=httpx.Timeout(10, read=SILENT_S)) as server,
            httpx.AsyncClient(trust_env=False, timeout=None) as receiver,
        ):
            try:
                while True:
                    try:
                        async for heard in self._follow(server):
                            failed = 0
                            await self._take(heard, receiver)
                        reason = "the server has ended the stream"
                    except httpx.HTTPError as error:
                        reason = str(error) or type(error).__name__
                    wait = RECONNECTS_S[min(failed, len(RECONNECTS_S) - 1)]
                    failed += 1
                    self.tell(f"Not connected: {reason}. Trying again in {wait:g} s.")
                    await asyncio.sleep(wait)
            finally:
                for task in self._retries:
                    task.cancel()
                await asyncio.gather(*self._retries, return_exceptions=True)

    async def _follow(self, server: httpx.AsyncClient) -> AsyncIterator[Heard]:
        headers = {"Authorization": f"Bearer {self.key}", "Accept": "text/event-stream"}
        if self._last is not None:
            headers["Last-Event-ID"] = self._last
        async with server.stream("GET", f"{self.server}/v1/events/stream", headers=headers) as response:
            if response.status_code != 200:
                await response.aread()
                if response.status_code < 500 and response.status_code != 429:
                    raise Refused(_refusal(response))
                raise httpx.HTTPError(_refusal(response))
            async for heard in _heard(response.aiter_lines()):
                yield heard

    async def _take(self, heard: Heard, receiver: httpx.AsyncClient) -> None:
        data = json.loads(heard.data)
        if heard.kind == "session":
            self._session = data["secret"]
            if self._secret is None:
                self._secret = self._session
                self.tell(f"Listening to {self.server}, forwarding to {self.forward_to}")
                self.tell(f"The signing secret of this run: {self._secret}")
            else:
                self.tell("Connected again.")
        elif heard.kind == "event":
            body = data["body"].encode()
            if not hmac.compare_digest(sign(self._session, body), data["signature"]):
                raise Refused("An event came with a wrong signature.")
            if not await self._forward(receiver, body, 1) and self.retry:
                await self._retry_later(receiver, body)
        self._last = heard.id or self._last

    async def _forward(self, receiver: httpx.AsyncClient, body: bytes, attempt: int) -> bool:
        """Post the event; tells a line before and one after, and gives whether it was taken."""
        event = json.loads(body)
        self.tell(f"--> {event['type']} {event['id']}{'' if attempt == 1 else f' (attempt {attempt})'}")
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "ledger-engine",
            "Ledger-Event-Id": event["id"],
            "Ledger-Event-Type": event["type"],
            "Ledger-Attempt": str(attempt),
            "Ledger-Signature": sign(self._secret or "", body),
        }
        began = time.monotonic()
        try:
            async with asyncio.timeout(DEADLINE_S):
                answer = await receiver.post(self.forward_to, content=body, headers=headers)
            told, taken = f"{answer.status_code} {answer.reason_phrase}", answer.is_success
        except TimeoutError:
            told, taken = f"no answer within {DEADLINE_S} s", False
        except httpx.HTTPError as error:
            told, taken = str(error) or type(error).__name__, False
        milliseconds = round((time.monotonic() - began) * 1000)
        self.tell(f"<-- {told} {event['id']} ({milliseconds} ms)")
        return taken

    async def _retry_later(self, receiver: httpx.AsyncClient, body: bytes) -> None:
        while len(self._retries) >= RETRIES_MAX:
            await asyncio.wait(self._retries, return_when=asyncio.FIRST_COMPLETED)
        task = asyncio.create_task(self._retry(receiver, body))
        self._retries.add(task)
        task.add_done_callback(self._retries.discard)

    async def _retry(self, receiver: httpx.AsyncClient, body: bytes) -> None:
        for attempt, wait in enumerate(RETRIES_S, 2):
            await asyncio.sleep(wait)
            if await self._forward(receiver, body, attempt):
                return


async def _heard(lines: AsyncIterator[str]) -> AsyncIterator[Heard]:
    """The server-sent events in the lines (WHATWG, Server-sent events, 9.2.6)."""
    fields: dict[str, str] = {}
    async for line in lines:
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
        else:
            if "data" in fields:
                yield Heard(fields.get("event", "message"), fields.get("id", ""), fields["data"])
            fields = {}


def _refusal(response: httpx.Response) -> str:
    try:
        error = response.json()["error"]
        message = error["message"] if isinstance(error, dict) else response.json()["message"]
        return f"{response.status_code}: {message}"
    except (ValueError, KeyError, TypeError):
        return f"{response.status_code} from a server that is no ledger"
