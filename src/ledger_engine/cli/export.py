"""`ledger-engine export`: the transactions of a book for other programs."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import click

from ledger_engine.cli import options
from ledger_engine.cli.running import known_project, require
from ledger_engine.core.clock import parse_end, parse_moment
from ledger_engine.core.errors import Conflict
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant
from ledger_engine.store.files import private_file

_READERS = 2  # one reads accounts or transactions, the other the next transactions


@click.command()
@click.option(
    "--format",
    "kind",
    type=click.Choice(["hledger", "beancount", "csv", "jsonl"]),
    required=True,
    help="What the output is for.",
)
@click.option("--from", "start", metavar="TIME", help="Only what was posted at or after this date or time.")
@click.option("--to", "end", metavar="TIME", help="Only what was posted until this time, or on this date.")
@click.option(
    "--output",
    type=options.OfFile(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write to a new FILE, readable by you alone, in place of stdout.",
)
@options.mode
@options.project
@options.database
def export(
    kind: str,
    start: str | None,
    end: str | None,
    output: Path | None,
    mode: str,
    project: str | None,
    database: Location,
) -> None:
    """Write the transactions of a project in one mode, oldest first, for another program.

    A server may run meanwhile; what it posts after the start is not exported.
    """
    from ledger_engine.store.engine import open_snapshot
    from ledger_engine.tools import export as exports

    since = None if start is None else parse_moment(start, "--from")
    until = None if end is None else parse_end(end, "--to")
    if output is not None and output.exists():
        raise Conflict("not_recoverable", f"{output} exists; name another file.")
    require(database)
    with ExitStack() as stack:
        snapshot = stack.enter_context(open_snapshot(database, _READERS))
        owner = snapshot.start(partial(known_project, id=project)).result()
        tenant = Tenant(owner.id, mode == "live")
        opened = snapshot.start(partial(exports.open_accounts, tenant=tenant, start=since)).result()
        written = sys.stdout if output is None else stack.enter_context(private_file(output))
        for text in exports.export(kind, opened, snapshot.start, tenant, since, until):
            written.write(text)
