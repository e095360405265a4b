"""`ledger-engine seed`, `verify`, `backup` and `restore`: the whole of a ledger at once."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Coroutine
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ledger_engine.cli import options
from ledger_engine.cli.running import print_json, project_or_first, say, using
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.printable import printable
from ledger_engine.core.settings import make_folder
from ledger_engine.database import T, Unit, Work
from ledger_engine.database.engine import Engine

if TYPE_CHECKING:
    from ledger_engine.seeding.loading import Progress
    from ledger_engine.upkeep.audit import Report

_PROGRESS_S = 0.05  # between two looks at how far a load has come


@click.command()
@click.argument("file")
@options.project
@options.database
@options.as_json
def seed(file: str, project: str | None, database: Path, as_json: bool) -> None:
    """Load the data set FILE.

    FILE is the name of one that comes with the program, or a JSON file. All of it is loaded in one
    commit, into the test mode, with a history that ends yesterday.
    """
    from ledger_engine.seeding import seed_files
    from ledger_engine.seeding.fields import BadDataSet
    from ledger_engine.seeding.loading import Progress, load
    from ledger_engine.seeding.reading import read as read_data_set
    from ledger_engine.seeding.steps import steps_of

    progress = Progress()
    try:
        data_set = read_data_set(seed_files.path(file))
        steps = steps_of(data_set)

        def work(unit: Unit) -> tuple[str, dict[str, int]]:
            owner = project_or_first(unit, project)
            return owner.id, load(unit, owner, data_set, steps, progress)

        if not database.exists():
            _rehearse(work)

        async def shown(engine: Engine) -> tuple[str, dict[str, int]]:
            return await _show(engine.write(work), progress, len(steps), data_set.name)

        owner, loaded = asyncio.run(using(database, shown))
    except BadDataSet as error:
        raise click.ClickException(str(error)) from error
    except FileNotFoundError as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        print_json({"data_set": data_set.name, "project": owner, **loaded})
    else:
        counts = ", ".join(_count(count, kind) for kind, count in loaded.items() if count)
        say(f"{data_set.title}: {counts}, in {owner}")


def _rehearse(work: Work[Any]) -> None:
    """Do it in a database of its own first: what cannot be loaded must not leave an empty ledger behind."""
    with tempfile.TemporaryDirectory(prefix="ledger-seed-") as folder:  # 0700
        asyncio.run(using(Path(folder, "rehearsal.db"), lambda engine: engine.write(work)))


async def _show(work: Coroutine[Any, Any, T], progress: Progress, steps: int, name: str) -> T:
    """Await the work and show on stderr how far it has come."""
    loading = asyncio.create_task(work)
    # Where nobody watches, stderr is for the one line of an error.
    with click.progressbar(
        length=steps, label=f"Loading {printable(name)}", file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as bar:
        while not loading.done():
            await asyncio.wait({loading}, timeout=_PROGRESS_S)
            bar.update(progress.done - bar.pos)
    return await loading


@click.command()
@options.database
@options.as_json
def verify(database: Path, as_json: bool) -> None:
    """Work out every balance again from its postings.

    And whatever else the ledger keeps as a result. Exits with 1 and tells the first bad row if there is one.
    """
    from ledger_engine.database.backup import look
    from ledger_engine.upkeep import audit

    try:
        report = look(database, audit.verify)
    except StorageUnavailable as error:
        if not as_json:
            raise
        report = audit.unreadable(error.message)
    if as_json:
        print_json({"ok": report.fault is None, **asdict(report)})
    elif report.fault is None:
        say(f"The books are right: {_counts(report)}.")
    if report.fault is not None:
        raise click.ClickException(report.fault.message)


@click.command()
@click.argument("dest", type=click.Path(path_type=Path))
@click.option("--overwrite", is_flag=True, help="Replace DEST if it is there.")
@options.database
@options.as_json
def backup(dest: Path, overwrite: bool, database: Path, as_json: bool) -> None:
    """Copy the ledger as it is now to DEST, and check the copy.

    A server may run meanwhile, and is not slowed down.
    """
    from ledger_engine.upkeep import backups

    report = backups.back_up(database, dest, overwrite=overwrite)
    _tell_copied(dest, report, as_json, {"file": str(dest)})


@click.command()
@click.argument("src", type=click.Path(path_type=Path))
@options.database
@options.as_json
def restore(src: Path, database: Path, as_json: bool) -> None:
    """Put the backup SRC in the place of the database.

    It is checked first, and the former file is kept. No server may run meanwhile.
    """
    from ledger_engine.core.clock import SystemClock
    from ledger_engine.upkeep import backups

    make_folder(database)
    restored = backups.restore(src, database, SystemClock().now())
    kept = None if restored.aside is None else str(restored.aside)
    _tell_copied(database, restored.report, as_json, {"file": str(database), "kept": kept})
    if kept is not None and not as_json:
        say(f"The former database is kept as {kept}.")


def _tell_copied(file: Path, report: Report, as_json: bool, more: dict[str, str | None]) -> None:
    if as_json:
        print_json({**more, **asdict(report)})
    else:
        say(f"{file}: {_counts(report)}, checked.")


def _counts(report: Report) -> str:
    counts = {
        "accounts": report.accounts,
        "transactions": report.transactions,
        "invoices": report.invoices,
    }
    return ", ".join(_count(count, kind) for kind, count in counts.items())


def _count(count: int, kind: str) -> str:
    return f"{count:,} {kind if count != 1 else kind.removesuffix('s')}"
