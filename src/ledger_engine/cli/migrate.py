"""`ledger-engine migrate`: a whole ledger from a SQLite file into PostgreSQL, or back, with its progress."""

from __future__ import annotations

import sys
from concurrent.futures import wait
from pathlib import Path

import click

from ledger_engine.cli import options
from ledger_engine.cli.data import counts
from ledger_engine.cli.running import in_thread, print_json, say
from ledger_engine.core.settings import Location, named

_PROGRESS_S = 0.1  # seconds between two updates of the progress bar


@click.command()
@click.argument("source", type=options.OfLedger(dir_okay=False, path_type=Path))
@click.argument("target", type=options.OfLedger(dir_okay=False, path_type=Path))
@options.as_json
def migrate(source: Location, target: Location, as_json: bool) -> None:
    """Copy the ledger SOURCE to TARGET: one is a SQLite file, the other postgresql://….

    TARGET is a new file or an empty database. The copy is exact, and compared and verified at the end. No
    server may run meanwhile. A copy that was interrupted goes on when the command is run again; one that is
    complete is compared and verified again.
    """
    if isinstance(source, str) == isinstance(target, str):
        raise click.UsageError(
            "One of SOURCE and TARGET must be a SQLite file and the other postgresql://…."
            " To copy between two databases of the same kind use `backup` and `restore`."
        )
    from ledger_engine.migrate import Progress, move

    progress = Progress()
    done = in_thread(lambda: move(source, target, progress))
    # Without a terminal, stderr is left to the one line of an error.
    with click.progressbar(length=1, label="Opening", file=sys.stderr, hidden=not sys.stderr.isatty()) as bar:
        while not wait((done,), timeout=_PROGRESS_S).done:
            bar.label, bar.length = progress.what, max(1, progress.rows)
            bar.update(min(progress.done, max(1, progress.rows) - 1) - bar.pos)
        bar.update(max(1, progress.rows) - bar.pos)
    moved = done.result()
    if as_json:
        print_json(
            {
                "source": named(source),
                "target": named(target),
                "tables": moved.rows,
                "rows": sum(moved.rows.values()),
                "copied": moved.copied,
                **moved.report.checked,
            }
        )
    else:
        done_before = "" if moved.copied else "; nothing had to be copied"
        say(
            f"{named(target)}: {counts(moved.report)}, {sum(moved.rows.values()):,} rows in all,"
            f" equal to {named(source)} and verified{done_before}."
        )
