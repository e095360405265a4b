"""What is known of events beside their records: whether each was signed rightly, and where it was sent to."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from ledger_tui.state.window import Record

KEPT = 5_000


class Listening(Enum):
    """How the line stands on which events are heard as they happen."""

    OFF = "off"
    CONNECTING = "connecting"
    ON = "listening"
    LOST = "lost"
    NOT_OFFERED = "not offered"


class WebhookLog:
    """Filled by who listens and by who reads deliveries; looked at by the list of events."""

    def __init__(self) -> None:
        self.listening = Listening.OFF
        self.heard = 0
        self.wrong = 0
        self.endpoints: dict[str, Record] = {}
        self._signed: dict[str, bool] = {}
        self._deliveries: dict[str, dict[str, Record]] = {}

    def note_signature(self, event_id: str, right: bool) -> bool:
        """An event was heard, and its signature checked; False if it was heard before."""
        if event_id in self._signed:
            return False
        self.heard += 1
        self.wrong += not right
        self._signed[event_id] = right
        _trim(self._signed)
        return True

    def signed(self, event_id: object) -> bool | None:
        """Whether the event's signature was right; None if it was not heard but read from the list."""
        return self._signed.get(event_id) if isinstance(event_id, str) else None

    def note_deliveries(self, deliveries: Iterable[Record]) -> None:
        """How deliveries stand now."""
        for delivery in deliveries:
            event, endpoint = delivery.get("event"), delivery.get("endpoint")
            if isinstance(event, str) and isinstance(endpoint, str):
                self._deliveries.setdefault(event, {})[endpoint] = delivery
        _trim(self._deliveries)

    def deliveries(self, event_id: object) -> list[Record]:
        """Where the event was sent to, as far as is known."""
        return [*self._deliveries.get(event_id, {}).values()] if isinstance(event_id, str) else []


def _trim(known: dict[str, object] | dict[str, bool] | dict[str, dict[str, Record]]) -> None:
    """Forget the oldest: a dictionary keeps the order in which its keys came."""
    while len(known) > KEPT:
        del known[next(iter(known))]
