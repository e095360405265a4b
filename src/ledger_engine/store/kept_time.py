"""Times stored in the database.

`reached` is the latest ledger time that was used; after a restart the clock continues after this time.
`served` is the last time at which a server ran, by the clock of the server's machine; the audit reads it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ledger_engine.store import Unit

# Selects the newest event id of all projects; the id contains the time of the event.
NEWEST_EVENT = "SELECT max((SELECT max(id) FROM events AS e WHERE e.book = b.book)) AS id FROM books AS b"


@dataclass(frozen=True, slots=True)
class KeptTime:
    """The stored times in milliseconds; `served` is None until a server runs for the first time."""

    reached: int
    served: int | None


def get(unit: Unit) -> KeptTime:
    """Return the stored times."""
    row = unit.first("SELECT reached, served FROM kept_time WHERE id = 1")
    assert row is not None, "the migration that creates the table also inserts its row"
    return KeptTime(row["reached"], row["served"])


def reach(unit: Unit, past: int | None = None) -> int:
    """Store the time of this work as `reached`, and return this time.

    If the stored `reached` is already this time or later, nothing is stored. A caller passes `past`, an
    earlier time, if the clock of a restarted server need only continue after `past`. With `past`, nothing is
    stored if the stored `reached` is already `past` or later.
    """
    past = unit.now if past is None else past
    unit.execute(
        "UPDATE kept_time SET reached = :now WHERE id = 1 AND reached < :past",
        {"now": unit.now, "past": past},
    )
    return unit.now


def note_served(unit: Unit, machine: int) -> None:
    """Store that a server is running now; `machine` is the time of the machine's clock."""
    reach(unit)
    unit.execute("UPDATE kept_time SET served = :machine WHERE id = 1", {"machine": machine})
