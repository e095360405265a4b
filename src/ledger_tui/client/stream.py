"""Events as they happen, over server-sent events: a listener that needs no address of its own.

The first message of a session contains its secret; each later one a raw body and its signature with the
secret, which is checked here. A delivery to an endpoint has the signature in the header `Ledger-Signature`:
the lowercase hex HMAC-SHA-256 of the raw request body, keyed with the endpoint's signing secret: all of its
text, `whsec_` included, as UTF-8.
"""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import quote

from ledger_tui.client.api import Api
from ledger_tui.client.errors import ClientError
from ledger_tui.client.records import Record
from ledger_tui.client.transport import decoded, make_client, transport_errors

HEADER = "Ledger-Signature"


def sign(secret: str, body: bytes) -> str:
    """Return the signature of a raw body: 64 lowercase hex digits."""
    return hmac.digest(secret.encode(), body, "sha256").hex()


def verify(secret: str, body: bytes, header: str | None) -> bool:
    """Return whether `header`, the value of `Ledger-Signature` or None if it is missing, signs this body.

    Pass the bytes as they arrived: JSON that was parsed and written again is another body. It takes the same
    time however much of the signature is right.
    """
    given = (header or "").encode("utf-8", "surrogatepass")
    return hmac.compare_digest(sign(secret, body).encode(), given)


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


async def repair(api: Api, endpoint: str) -> str:
    """Tell the receiver behind a webhook endpoint to answer well from now on; return its URL.

    The request has no credential: it goes to the receiver and not to the ledger. Raises ClientError.
    """
    from ledger_client.answers import SMALL_BYTES_MAX

    path = f"/v1/webhook_endpoints/{quote(endpoint, safe='')}"
    url = str((await api.read(path, part="webhook_endpoints")).record.get("url"))
    with transport_errors():
        async with make_client(bytes_max=SMALL_BYTES_MAX, trust_env=False) as client:
            answer = await client.post(f"{url}/repair", content=b"")
    if not answer.is_success:
        raise ClientError(f"{url} cannot be repaired from here")
    return url
