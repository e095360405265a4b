"""Receives events as they happen, over server-sent events.

The dashboard opens the connection, so it needs no address to which a server could send webhooks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import quote

from ledger_client.errors import LedgerError
from ledger_tui.client.api import Api
from ledger_tui.client.records import Record
from ledger_tui.client.transport import client_of, decoded

PART = "events.stream"


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    """One event: its record, and whether its signature was valid."""

    event: Record
    valid: bool


class EventLine:
    """The stream of events; each call of `listen` opens a connection that resumes after the last event."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._last_id: str | None = None

    async def listen(self) -> AsyncIterator[ReceivedEvent | None]:
        """Yield the events, and None each time the server begins to send events.

        Raises LedgerError when the connection breaks.
        """
        async for message in self._api.events(self._last_id, part=PART):
            self._last_id = message.id or self._last_id
            if message.body is None:
                yield None
                continue
            value = decoded(message.body)
            event = value if isinstance(value, dict) else {}
            if not isinstance(event.get("id"), str):
                event = {**event, "id": message.id or "?"}
            yield ReceivedEvent(event, message.is_signed)

    def forget(self) -> None:
        """Do not resume after the last event next time, because the server does not know this event."""
        self._last_id = None


async def repair(api: Api, endpoint: str) -> str:
    """Tell one of the demo's webhook receivers to answer with success from now on, and return its URL.

    The request carries no credential, because it goes to the receiver and not to the ledger. Raises
    LedgerError.
    """
    path = f"/v1/webhook_endpoints/{quote(endpoint, safe='')}"
    url = str((await api.read(path, part="webhook_endpoints")).record.get("url"))
    async with client_of(url, trust_env=False) as receiver:
        try:
            await receiver.request("POST", "/repair", body=b"")
        except LedgerError as error:
            if error.status is None:
                raise
            raise LedgerError(f"{url} cannot be repaired from here") from None
    return url
