"""The audit: computes every stored result again from its sources, and compares.

All of it looks at one snapshot. What the storage finds in its files, the pass over the transactions (`scan`),
the indexes that must agree with it, and the `checks` are works of their own. They run side by side where the
database can show one snapshot to several readers, and none keeps more than some thousand rows, and the
balance of each account.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from operator import methodcaller
from typing import Any, Protocol

from ledger_engine.store import T, books
from ledger_engine.store.snapshot import AuditUnit, AuditWork
from ledger_engine.verify import checks, event_scan, scan
from ledger_engine.verify.event_scan import ScannedEvents
from ledger_engine.verify.points import Point, Proven
from ledger_engine.verify.scan import Found, Scan, Scanned

READINGS = 4  # of each transaction: in its table, two indexes, and its event
# For what runs longest: the storage's own check, the transactions, the indexes, and the checks by statements.
READERS = 4


@dataclass(frozen=True, slots=True)
class Fault:
    """A failed check: `check` is its name, `id` the row (of a table named in `message`) with the fault."""

    check: str
    id: str
    message: str


@dataclass(frozen=True, slots=True)
class Report:
    """How many records were checked, and the first fault, if there is one.

    `copy_of` says what the ledger is a copy of, None for one of its own.
    """

    projects: int
    accounts: int
    transactions: int
    invoices: int
    fault: Fault | None
    copy_of: str | None = None


class Start(Protocol):
    """What runs a work, at once or beside others, on the snapshot that all works see."""

    def __call__(self, work: AuditWork[T], /) -> Future[T]: ...


def verify(unit: AuditUnit) -> Report:
    """Run every check over all projects and both modes, one after the other."""

    def at_once(work: AuditWork[T], /) -> Future[T]:
        done: Future[T] = Future()
        done.set_result(work(unit))
        return done

    return verify_all(at_once)[0]


def verify_all(start: Start) -> tuple[Report, Point | None]:
    """Run every check; return the report, and the point that is proven unless there is a fault.

    The works report to `AuditUnit.note_read` how many rows they have read: in all READINGS for each
    transaction.
    """
    storage = start(methodcaller("inspect", thorough=False))
    if storage.done() and storage.result():  # do not read what is damaged
        return _damaged(start, storage.result()[0])
    passed = start(partial(_scan, since={}))
    prints = start(methodcaller("prints"))
    of_events = start(partial(_scan_events, since=None))
    by_sql = start(partial(checks.first_faults, since=None))
    if storage.result():
        return _damaged(start, storage.result()[0])
    found, events = passed.result(), of_events.result()
    if damage := found.damage + events.damage:
        return _damaged(start, damage[0])
    found.prints.events, found.prints.by_object = events.counted, events.by_object
    if prints.result() not in (None, found.prints):
        sentences = start(methodcaller("inspect", thorough=True)).result()
        return _damaged(start, sentences[0] if sentences else "transactions do not fit their indexes")
    orphan = _first_orphan(start, found, events, {})
    return _concluded(start, found, orphan, by_sql.result(), None)


def verify_since(start: Start, point: Point) -> tuple[Report, Point | None]:
    """Check what was posted after the point, and all that is no transaction or event.

    What was proven is not read again, and neither the file's pages nor its indexes are checked. Raises
    Conflict when the point is of another ledger.
    """
    since = start(point.by_book).result()
    transactions = {book: proven.transaction for book, proven in since.items()}
    events = {book: proven.event for book, proven in since.items()}
    passed = start(partial(_scan, since=transactions))
    of_events = start(partial(_scan_events, since=events))
    by_sql = start(partial(checks.first_faults, since=since))
    found, later = passed.result(), of_events.result()
    if damage := found.damage + later.damage:
        return _damaged(start, damage[0])
    orphan = _first_orphan(start, found, later, events)
    return _concluded(start, found, orphan, by_sql.result(), since)


def _scan(unit: AuditUnit, since: Mapping[int, str]) -> Scanned:
    """Look at the transactions after `since`, by book."""
    passed = Scan(unit, since)
    for book in scan.books_of(unit, "transactions"):
        passed.run(book)
        passed.found.damage += _of_no_book(unit, "transactions", book)
    return passed.finish()


def _scan_events(unit: AuditUnit, since: Mapping[int, str] | None) -> ScannedEvents:
    """Look at the events after `since`, by book, or at all."""
    found = ScannedEvents()
    for book in scan.books_of(unit, "events"):
        event_scan.scan(unit, book, (since or {}).get(book, ""), found)
        found.damage += _of_no_book(unit, "events", book)
    # Where the rows of a page are not in order, a search may pass over some. `prints` counts them too.
    if since is None and not unit.reads_indexes:
        (row,) = unit.execute("SELECT count(*) AS rows FROM events")
        if row["rows"] != found.counted:
            found.damage.append("events are not in order")
    return found


def _first_orphan(
    start: Start, passed: Scanned, events: ScannedEvents, since: Mapping[int, str]
) -> Found | None:
    """Return the first event of a posting without its transaction, in the first book that has one."""
    for book, listed in events.listed.items():
        if listed.ids.is_empty or listed == passed.listed[book]:
            continue
        orphan = start(partial(event_scan.first_orphan, book=book, after=since.get(book, ""))).result()
        if orphan is not None:
            return orphan
    return None


def _of_no_book(unit: AuditUnit, table: str, book: int) -> list[str]:
    if unit.first("SELECT 1 FROM books WHERE book = :book", {"book": book}) is None:
        return [f"a row of {table} refers to a missing row of books"]
    return []


def _concluded(
    start: Start,
    passed: Scanned,
    event: Found | None,
    faults: dict[str, Found],
    since: Mapping[int, Proven] | None,
) -> tuple[Report, Point | None]:
    """Compare what is stored with what the pass has computed, and return what `verify_all` does."""
    counted = dict(passed.counted)
    for book, proven in (since or {}).items():
        counted[book] = counted.get(book, 0) + proven.transactions
    stored = {
        scan.LAST: start(partial(checks.unlike_last, held=passed.held, every=since is None)),
        scan.SETTLED: start(partial(checks.unsettled, moved=passed.moved, since=since)),
        checks.COUNTERS: start(partial(checks.miscounted, counted=counted)),
    }
    faults = {**faults, **passed.faults}
    if event is not None:
        faults[scan.POSTED] = event
    faults |= {name: found for name, done in stored.items() if (found := done.result()) is not None}
    counts = _counts(start, sum(counted.values()))
    for name in checks.ORDER:
        if name in faults:
            found = faults[name]
            message = checks.MESSAGES[name].format(**{**found.values, "id": found.id})
            return Report(**counts, fault=Fault(name, found.id, message)), None
    return Report(**counts, fault=None), start(partial(Point.of, counted=counted)).result()


def count_transactions(unit: AuditUnit) -> int:
    """Return how many transactions there are."""
    return int(unit.execute("SELECT count(*) AS rows FROM transactions")[0]["rows"])


def _damaged(start: Start, sentence: str) -> tuple[Report, None]:
    fault = Fault(checks.SOUND, "", f"The database is damaged: {sentence}.")
    return Report(**_counts(start, start(count_transactions).result()), fault=fault), None


def _counts(start: Start, transactions: int) -> dict[str, Any]:
    copied = start(books.source).result()
    copy_of = None if copied is None else copied.description()
    return {**start(_count).result(), "transactions": transactions, "copy_of": copy_of}


def _count(unit: AuditUnit) -> dict[str, int]:
    tables = ("projects", "accounts", "invoices")
    return {table: unit.execute(f"SELECT count(*) AS rows FROM {table}")[0]["rows"] for table in tables}


def unreadable(reason: str) -> Report:
    """Return the report on a file that cannot be read at all."""
    return Report(0, 0, 0, 0, Fault(checks.SOUND, "", reason))
