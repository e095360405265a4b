"""`ledger-engine seed`, `backup`, `restore` and `recover`: commands on a whole ledger."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ledger_engine.cli import options
from ledger_engine.cli.running import in_words, print_json, project_or_first, say
from ledger_engine.core.logs import printable
from ledger_engine.core.settings import Location, make_folder, named
from ledger_engine.store import T

if TYPE_CHECKING:
    from ledger_engine.tools.seed.loading import Progress
    from ledger_engine.verify.audit import Report

_NO_LOG = "`recover` is for SQLite files. PostgreSQL recovers by itself when it starts."
_PROGRESS_S = 0.05  # seconds between two updates of a load's progress bar


@click.command()
@click.argument("file")
@options.project
@options.database
@options.as_json
def seed(file: str, project: str | None, database: Location, as_json: bool) -> None:
    """Load the data set FILE.

    FILE is the name of an included one, or a JSON file. It is loaded into test mode, with a history that ends
    yesterday. When there is a mistake, nothing is loaded. A load that was interrupted continues when the
    command is run again.
    """
    from ledger_engine.tools.seed import reading
    from ledger_engine.tools.seed.entries import BadDataSet
    from ledger_engine.tools.seed.loading import Progress, steps_of
    from ledger_engine.tools.seed.reading import read as read_data_set
    from ledger_engine.tools.seed.turns import load_data_set

    progress = Progress()
    try:
        data_set = read_data_set(reading.path(file))
        steps = steps_of(data_set)

        make_folder(database)
        find = partial(project_or_first, id=project)
        is_new = isinstance(database, Path) and not database.exists()
        loading = load_data_set(database, find, data_set, steps, progress, is_new=is_new)
        owner, loaded = asyncio.run(_show(loading, progress, 2 * len(steps), data_set.name))
    except BadDataSet as error:
        raise click.ClickException(str(error)) from error
    except FileNotFoundError as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        print_json({"data_set": data_set.name, "project": owner, **loaded})
    else:
        counts = ", ".join(in_words(count, kind) for kind, count in loaded.items() if count)
        say(f"{data_set.title}: {counts}, in {owner}")


async def _show(work: Coroutine[Any, Any, T], progress: Progress, steps: int, name: str) -> T:
    """Await the work and show its progress on stderr."""
    loading = asyncio.create_task(work)
    # Without a terminal, stderr is left to the one line of an error.
    with click.progressbar(
        length=steps, label=f"Loading {printable(name)}", file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as bar:
        while not loading.done():
            await asyncio.wait({loading}, timeout=_PROGRESS_S)
            bar.update(progress.done - bar.pos)
    return await loading


@click.command()
@click.argument("dest", type=options.OfFile(path_type=Path))
@click.option("--overwrite", is_flag=True, help="Replace DEST if it exists.")
@options.database
@options.as_json
def backup(dest: Path, overwrite: bool, database: Location, as_json: bool) -> None:
    """Copy the ledger as it is now to DEST, and check the copy.

    A server may run meanwhile, and is not slowed down. On PostgreSQL the copy is made by pg_dump.
    """
    from ledger_engine.upkeep import backups, dumps

    if isinstance(database, Path):
        report = backups.back_up(database, dest, overwrite=overwrite)
    else:
        report = dumps.back_up(database, dest, overwrite=overwrite)
    _print_copied(dest, report, as_json, {"file": str(dest)})


@click.command()
@click.argument("src", type=options.OfFile(dir_okay=False, path_type=Path))
@options.database
@options.as_json
def restore(src: Path, database: Location, as_json: bool) -> None:
    """Replace the database with the backup SRC.

    It is checked first, and the former file is kept. No server may run meanwhile. A PostgreSQL database must
    be empty, and is filled by pg_restore.
    """
    from ledger_engine.core.clock import SystemClock
    from ledger_engine.upkeep import backups, dumps

    if isinstance(database, str):
        report = dumps.restore(src, database)
        _print_copied(named(database), report, as_json, {"file": named(database), "kept": None})
        return
    make_folder(database)
    restored = backups.restore(src, database, SystemClock().now())
    kept = None if restored.aside is None else str(restored.aside)
    _print_copied(database, restored.report, as_json, {"file": str(database), "kept": kept})
    if kept is not None and not as_json:
        say(f"The former database is kept as {kept}.")


@click.command()
@click.argument("dest", type=options.OfFile(path_type=Path))
@options.database
@options.as_json
def recover(dest: Path, database: Location, as_json: bool) -> None:
    """Write what the log of a lost database contains to DEST.

    For a ledger that is refused because its file is missing, empty or another one. The log and the file are
    not changed; DEST is checked, and `restore DEST` puts it in place.
    """
    from ledger_engine.upkeep import backups

    recovered = backups.recover(options.file_of(database, _NO_LOG), dest)
    more = {"file": str(dest), "doubt": recovered.doubt, "damaged_frames": recovered.damaged}
    _print_copied(dest, recovered.report, as_json, more)
    if as_json:
        return
    if recovered.doubt is not None:
        say(
            f"The log was not written for the file it was applied to ({recovered.doubt}). The books"
            " are correct, but keys, names and other texts may be out of date: check them."
        )
    if recovered.damaged:
        say(f"The last {in_words(recovered.damaged, 'frames')} of the log cannot be read and are left out.")


def _print_copied(file: Path | str, report: Report, as_json: bool, more: dict[str, Any]) -> None:
    if as_json:
        print_json({**more, **report.checked})
    else:
        say(f"{file}: {counts(report)}, checked.")


def counts(report: Report) -> str:
    """Return how many records were checked, in words."""
    counted = {
        "accounts": report.accounts,
        "transactions": report.transactions,
        "invoices": report.invoices,
    }
    return ", ".join(in_words(count, kind) for kind, count in counted.items())
