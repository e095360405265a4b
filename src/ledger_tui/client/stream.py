"""Events as they happen, over server-sent events: a listener that needs no address of its own.

The first message of a session carries its secret; each later one a raw body and the signature of that
body by the secret, which is checked here.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

from ledger_tui.client.api import Api
from ledger_tui.client.webhooks import verify
from ledger_tui.state.window import Record

PATH = "/v1/events/stream"
PART = "events.stream"
# The server says something every 15 seconds, if only that nothing happened.
SILENCE_SECONDS = 40.0


@dataclass(frozen=True, slots=True)
class Heard:
    """One event: its record, and whether its signature was right."""

    event: Record
    right: bool


@dataclass(slots=True)
class _Message:
    kind: str = "message"
    id: str | None = None
    data: str = ""


class EventLine:
    """`listen` until the line breaks, and again: it goes on behind the last event that was heard."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._secret: str | None = None
        self._last_id: str | None = None

    async def listen(self) -> AsyncIterator[Heard | None]:
        """The events; None each time a session begins. Raises ClientError when the line breaks."""
        headers = {"Accept": "text/event-stream"}
        if self._last_id is not None:
            headers["Last-Event-ID"] = self._last_id
        lines = self._api.lines(PATH, headers, part=PART, silence_seconds=SILENCE_SECONDS)
        async for message in _messages(lines):
            self._last_id = message.id or self._last_id
            if message.kind == "session":
                secret = _object(message.data).get("secret")
                self._secret = secret if isinstance(secret, str) else None
                yield None
            elif message.kind == "event":
                yield self._check(_object(message.data), message)

    def forget(self) -> None:
        """Begin anew: the server does not know the last event (any more)."""
        self._last_id = None

    def _check(self, sent: Record, message: _Message) -> Heard:
        body, signature = sent.get("body"), sent.get("signature")
        text = body if isinstance(body, str) else ""
        event = _object(text)
        right = self._secret is not None and verify(
            self._secret,
            text.encode("utf-8", "surrogatepass"),
            signature if isinstance(signature, str) else None,
        )
        if not isinstance(event.get("id"), str):
            event = {**event, "id": message.id or "?"}
        return Heard(event, right)


async def _messages(lines: AsyncIterator[bytes]) -> AsyncIterator[_Message]:
    """Server-sent events from their lines (WHATWG HTML, 9.2.6), those with data."""
    message, data = _Message(), list[str]()
    async for raw in lines:
        line = raw.decode("utf-8", "replace")
        if not line:
            if data:
                message.data = "\n".join(data)
                yield message
            message, data = _Message(), []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            data.append(value)
        elif name == "event":
            message.kind = value
        elif name == "id" and "\0" not in value:
            message.id = value or None


def _object(text: str) -> Record:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
