"""What is known of events beyond their records: whether the signature was valid, and their deliveries."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from ledger_tui.client.records import Record

KEPT = 5_000


class Listening(Enum):
    """The state of the connection to the stream of events."""

    OFF = "off"
    CONNECTING = "connecting"
    ON = "listening"
    LOST = "lost"
    NOT_OFFERED = "not offered"


class WebhookLog:
    """The log that the stream and the reader of deliveries fill, and the list of events shows."""

    def __init__(self) -> None:
        self.listening = Listening.OFF
        self.received = 0
        self.wrong = 0
        self.endpoints: dict[str, Record] = {}
        self._signed: dict[str, bool] = {}
        self._deliveries: dict[str, dict[str, Record]] = {}

    def forget(self) -> None:
        """Forget all events and deliveries; whether it listens stays known."""
        self.received = self.wrong = 0
        for known in (self.endpoints, self._signed, self._deliveries):
            known.clear()

    def note_signature(self, event_id: str, valid: bool) -> bool:
        """Note that an event was received and its signature checked; False if it was received before."""
        if event_id in self._signed:
            return False
        self.received += 1
        self.wrong += not valid
        self._signed[event_id] = valid
        _trim(self._signed)
        return True

    def signed(self, event_id: object) -> bool | None:
        """Return whether the event's signature was valid; None if it was read from the list."""
        return self._signed.get(event_id) if isinstance(event_id, str) else None

    def note_deliveries(self, deliveries: Iterable[Record]) -> None:
        """Note the present state of deliveries."""
        for delivery in deliveries:
            event, endpoint = delivery.get("event"), delivery.get("endpoint")
            if isinstance(event, str) and isinstance(endpoint, str):
                self._deliveries.setdefault(event, {})[endpoint] = delivery
        _trim(self._deliveries)

    def deliveries(self, event_id: object) -> list[Record]:
        """Return the known deliveries of the event."""
        return [*self._deliveries.get(event_id, {}).values()] if isinstance(event_id, str) else []


def _trim(known: dict[str, object] | dict[str, bool] | dict[str, dict[str, Record]]) -> None:
    """Forget the oldest entries: a dictionary keeps its keys in the order they were added."""
    while len(known) > KEPT:
        del known[next(iter(known))]
