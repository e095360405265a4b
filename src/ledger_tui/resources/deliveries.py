"""The state of a webhook's deliveries, and the filters by this state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ledger_tui.client.records import Record
from ledger_tui.resources.base import Filter, FilterContext, Tone, records_of
from ledger_tui.resources.filtering import choice

LOOKS: Mapping[str, tuple[str, Tone]] = {
    "pending": ("◔", "accent"),
    "succeeded": ("✓", "plus"),
    "failed": ("✕", "bad"),
}


def attempts_of(delivery: Record) -> list[Record]:
    """Return the attempts of a delivery so far, oldest first."""
    return records_of(delivery.get("attempts"))


def has_failed(delivery: Record) -> bool:
    """Return whether a delivery, or its last attempt, has failed."""
    attempts = attempts_of(delivery)
    return delivery.get("status") == "failed" or bool(attempts and attempts[-1].get("error") is not None)


def failed_filter(deliveries: Callable[[Record], Iterable[Record]]) -> Filter:
    """Return the filter for records with a failed delivery. `deliveries` returns a record's deliveries."""

    def matches(record: Record, value: str, _context: FilterContext) -> bool:
        return any(map(has_failed, deliveries(record))) == (value == "yes")

    return choice("failed", ("yes", "no"), "yes", matches=matches)
