"""The audit: computes every value that follows from other data again, and compares it with the stored value.

The whole audit reads one snapshot of the database, and has three parts:

- The database checks its own files.
- A pass over each book (a project's test or live mode) reads the transactions and events.
- SQL statements check the other tables.

The parts run in parallel if several readers can share the snapshot. Each part holds at most some thousand
rows in memory. The pass also holds the balances of recently read accounts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from ledger_engine.log import stored
from ledger_engine.log.entries import LoggedBook
from ledger_engine.log.stored import StoredLog
from ledger_engine.log.tree import Edge
from ledger_engine.store import T
from ledger_engine.store.read_snapshot import AuditUnit, AuditWork
from ledger_engine.verify import checks, sealed, state
from ledger_engine.verify.book import BookPass, PassStart, books_of, start_after
from ledger_engine.verify.faults import Discrepancies, Discrepancy
from ledger_engine.verify.kept import Checkpoints, by_book
from ledger_engine.verify.sealed import EntryAudit, KeptCheckpoint

READINGS = 2  # each transaction is read twice: in its table, and in its event
READERS = 3  # one for each part of the audit


@dataclass(frozen=True, slots=True)
class AuditReport:
    """How many objects of each kind were checked, and the faults."""

    checked: dict[str, Any]
    faults: tuple[Discrepancy, ...]

    @property
    def transactions(self) -> int:
        return int(self.checked.get("transactions", 0))

    @property
    def accounts(self) -> int:
        return int(self.checked.get("accounts", 0))

    @property
    def invoices(self) -> int:
        return int(self.checked.get("invoices", 0))

    @property
    def fault(self) -> Discrepancy | None:
        """Return the first fault; None if there is none."""
        return self.faults[0] if self.faults else None


class Starter(Protocol):
    """Runs a part of the audit, at once or in parallel with other parts. All parts read the same snapshot."""

    def __call__(self, work: AuditWork[T], /) -> Future[T]: ...


def verify(unit: AuditUnit) -> AuditReport:
    """Run all checks one after the other, for all projects and both modes."""

    def at_once(work: AuditWork[T], /) -> Future[T]:
        future: Future[T] = Future()
        future.set_result(work(unit))
        return future

    return verify_all(at_once)


def verify_all(start: Starter, checkpoints: Checkpoints = (), since: Checkpoints = ()) -> AuditReport:
    """Run all checks, and compare the ledger with `checkpoints` that were kept outside the ledger.

    With `since`, also compare the ledger with the checkpoints in `since`. In this case four things are not
    checked: the transactions and events up to the checkpoints in `since`, the counters, the definitions of
    the tables, and the database's files. The audit reports to `AuditUnit.note_read` how many rows it has
    read; each transaction counts as READINGS rows. Raises OtherLog for a checkpoint of another ledger.
    """
    outside = start(partial(by_book, checkpoints=checkpoints)).result()
    by_books = start(partial(by_book, checkpoints=since)).result()
    parts = [
        start(partial(_pass_all, checkpoints=outside, since=by_books)),
        start(partial(_check_by_statements, since=by_books)),
    ]
    if not since:
        parts.insert(0, start(_check_storage))
    faults, counts_checked = Discrepancies(), Counter[str]()
    for part in parts:
        part_faults, counts = part.result()
        for fault in part_faults.all():
            faults.add(fault.kind, fault.object, fault.message)
        counts_checked.update(counts)
    return AuditReport(dict(counts_checked), faults.all())


def _check_storage(unit: AuditUnit) -> tuple[Discrepancies, dict[str, int]]:
    """Let the database check its files, and compare its tables with the definitions in the program."""
    faults = Discrepancies()

    def tables() -> None:
        for name, sentence in unit.schema_differences():
            faults.add("schema", name, f"somebody has changed the tables: {sentence}.")

    def files() -> None:
        for sentence in unit.inspect():
            faults.add("damage", "", f"The database is damaged: {sentence}.")

    with_care(unit, faults, tables)
    with_care(unit, faults, files)
    return faults, {}


def _pass_all(
    unit: AuditUnit,
    checkpoints: Mapping[LoggedBook, Sequence[KeptCheckpoint]],
    since: Mapping[LoggedBook, Sequence[KeptCheckpoint]],
) -> tuple[Discrepancies, dict[str, int]]:
    """Check each book's transactions and events, and the log and counters that are computed from them."""
    faults, counts = Discrepancies(), Counter[str]()
    transactions: dict[int, int] = {}
    books: list[LoggedBook] = []
    with_care(unit, faults, lambda: books.extend(books_of(unit)))
    for book in books:

        def look(book: LoggedBook = book) -> None:
            start, edge, log = PassStart(), Edge(), sealed.log_of(unit, book)
            point = _newest(since.get(book, ()))
            if point and (last := stored.event_at(unit, log, point.checkpoint.size)):
                start = start_after(unit, book.number, last)
                edge = stored.edge(unit, StoredLog(book, point.checkpoint.size, last, None))
            outside = (*checkpoints.get(book, ()), *since.get(book, ()))
            entries = EntryAudit(unit, log, edge, outside, faults)
            book_pass = BookPass(unit, book, start, entries, faults)
            try:
                book_pass.run()
            finally:
                transactions[book.number] = book_pass.transactions
                counts.update(transactions=book_pass.transactions, events=book_pass.events)
            counts.update(sealed=log.size, unsealed=entries.size - log.size, checkpoints=len(outside))

        with_care(unit, faults, look)
    if not since:
        with_care(unit, faults, lambda: checks.check_counters(unit, transactions, faults))
    return faults, counts


def _check_by_statements(
    unit: AuditUnit, since: Mapping[LoggedBook, Sequence[KeptCheckpoint]]
) -> tuple[Discrepancies, dict[str, int]]:
    """Run the checks that are one SQL statement each, and compare objects with their events."""
    faults, counts = Discrepancies(), Counter[str]()
    transactions: dict[LoggedBook, str] = {}

    def begin() -> None:
        for book in books_of(unit):
            point = _newest(since.get(book, ()))
            last = stored.event_at(unit, sealed.log_of(unit, book), point.checkpoint.size) if point else ""
            transactions[book] = start_after(unit, book.number, last).transaction if last else ""

    if since:
        with_care(unit, faults, begin)
    for check in checks.CHECKS:
        with_care(unit, faults, partial(checks.run, unit, check, transactions if since else None, faults))
    for other in (checks.check_originals, checks.check_time, checks.check_logs, sealed.check_key):
        with_care(unit, faults, partial(other, unit, faults))
    for kind in state.KINDS:
        with_care(unit, faults, partial(state.check_objects, unit, kind, counts, faults))
    with_care(unit, faults, lambda: counts.update(projects=_projects(unit)))
    return faults, counts


def _newest(points: Sequence[KeptCheckpoint]) -> KeptCheckpoint | None:
    return max(points, key=lambda each: each.checkpoint.size, default=None)


def with_care(unit: AuditUnit, faults: Discrepancies, check: Callable[[], object]) -> None:
    """Run a check. If unreadable data makes it fail, note a fault so that the other checks can still run."""
    try:
        check()
    except Exception as error:  # a changed file may contain anything, and so cause any error
        if isinstance(error, MemoryError) or not unit.is_damage(error):
            raise
        faults.add("damage", "", f"The database is damaged: {str(error) or type(error).__name__}.")


def _projects(unit: AuditUnit) -> int:
    return int(unit.execute("SELECT count(*) AS rows FROM projects")[0]["rows"])


def count_transactions(unit: AuditUnit) -> int:
    """Return the number of transactions."""
    return int(unit.execute("SELECT count(*) AS rows FROM transactions")[0]["rows"])


def unreadable(reason: str) -> AuditReport:
    """Return a report on a file that cannot be read at all; its one fault has the message `reason`."""
    return AuditReport({}, (Discrepancy("damage", "", reason),))
