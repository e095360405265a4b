"""Moving a ledger between a SQLite file and PostgreSQL, either way: each row, compared at the end.

The move goes table by table and can be interrupted at any moment: run again it goes on after the last row
that arrived. At the end each table is read on both sides and compared, the target is audited, and only then
does it become a ledger that a server opens. Run once more after that it compares and audits both again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ledger_engine.core.errors import Conflict, StorageUnavailable
from ledger_engine.core.settings import Location, named
from ledger_engine.store.engine import open_snapshot, open_source, open_target, tables_of_ledger
from ledger_engine.store.transfer import End, LedgerThere, Source, Table, Target, fingerprint, refusal
from ledger_engine.verify import audit
from ledger_engine.verify.audit import Report

_OWN = "kept_time"


@dataclass(slots=True)
class Progress:
    """How far a move is: what it does now, and how many of `rows` it has read so far."""

    what: str = "Opening"
    rows: int = 0
    done: int = 0

    def report(self, rows: int) -> None:
        """Note that this many more rows were read."""
        self.done += rows


@dataclass(frozen=True, slots=True)
class Moved:
    """The number of rows of each table, of those how many this run has copied, and the audit's report."""

    rows: dict[str, int]
    copied: int
    report: Report


def move(source: Location, target: Location, progress: Progress) -> Moved:
    """Copy the ledger `source` to `target`, which is a new file or an empty database.

    What was moved already is compared and audited again. Raises Conflict when one of them does not allow it,
    and when the copy is not equal or not sound; StorageUnavailable when one of them cannot be used.
    """
    with open_source(source) as opened:
        try:
            return _fill(opened, source, target, progress)
        except LedgerThere:
            moved = _moved_before(opened, source, target, progress)
            if moved is None:
                raise
            return moved


def _fill(opened: Source, source: Location, target: Location, progress: Progress) -> Moved:
    """Copy what is not there yet, and complete the target. Raises LedgerThere, and as `move` does."""
    with open_target(target, opened.first_project()) as filled:
        tables = tables_of_ledger()
        rows = {table.name: opened.count(table) for table in tables}
        there = {table.name: filled.count(table) for table in tables}
        progress.rows = 3 * sum(rows.values()) + audit.READINGS * rows["transactions"]
        progress.what, progress.done = "Copying", sum(there.values())
        copied = sum(_copy(opened, filled, table, progress.report) for table in tables)
        progress.what = "Comparing"
        for table in tables:
            if _unlike(opened, filled, table, progress.report):
                # The source was changed after an earlier run had copied this table.
                if there[table.name]:
                    filled.empty(table)
                    copied += _copy(opened, filled, table, progress.report)
                if _unlike(opened, filled, table, progress.report):
                    raise refusal(
                        f"The copy of table {table.name} in {named(target)} differs from the source."
                    )
        progress.what = "Making indexes"
        filled.finish(opened.applied(), opened.reached())
        progress.what = "Verifying"
        with filled.snapshot(audit.READERS, progress.report) as snapshot:
            report = audit.verify_all(snapshot.start)
        _require_sound(source, report)
        opened.require_unchanged()
        filled.complete()
    return Moved(rows, copied, report)


def _moved_before(opened: Source, source: Location, target: Location, progress: Progress) -> Moved | None:
    """Return what earlier runs have moved, or None when the ledger at the target is not equal to the source.

    A run may have been killed after its last step, and nobody has seen that it was complete.
    """
    rows = {table.name: opened.count(table) for table in tables_of_ledger()}
    # A target keeps a time of its own, which may be later.
    compared = [table for table in tables_of_ledger() if table.name != _OWN]
    progress.rows = 2 * sum(rows.values()) + audit.READINGS * rows["transactions"]
    progress.what, progress.done = "Comparing", 0
    try:
        with open_source(target) as there:
            if any(there.count(table) != rows[table.name] for table in compared):
                return None
            if any(_unlike(opened, there, table, progress.report) for table in compared):
                return None
    except (Conflict, StorageUnavailable):
        return None
    progress.what = "Verifying"
    with open_snapshot(target, audit.READERS, progress.report) as snapshot:
        report = audit.verify_all(snapshot.start)
    _require_sound(source, report)
    opened.require_unchanged()
    return Moved(rows, 0, report)


def _require_sound(source: Location, report: Report) -> None:
    if report.fault is not None:
        raise refusal(f"{named(source)} does not verify: {report.fault.message}")


def _copy(source: Source, target: Target, table: Table, report: Callable[[int], None]) -> int:
    """Copy the rows after the last one that is there; return how many these were."""
    copied = 0
    for rows in source.rows(table, target.last(table)):
        target.write(table, rows)
        copied += len(rows)
        report(len(rows))
    return copied


def _unlike(source: Source, target: End, table: Table, report: Callable[[int], None]) -> bool:
    """Return whether the rows of a table are not the same on both sides."""
    return fingerprint(source, table, report) != fingerprint(target, table, report)
