"""`ledger-engine verify`: the audit as a command, with its progress."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import wait
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ledger_engine.cli import options
from ledger_engine.cli.data import counts
from ledger_engine.cli.running import in_thread, print_json, read, say, write
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.settings import Location

if TYPE_CHECKING:
    from ledger_engine.verify.audit import Report
    from ledger_engine.verify.points import Point

_PROGRESS_S = 0.1  # seconds between two updates of the progress bar


@click.command()
@click.option(
    "--since",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Check only what is newer than the point saved in FILE.",
)
@click.option(
    "--save",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Save to FILE the point up to which the ledger was verified, for --since.",
)
@click.option("--repair", is_flag=True, help="First remove what is left of lost events, after asking.")
@click.option("--yes", is_flag=True, help="Repair without asking.")
@options.database
@options.as_json
def verify(
    since: Path | None, save: Path | None, repair: bool, yes: bool, database: Location, as_json: bool
) -> None:
    """Compute every balance from the transactions again, and compare.

    Checks every other stored result as well. Exits with 1 and names the first wrong row, if there is one.
    With --since the transactions up to a proven point are not read again. With --repair the deliveries of
    events that a failover has lost are removed first; nothing of the books is changed.
    """
    from ledger_engine.verify import audit, points

    if save is not None:
        points.require_replaceable(save)
    point = None if since is None else points.read(since)
    if repair:
        _repair(database, ask=not yes)
    try:
        report, proven, unchecked = _audit(database, point)
    except StorageUnavailable as error:
        if not as_json:
            raise
        report, proven, unchecked = audit.unreadable(str(error)), None, None
    if save is not None and proven is not None:
        points.save(proven, save)
    if as_json:
        more: dict[str, Any] = {"indexes_unchecked": unchecked}
        if point is not None:
            more["since"] = point.at
        print_json({"ok": report.fault is None, **asdict(report), **more})
    elif report.fault is None:
        after = "" if point is None else f"; those up to {point.at} were verified before"
        but = "" if unchecked is None else f". The indexes were not checked: {unchecked}"
        say(f"The books are correct: {counts(report)}{after}{but}.")
        if report.copy_of is not None:
            say(f"This ledger is {report.copy_of}.")
    if report.fault is not None:
        raise click.ClickException(report.fault.message)


def _repair(database: Location, *, ask: bool) -> None:
    """Remove what is left of lost events, and say what that is; with `ask` only when somebody agrees."""
    from ledger_engine.verify import repair

    found = read(database, repair.find)
    if not found.deliveries and not found.endpoints:
        say("There is nothing to repair.", err=True)
        return
    say(
        f"Deliveries of events that do not exist, to be removed: {found.deliveries:,}. Webhook endpoints"
        f" to be set to the last event that exists: {found.endpoints:,}.",
        err=True,
    )
    if ask:
        click.confirm("Repair?", abort=True, err=True)
    write(database, repair.repair)
    say("Repaired.", err=True)


def _audit(database: Location, point: Point | None) -> tuple[Report, Point | None, str | None]:
    """Run the audit in several threads and show its progress on stderr.

    Return the report, the point that is proven, and why the indexes cannot be checked if they cannot.
    """
    from ledger_engine.store.engine import open_snapshot
    from ledger_engine.verify import audit

    read, lock = [0], threading.Lock()

    def report(rows: int) -> None:
        with lock:
            read[0] += rows

    with open_snapshot(database, audit.READERS, report) as snapshot:
        unchecked = snapshot.indexes_unchecked
        if point is not None:
            return *audit.verify_since(snapshot.start, point), unchecked
        if not sys.stderr.isatty():  # it is left to the one line of an error
            return *audit.verify_all(snapshot.start), unchecked
        rows = audit.READINGS * snapshot.start(audit.count_transactions).result()
        done = in_thread(partial(audit.verify_all, snapshot.start))
        with click.progressbar(length=max(1, rows), label="Verifying", file=sys.stderr) as bar:
            while not wait((done,), timeout=_PROGRESS_S).done:
                bar.update(min(read[0], rows - 1) - bar.pos)
            bar.update(max(1, rows) - bar.pos)
        return *done.result(), unchecked
