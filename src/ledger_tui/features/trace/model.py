"""A trace: the requests that concern one object, what each changed, the events, and their deliveries. Pure.

`features/trace/reading.py` reads one, `features/trace/nodes.py` draws it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ledger_tui.client.records import Record
from ledger_tui.client.totals import moment

# What never differs, or says nothing of a change.
_NOT_COMPARED = frozenset({"id", "object", "livemode", "created"})
_DEPTH_MAX = 4


@dataclass(frozen=True)
class Step:
    """One request, or a command, with the events it caused, oldest first.

    `before` is the object of an event as it was before, for the events where the ledger knows it.
    `deliveries` are those of each event that was asked for. The sentences say why a part is not there.
    """

    request_id: str | None
    request: Record | None = None
    no_request: str = ""
    events: tuple[Record, ...] = ()
    more_events: int = 0
    no_events: str = ""
    before: Mapping[str, Record] = field(default_factory=dict)
    deliveries: Mapping[str, tuple[Record, ...]] = field(default_factory=dict)
    no_deliveries: str = ""


@dataclass(frozen=True)
class Trace:
    """The trace of `record`, an object of `kind`; `requests` is how many requests it took to read."""

    kind: str
    record: Record
    steps: tuple[Step, ...] = ()
    more_steps: int = 0
    endpoints: Mapping[str, Record] = field(default_factory=dict)
    problem: str = ""
    requests: int = 0
    complete: bool = False

    @property
    def record_id(self) -> str:
        return str(self.record.get("id", ""))

    def deliveries(self) -> Iterator[Record]:
        """Yield every delivery that is known."""
        for step in self.steps:
            for deliveries in step.deliveries.values():
                yield from deliveries

    def settled(self, now: float) -> bool:
        """Return whether nothing here is expected to change after `now`, in Unix time by the ledger's clock.

        An event has no deliveries at first, and never any if no endpoint wants it: they may still come while
        it is young.
        """
        waits = any(delivery.get("status") == "pending" for delivery in self.deliveries())
        to_come = any(
            step.deliveries.get(str(event.get("id"))) == ()  # asked for, and none there
            and now - (moment(event.get("created")) or 0.0) < _DELIVERIES_WITHIN_SECONDS
            for step in self.steps
            for event in step.events
        )
        return not (waits or to_come or any(step.no_request == NOT_LOGGED for step in self.steps))


_DELIVERIES_WITHIN_SECONDS = 30.0
NOT_LOGGED = "not in the request log (yet)"


class Change(NamedTuple):
    """One field that differs; None where it is absent or null."""

    name: str
    before: Any
    after: Any


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Return the fields that differ, in the order of `after`, those of an inner object by a dotted name."""
    old, new = dict(_fields(before)), dict(_fields(after))
    names = [*new, *(name for name in old if name not in new)]
    return [
        Change(name, old.get(name), new.get(name))
        for name in names
        if old.get(name) != new.get(name) and name not in _NOT_COMPARED
    ]


def _fields(record: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if isinstance(value, dict) and depth < _DEPTH_MAX:
            yield from _fields(value, f"{prefix}{name}.", depth + 1)
        else:
            yield f"{prefix}{name}", value


def balance_before(transaction: Mapping[str, Any]) -> int | None:
    """Return the balance of a transaction's account before it, None where the record does not say."""
    after, amount, kind = (transaction.get(name) for name in ("balance_after", "amount", "type"))
    if not isinstance(after, int) or not isinstance(amount, int) or kind not in ("credit", "debit"):
        return None
    return after - amount if kind == "credit" else after + amount


def later(seconds: float) -> str:
    """Return `+12 ms`, `+5.1 s`, `+5 min`, `+2.0 h` or `+3 d`, in at most 8 cells."""
    if seconds < 0:
        return "−" + later(-seconds)[1:]
    if seconds < 0.9995:
        return f"+{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"+{seconds:.1f} s"
    if seconds < 3570:
        return f"+{seconds / 60:.0f} min"
    if seconds < 35.95 * 3600:
        return f"+{seconds / 3600:.1f} h"
    return f"+{seconds / 86400:.0f} d"
