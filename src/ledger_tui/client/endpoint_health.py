"""How the newest deliveries of each webhook endpoint went. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ledger_tui.client.records import Record

Mark = Literal["sent", "late", "waiting", "retrying", "failed"]


@dataclass(frozen=True, slots=True)
class EndpointHealth:
    """An endpoint and its newest deliveries, oldest first; `last_error` is that of the last attempt."""

    endpoint: Record
    marks: Sequence[Mark]
    last_error: str | None

    def count(self, *marks: Mark) -> int:
        """Return how many deliveries have one of these marks."""
        return sum(mark in marks for mark in self.marks)

    @property
    def success(self) -> float | None:
        """Return the share of deliveries that arrived among those attempted; None when none was."""
        attempted = len(self.marks) - self.count("waiting")
        return self.count("sent", "late") / attempted if attempted else None


def health_of(endpoints: Iterable[Record], deliveries: Sequence[Record]) -> list[EndpointHealth]:
    """Return the health of each endpoint; `deliveries` are those of all of them, newest first."""
    found = []
    for endpoint in endpoints:
        its = [each for each in deliveries if each.get("endpoint") == endpoint.get("id")]
        error = next((error for each in its if (error := _last_error(each)) is not None), None)
        found.append(EndpointHealth(endpoint, [_mark(each) for each in reversed(its)], error))
    return found


def _attempts(delivery: Record) -> list[Record]:
    attempts = delivery.get("attempts")
    return [each for each in attempts if isinstance(each, dict)] if isinstance(attempts, list) else []


def _mark(delivery: Record) -> Mark:
    attempts = len(_attempts(delivery))
    match delivery.get("status"):
        case "succeeded":
            return "late" if attempts > 1 else "sent"
        case "failed":
            return "failed"
        case _:
            return "retrying" if attempts else "waiting"


def _last_error(delivery: Record) -> str | None:
    attempts = _attempts(delivery)
    error = attempts[-1].get("error") if attempts else None
    return None if error is None else str(error)
