"""The pass over all events, and the search for one of a posting without its transaction."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from ledger_engine.store import Value
from ledger_engine.store.index_hashes import entry
from ledger_engine.store.snapshot import AuditUnit
from ledger_engine.verify.scan import OF_OTHERS, OF_PART, Found, Postings, parts

# The object and the time only of events of postings, which have no body.
_COLUMNS = ("id", "CASE WHEN body IS NULL THEN object END", "CASE WHEN body IS NULL THEN created END")
_WITH_BODY = f"SELECT id, object FROM events {OF_PART} AND body IS NOT NULL"
_ORPHANED = """
SELECT e.id, e.object FROM events AS e LEFT JOIN transactions AS t ON t.book = e.book AND t.id = e.object
WHERE e.book = :book AND e.id > :after AND e.id <= :last
    AND e.body IS NULL AND (t.id IS NULL OR t.created <> e.created)"""


@dataclass(slots=True)
class ScannedEvents:
    """What the pass over all events has found.

    `listed` has, for each book, the transactions that its events of postings are about, `by_object` the
    fingerprint of the other events (`Prints`). `damage` says what no ledger contains.
    """

    listed: dict[int, Postings] = field(default_factory=lambda: defaultdict(Postings))
    counted: int = 0
    by_object: int = 0
    damage: list[str] = field(default_factory=list)


def scan(unit: AuditUnit, book: int, after: str, found: ScannedEvents) -> None:
    """Look at the events of a book after the id `after`, and add them to what is found."""
    columns = _COLUMNS + ((OF_OTHERS,) if unit.reads_indexes else ())
    for bounds, ids, (_, objects, times, *of_others) in parts(unit, "events", columns, book, after):
        if ids != sorted(ids):
            found.damage.append(f"the events from {ids[0]} to {ids[-1]} are not in order")
        if any(of_others):
            found.damage.append(f"an event between {ids[0]} and {ids[-1]} is of another book")
        found.listed[book].ids.add(objects)
        found.listed[book].times.add(times)
        of_postings = objects.count(",") + 1 if objects else 0
        if unit.reads_indexes and of_postings < len(ids):
            rows = unit.execute(_WITH_BODY, bounds)
            found.by_object += sum(entry(row["object"], book, row["id"]) for row in rows)
        unit.note_read(len(ids))
        found.counted += len(ids)


def first_orphan(unit: AuditUnit, book: int, after: str) -> Found | None:
    """Return the first event of a posting, after the id `after`, without a transaction of the same time.

    For a book whose events are not `listed` as its transactions are. They need not be: those of an older
    version have bodies.
    """
    for bounds, _ids, (_, objects, times) in parts(unit, "events", _COLUMNS, book, after):
        if not _agree(unit, book, objects, times):
            row = unit.first(f"{_ORPHANED} ORDER BY e.id LIMIT 1", bounds)
            if row is not None:
                return Found(row["id"], {"kind": "event", "object": row["object"]})
    return None


def _agree(unit: AuditUnit, book: int, objects: str, times: str) -> bool:
    """Return whether the events of postings in a part have as many transactions in a row.

    They have when the events are in the order of the transactions, as the ledger writes them.
    """
    if not objects:
        return True
    first, last = objects.partition(",")[0], objects.rpartition(",")[2]
    part: dict[str, Value] = {"book": book, "first": first, "last": last}
    end = unit.first(
        "SELECT id FROM transactions NOT INDEXED WHERE book = :book AND id >= :first"
        " ORDER BY id LIMIT 1 OFFSET :rows",
        {**part, "rows": objects.count(",")},
    )
    if end is None or end["id"] != last:
        return False
    source = "transactions NOT INDEXED WHERE book = :book AND id >= :first AND id <= :last"
    return unit.columns(("id", "created"), source, part) == [objects, times]
