"""`ledger-engine verify`: the audit as a command, with its progress."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ledger_engine.cli import options
from ledger_engine.cli.data import checked_counts
from ledger_engine.cli.running import LedgerSource, print_json, say, with_progress
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.logs import printable
from ledger_engine.core.settings import Location

if TYPE_CHECKING:
    from ledger_engine.verify.audit import AuditReport
    from ledger_engine.verify.sealed import KeptCheckpoint

# Seconds to wait for the first checkpoint of each log; a running server normally signs it within one second.
_SEALED_WITHIN_S = 10.0
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option(
    "--checkpoint",
    "checkpoints",
    type=_FILE,
    multiple=True,
    metavar="FILE",
    help="Prove that nothing before the checkpoint in FILE was changed; may be given more than once.",
)
@click.option(
    "--since",
    type=_FILE,
    multiple=True,
    metavar="FILE",
    help="Check only what is newer than the checkpoint in FILE; may be given more than once.",
)
@click.option(
    "--save",
    type=options.FilePath(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="If no fault is found, save the checkpoint of each log to FILE, for --checkpoint or --since later.",
)
@options.ledger()
def verify(
    ledger: LedgerSource,
    checkpoints: Sequence[Path],
    since: Sequence[Path],
    save: Path | None,
) -> None:
    """Compute all results again from the transactions and events, and compare them with the stored results.

    The command prints each fault on a line, and exits with 1 if there is a fault. With --checkpoint it also
    compares the ledger with a checkpoint that you saved elsewhere. With --since it skips everything that is
    older than the checkpoint in FILE.
    """
    from ledger_engine.verify import audit, kept

    if save is not None:
        kept.require_replaceable(save)
    try:
        outside = [each for file in checkpoints for each in kept.read(file)]
        older = [each for file in since for each in kept.read(file)]
        if save is not None:
            _wait_for_seal(ledger)
        report = _audit(ledger.database, outside, older, save)
    except kept.OtherLog as error:
        raise click.UsageError(str(error)) from error
    except StorageUnavailable as error:
        if not ledger.as_json:
            raise
        report = audit.unreadable(str(error))
    if ledger.as_json:
        faults = [
            {"kind": each.kind, "object": each.object, "message": each.message} for each in report.faults
        ]
        print_json({"ok": not faults, "faults": faults, "checked": report.checked})
    elif not report.faults:
        _say_correct(report, older)
    *others, last = report.faults or (None,)
    for fault in others:
        assert fault is not None
        click.echo(f"ledger-engine: {printable(' '.join(fault.message.split()))}", err=True)
    if last is not None:
        raise click.ClickException(last.message)


def _say_correct(report: AuditReport, older: Sequence[KeptCheckpoint]) -> None:
    numbers = report.checked
    after = "; events before the given checkpoints were not read again" if older else ""
    reason = numbers.get("indexes_unchecked")
    but = "" if reason is None else f". The indexes were not checked: {reason}"
    say(f"The books are correct: {checked_counts(report)}{after}{but}.")


def _wait_for_seal(ledger: LedgerSource) -> None:
    """Wait until a running server has signed a checkpoint of each log that contains events.

    Give up after `_SEALED_WITHIN_S`, because perhaps no server is running.
    """
    from ledger_engine.verify import kept

    deadline = time.monotonic() + _SEALED_WITHIN_S
    while ledger.read(kept.waits_for_seal) and time.monotonic() < deadline:
        pause()


def pause() -> None:
    """Wait a moment for a running server to sign checkpoints."""
    time.sleep(0.1)


def _audit(
    database: Location, outside: Sequence[KeptCheckpoint], older: Sequence[KeptCheckpoint], save: Path | None
) -> AuditReport:
    """Run the audit in several threads, and show its progress on stderr.

    `outside` are the checkpoints of `--checkpoint`, and `older` are those of `--since`. If there is no fault,
    save the checkpoints of the audited snapshot to the file `save`. Later checkpoints are not saved, because
    their events were not audited.
    """
    from ledger_engine.store.engine import open_snapshot
    from ledger_engine.verify import audit, kept

    read, lock = [0], threading.Lock()

    def report(rows: int) -> None:
        with lock:
            read[0] += rows

    with open_snapshot(database, audit.READERS, report) as snapshot:
        verify = partial(audit.verify_all, snapshot.start, outside, older)
        # Show no progress in two cases: stderr is not a terminal, so only errors belong there; or --since is
        # given, so the number of rows to read is not known.
        if not sys.stderr.isatty() or older:
            result = verify()
        else:
            rows = audit.READINGS * snapshot.start(audit.count_transactions).result()
            result = with_progress(verify, lambda: ("Verifying", read[0], rows))
        result.checked["indexes_unchecked"] = snapshot.indexes_unchecked
        if save is not None and not result.faults:
            snapshot.start(partial(kept.save, file=save)).result()
        return result
