"""Times stored in the database, so that a restart with a wrong clock neither revives nor erases anything.

`reached` is the latest ledger time that must not come again: the clock starts after it. `trusted` is the real
time as far as it is known: the machine's clock while that was trusted, plus the time that passed since
(`timekeeping`). `put_off` is by how much pending webhook retries were postponed because the ledger's time was
ahead of the real time.
"""

from __future__ import annotations

from dataclasses import dataclass

from ledger_engine.store import Unit

# Selects the id of the last event of all projects, from which the ledger's time can be read.
NEWEST_EVENT = "SELECT max((SELECT max(id) FROM events AS e WHERE e.book = b.book)) AS id FROM books AS b"


@dataclass(frozen=True, slots=True)
class KeptTime:
    """The stored times in milliseconds; `trusted` is None until a server runs for the first time."""

    reached: int
    trusted: int | None
    put_off: int


def get(unit: Unit) -> KeptTime:
    """Return the stored times."""
    row = unit.first("SELECT reached, trusted, put_off FROM kept_time WHERE id = 1")
    assert row is not None, "the table is made with its row"
    return KeptTime(row["reached"], row["trusted"], row["put_off"])


def reach(unit: Unit, past: int | None = None) -> int:
    """Store the time of this work unless `past` or a later one is stored; return the work's time."""
    past = unit.now if past is None else past
    unit.execute(
        "UPDATE kept_time SET reached = :now WHERE id = 1 AND reached < :past",
        {"now": unit.now, "past": past},
    )
    return unit.now


def trust(unit: Unit, moment: int) -> None:
    """Store the real time, as far as it is known."""
    reach(unit)
    unit.execute("UPDATE kept_time SET trusted = :moment WHERE id = 1", {"moment": moment})


def long_ago(unit: Unit, milliseconds: int) -> int:
    """Return the time that long ago, by the ledger's time or the last known real time, whichever is less.

    So a record that only a wrong clock made old is later than the returned time.
    """
    trusted = get(unit).trusted
    return (unit.now if trusted is None else min(unit.now, trusted)) - milliseconds


def put_off(unit: Unit, by: int) -> None:
    """Add to the time by which pending retries are postponed."""
    reach(unit)
    unit.execute("UPDATE kept_time SET put_off = put_off + :by WHERE id = 1", {"by": by})
