"""Events as they happen, over server-sent events: a listener that needs no address of its own.

The first message of a session contains its secret; each later one a raw body and its signature with the
secret, which is checked here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from ledger_tui.client.api import Api
from ledger_tui.client.records import Record
from ledger_tui.client.transport import decoded
from ledger_tui.client.webhooks import verify

PATH = "/v1/events/stream"
PART = "events.stream"
# The server sends something every 15 seconds, at least a keep-alive.
SILENCE_SECONDS = 40.0


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    """One event: its record, and whether its signature was valid."""

    event: Record
    valid: bool


class EventLine:
    """A connection to the stream; each call of `listen` resumes after the last event received."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._secret: str | None = None
        self._last_id: str | None = None

    async def listen(self) -> AsyncIterator[ReceivedEvent | None]:
        """Yield the events, and None each time a session begins.

        Raises ClientError when the connection breaks.
        """
        headers = {"Accept": "text/event-stream"}
        if self._last_id is not None:
            headers["Last-Event-ID"] = self._last_id
        messages = self._api.events(PATH, headers, part=PART, silence_seconds=SILENCE_SECONDS)
        async for message in messages:
            if message.id and message.id.isascii():  # it is sent back in a header
                self._last_id = message.id
            if message.event == "session":
                secret = _object(message.data).get("secret")
                self._secret = secret if isinstance(secret, str) and secret.isascii() else None
                yield None
            elif message.event == "event":
                yield self._check(_object(message.data), message.id)

    def forget(self) -> None:
        """Start anew: the server does not know the last event, or no longer."""
        self._last_id = None

    def _check(self, sent: Record, id: str) -> ReceivedEvent:
        body, signature = sent.get("body"), sent.get("signature")
        text = body if isinstance(body, str) else ""
        event = _object(text)
        valid = self._secret is not None and verify(
            self._secret,
            text.encode("utf-8", "surrogatepass"),
            signature if isinstance(signature, str) else None,
        )
        if not isinstance(event.get("id"), str):
            event = {**event, "id": id or "?"}
        return ReceivedEvent(event, valid)


def _object(text: str) -> Record:
    found = decoded(text)
    return found if isinstance(found, dict) else {}
