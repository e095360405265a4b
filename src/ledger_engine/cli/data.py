"""`ledger-engine seed`, `backup`, `restore`, `recover`, `export` and `migrate`: whole ledgers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ledger_engine.cli import options
from ledger_engine.cli.running import (
    LedgerSource,
    in_words,
    print_json,
    require_database,
    say,
    with_progress,
)
from ledger_engine.core.errors import Conflict
from ledger_engine.core.logs import printable
from ledger_engine.core.settings import Location, make_folder, named
from ledger_engine.store import T
from ledger_engine.store.files import private_file

if TYPE_CHECKING:
    from ledger_engine.tools.seed.loading import LoadingProgress
    from ledger_engine.verify.audit import AuditReport

_ON_POSTGRES = (
    "`backup`, `restore` and `recover` are for SQLite files; use pg_dump and pg_restore for PostgreSQL, and"
    " run `ledger-engine verify` on the restored database."
)
_PROGRESS_S = 0.05  # seconds between two updates of the progress bar


@click.command()
@click.argument("file")
@options.ledger(options.project)
def seed(ledger: LedgerSource, file: str) -> None:
    """Load the data set FILE.

    FILE is the name of an included data set, or a JSON file. It is loaded into test mode, and its history
    ends yesterday. If FILE contains a mistake, or the load is interrupted, nothing is loaded.
    """
    from ledger_engine.tools.seed import reading
    from ledger_engine.tools.seed.loading import LoadingProgress, load
    from ledger_engine.tools.seed.reading import BadDataSet

    progress = LoadingProgress()
    try:
        data_set = reading.read(reading.path(file))
        make_folder(ledger.database)
        loading = load(ledger.database, ledger.project, data_set, progress)
        result = asyncio.run(_await_with_progress(loading, progress, data_set.name))
    except (BadDataSet, FileNotFoundError) as error:
        raise click.ClickException(str(error)) from error
    counts_in_words = ", ".join(in_words(count, kind) for kind, count in result.counts.items() if count)
    value = {"data_set": data_set.name, "project": result.project, **result.counts}
    ledger.print_one(value, f"{data_set.title}: {counts_in_words}, in {result.project}")


async def _await_with_progress(work: Coroutine[Any, Any, T], progress: LoadingProgress, name: str) -> T:
    """Await the work and return its result; meanwhile show its progress on stderr."""
    loading = asyncio.create_task(work)
    # If stderr is not a terminal, only errors are printed there.
    with click.progressbar(
        length=1, label=f"Loading {printable(name)}", file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as bar:
        while not loading.done():
            await asyncio.wait({loading}, timeout=_PROGRESS_S)
            bar.length = max(1, progress.steps)
            bar.update(progress.done - bar.pos)
    return await loading


@click.command()
@click.argument("dest", type=options.FilePath(path_type=Path))
@click.option("--overwrite", is_flag=True, help="Replace DEST if it exists.")
@options.ledger()
def backup(ledger: LedgerSource, dest: Path, overwrite: bool) -> None:
    """Copy the ledger as it is now to DEST, and check the copy.

    A server may run at the same time; the copy does not slow it down. Copy a ledger on PostgreSQL with
    PostgreSQL's pg_dump.
    """
    from ledger_engine.upkeep import backups

    report = backups.back_up(options.file_of(ledger.database, _ON_POSTGRES), dest, overwrite=overwrite)
    _print_copy(ledger, dest, report, {"file": str(dest)})


@click.command()
@click.argument("src", type=options.FilePath(dir_okay=False, path_type=Path))
@options.ledger()
def restore(ledger: LedgerSource, src: Path) -> None:
    """Replace the database with the backup SRC.

    The command checks SRC first, and keeps the former file. No server may run at the same time. Restore a
    ledger on PostgreSQL with PostgreSQL's pg_restore.
    """
    from ledger_engine.core.clock import SystemClock
    from ledger_engine.upkeep import backups

    database = options.file_of(ledger.database, _ON_POSTGRES)
    make_folder(database)
    result = backups.restore(src, database, SystemClock().now())
    aside = None if result.aside is None else str(result.aside)
    _print_copy(ledger, database, result.report, {"file": str(database), "kept": aside})
    if aside is not None and not ledger.as_json:
        say(f"The former database is kept as {aside}.")


@click.command()
@click.argument("dest", type=options.FilePath(path_type=Path))
@options.ledger()
def recover(ledger: LedgerSource, dest: Path) -> None:
    """Rebuild a lost database in the new file DEST, from its write-ahead log.

    Use this if a server refuses the ledger because its file is missing, empty or not a ledger. The command
    changes neither the log nor the file. It checks DEST. To use DEST as the ledger, run `restore DEST`.
    """
    from ledger_engine.upkeep import backups

    result = backups.recover(options.file_of(ledger.database, _ON_POSTGRES), dest)
    more = {"file": str(dest), "doubt": result.doubt, "damaged_frames": result.damaged}
    _print_copy(ledger, dest, result.report, more)
    if ledger.as_json:
        return
    if result.doubt is not None:
        say(
            f"The log may belong to another file than {ledger.database} ({result.doubt}). The books in {dest}"
            " are correct, but keys, names and other texts may be out of date: check them."
        )
    if result.damaged:
        say(f"The last {in_words(result.damaged, 'frames')} of the log cannot be read and are left out.")


def _print_copy(ledger: LedgerSource, file: Path, report: AuditReport, more: dict[str, Any]) -> None:
    ledger.print_one({**more, **report.checked}, f"{file}: {checked_counts(report)}, checked.")


def checked_counts(report: AuditReport) -> str:
    """Return in words how many records were checked, such as `2 accounts, 5 transactions, 1 invoice`."""
    counts = {
        "accounts": report.accounts,
        "transactions": report.transactions,
        "invoices": report.invoices,
    }
    return ", ".join(in_words(count, kind) for kind, count in counts.items())


# Copies for other programs and from other servers

_READERS = 2  # threads that read; meanwhile the main thread writes the transactions that were read before


@click.command()
@click.option(
    "--format",
    "kind",
    type=click.Choice(["hledger", "beancount", "csv", "jsonl"]),
    required=True,
    help="The format: a journal of hledger or beancount, CSV, or JSON Lines.",
)
@click.option(
    "--from",
    "since",
    metavar="TIME",
    type=options.MOMENT,
    help="Export only transactions posted at or after this date or time.",
)
@click.option(
    "--to",
    "until",
    metavar="TIME",
    type=options.END,
    help="Export only transactions posted at or before this time, or until the end of this date.",
)
@click.option(
    "--output",
    type=options.FilePath(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write to a new FILE instead of stdout; only you can read FILE.",
)
@options.ledger(options.project, options.mode, with_json=False)
def export(
    ledger: LedgerSource, kind: str, since: int | None, until: int | None, output: Path | None
) -> None:
    """Write the transactions of a project in one mode, oldest first, for another program.

    A server may run at the same time. Transactions that are posted after the export begins are left out.
    """
    from ledger_engine.store.engine import open_snapshot
    from ledger_engine.tools import export as exports

    if output is not None and output.exists():
        raise Conflict("not_recoverable", f"{output} exists; name another file.")
    require_database(ledger.database)
    with ExitStack() as stack:
        snapshot = stack.enter_context(open_snapshot(ledger.database, _READERS))
        tenant = snapshot.start(ledger.tenant).result()
        book = snapshot.start(partial(exports.open_book, tenant=tenant, start=since)).result()
        output_file = sys.stdout if output is None else stack.enter_context(private_file(output))
        for text in exports.export(kind, book, snapshot.start, tenant, since, until):
            output_file.write(text)
        if other := snapshot.start(
            partial(exports.mode_with_more, tenant=tenant, since=since, until=until)
        ).result():
            say(f"Nothing was exported; with --mode {other} there are transactions.", err=True)


@click.command()
@click.argument("source", type=options.LedgerPlace(dir_okay=False, path_type=Path))
@click.argument("target", type=options.LedgerPlace(dir_okay=False, path_type=Path))
@options.as_json
def migrate(source: Location, target: Location, as_json: bool) -> None:
    """Copy the ledger SOURCE to TARGET: one is a SQLite file, the other postgresql://….

    TARGET is a new file or an empty database. At the end the command compares TARGET with SOURCE and verifies
    TARGET, so the copy is exact. No server may run at the same time. If the command is interrupted, TARGET
    stays empty.
    """
    if isinstance(source, str) == isinstance(target, str):
        raise click.UsageError(
            "One of SOURCE and TARGET must be a SQLite file and the other postgresql://…."
            " Use `backup` to copy a SQLite file, and pg_dump to copy a PostgreSQL database."
        )
    from ledger_engine.migrate import MigrationProgress, move

    progress = MigrationProgress()
    result = with_progress(
        lambda: move(source, target, progress), lambda: (progress.what, progress.done, progress.rows)
    )
    if as_json:
        print_json(
            {
                "source": named(source),
                "target": named(target),
                "tables": result.rows,
                "rows": sum(result.rows.values()),
                **result.report.checked,
            }
        )
    else:
        say(
            f"{named(target)}: {checked_counts(result.report)}, {sum(result.rows.values()):,} rows in all,"
            f" equal to {named(source)} and verified."
        )
