"""Copies a ledger from a SQLite file to PostgreSQL or back: every row, with a comparison at the end.

The tables are copied one after the other. At the end each table is read on both sides and compared, and the
target is audited. Only then can other programs see the target. A copy that fails or is interrupted before
this moment leaves nothing in the target.
"""

from __future__ import annotations

from dataclasses import dataclass

from ledger_engine.core.settings import Location, named
from ledger_engine.store.copy_ends import fingerprint, refusal
from ledger_engine.store.engine import open_source, open_target, tables_of_ledger
from ledger_engine.verify import audit
from ledger_engine.verify.audit import AuditReport


@dataclass(slots=True)
class MigrationProgress:
    """The progress of a copy: `what` names the current step, and `done` of `rows` rows have been read.

    A row counts each time that a step reads it.
    """

    what: str = "Opening"
    rows: int = 0
    done: int = 0

    def report(self, rows: int) -> None:
        """Add a number of rows that were read."""
        self.done += rows


@dataclass(frozen=True, slots=True)
class MoveResult:
    """The number of rows of each table, and the audit's report."""

    rows: dict[str, int]
    report: AuditReport


def move(source: Location, target: Location, progress: MigrationProgress) -> MoveResult:
    """Copy the ledger `source` to `target`, which is a new file or an empty database.

    Raises Conflict if the source or the target does not allow the copy, if the copy differs from the source,
    or if the audit finds a fault. Raises StorageUnavailable if the source or the target cannot be used.
    """
    with open_source(source) as source_end, open_target(target) as target_end:
        tables = tables_of_ledger()
        rows = {table.name: source_end.count(table) for table in tables}
        progress.rows = 3 * sum(rows.values()) + audit.READINGS * rows["transactions"]
        progress.what = "Copying"
        for table in tables:
            for batch in source_end.rows(table):
                target_end.write(table, batch)
                progress.report(len(batch))
        progress.what = "Comparing"
        for table in tables:
            if fingerprint(source_end, table, progress.report) != fingerprint(
                target_end, table, progress.report
            ):
                raise refusal(f"The copy of table {table.name} in {named(target)} differs from the source.")
        progress.what = "Making indexes"
        target_end.finish(source_end.applied(), source_end.reached())
        progress.what = "Verifying"
        with target_end.snapshot(audit.READERS, progress.report) as snapshot:
            report = audit.verify_all(snapshot.start)
        if report.fault is not None:
            raise refusal(f"{named(source)} does not verify: {report.fault.message}")
        source_end.require_unchanged()
    return MoveResult(rows, report)
