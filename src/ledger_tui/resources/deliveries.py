"""The state of a webhook's deliveries, and the filters by this state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain

from ledger_tui.client.records import Record, attempts_of
from ledger_tui.resources.base import Filter, FilterContext, Tone
from ledger_tui.resources.filtering import choice, http_status

LOOKS: Mapping[str, tuple[str, Tone]] = {
    "pending": ("◔", "accent"),
    "succeeded": ("✓", "plus"),
    "failed": ("✕", "bad"),
}


def has_failed(delivery: Record) -> bool:
    """Return whether a delivery, or its last attempt, has failed."""
    attempts = attempts_of(delivery)
    return delivery.get("status") == "failed" or bool(attempts and attempts[-1].get("error") is not None)


# Words on the screen that mean a status.
_OTHER_WORDS = {"delivered": "succeeded", "arrived": "succeeded"}


def filters_of(deliveries: Callable[[Record], Iterable[Record]]) -> tuple[Filter, ...]:
    """Return the filters by the state of deliveries. `deliveries` returns a record's deliveries.

    The server has no such filters, so the dashboard applies them.
    """

    def has_failure(record: Record, value: str, _context: FilterContext) -> bool:
        return any(map(has_failed, deliveries(record))) == (value == "yes")

    def has_status(record: Record, value: str, _context: FilterContext) -> bool:
        return any(each.get("status") == value for each in deliveries(record))

    def attempts(record: Record) -> Iterator[Record]:
        return chain.from_iterable(map(attempts_of, deliveries(record)))

    return (
        choice("failed", ("yes", "no"), "yes", matches=has_failure),
        replace(choice("status", [*LOOKS], "pending", matches=has_status), words=_OTHER_WORDS),
        http_status("answer", "503", attempts),
    )
