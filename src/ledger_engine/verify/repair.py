"""What a ledger has left of events that it lost, as by a failover of an earlier version, and its repair.

Nothing of the books is changed.
"""

from __future__ import annotations

from dataclasses import dataclass

from ledger_engine.core.ids import first_at
from ledger_engine.store import Unit

_OF_LOST = """
SELECT d.id FROM deliveries AS d
    LEFT JOIN books AS b ON b.project = d.project AND b.livemode = d.livemode
    LEFT JOIN events AS e ON e.book = b.book AND e.id = d.event
WHERE e.id IS NULL"""
_NEWEST = """coalesce((SELECT max(e.id) FROM events AS e JOIN books AS b ON b.book = e.book
    WHERE b.project = w.project AND b.livemode = w.livemode), :none)"""
_AHEAD = f"SELECT w.id FROM webhook_endpoints AS w WHERE w.cursor > {_NEWEST}"
_NONE = {"none": first_at("evt", 0)}


@dataclass(frozen=True, slots=True)
class Leftovers:
    """How many deliveries are of lost events, and how many endpoints wait for what follows a lost event."""

    deliveries: int
    endpoints: int


def find(unit: Unit) -> Leftovers:
    """Return how much there is to repair."""
    return Leftovers(len(unit.execute(_OF_LOST)), len(unit.execute(_AHEAD, _NONE)))


def repair(unit: Unit) -> Leftovers:
    """Remove the deliveries with their attempts, and set the endpoints to the last event that there is."""
    found = find(unit)
    unit.execute(f"DELETE FROM delivery_attempts WHERE delivery IN ({_OF_LOST})")
    unit.execute(f"DELETE FROM deliveries WHERE id IN ({_OF_LOST})")
    unit.execute(f"UPDATE webhook_endpoints AS w SET cursor = {_NEWEST} WHERE w.id IN ({_AHEAD})", _NONE)
    return found
