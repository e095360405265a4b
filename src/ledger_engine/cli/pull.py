"""`ledger-engine pull`: a read-only copy of what another server shows, with its progress."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ledger_engine.cli import options
from ledger_engine.cli.running import in_words, print_json, say, using
from ledger_engine.core.logs import printable
from ledger_engine.core.settings import Location, named
from ledger_engine.core.tenant import mode_name

if TYPE_CHECKING:
    from ledger_engine.tools.pull.pull import Pulled


@click.command()
@options.of_server("An API key of the server. It is only used to read.")
@click.option(
    "--writable",
    is_flag=True,
    help="Make the copy an independent ledger. It can then be changed, but not updated by pull.",
)
@click.option(
    "--database",
    type=options.OfLedger(dir_okay=False, path_type=Path),
    required=True,
    help="A SQLite file with nothing but the copy, or postgresql://….",
)
@options.as_json
def pull(url: str, key: str, writable: bool, database: Location, as_json: bool) -> None:
    """Copy what the server at URL shows into a database of its own, or bring what is new.

    Ids, times and balances are the same. A pull that was interrupted goes on when the command is run again.
    """
    pulled = asyncio.run(_pull(url, key, writable, database))
    new = {kind: count for kind, count in pulled.applied.new.items() if count}
    for id, reason in sorted(pulled.applied.left_out.items()):
        say(f"Left out: {id}: {reason}", err=True)
    if as_json:
        print_json(
            {
                "source": url,
                "project": pulled.project,
                "mode": mode_name(pulled.livemode),
                "new": new,
                "left_out": sorted(pulled.applied.left_out),
                "not_shown": pulled.not_shown,
            }
        )
        return
    counted = ", ".join(in_words(count, kind) for kind, count in new.items()) or "nothing"
    say(f"{named(database)}: {counted} new from {url}, in {mode_name(pulled.livemode)} mode")
    if pulled.not_shown:
        say(f"The server does not show {', '.join(pulled.not_shown)} with this key.")


async def _pull(url: str, key: str, writable: bool, database: Location) -> Pulled:
    # Imported here: httpx takes longer to load than most commands to run.
    from ledger_engine.tools.pull.pull import identify, pull, release
    from ledger_engine.tools.pull.remote import Remote

    async with Remote(url, key) as remote:
        origin = await identify(remote, key)  # before there is a file
        # Without a terminal, stderr is left to the one line of an error. How much there is cannot be known.
        with click.progressbar(
            _endless(), label="Pulling", file=sys.stderr, show_pos=True, hidden=not sys.stderr.isatty()
        ) as bar:

            def report(what: str, records: int) -> None:
                bar.label = printable(what)
                bar.update(records)

            pulled = await using(database, lambda engine: pull(remote, engine, origin, report), in_copy=True)
        if writable:
            await using(database, lambda engine: release(engine, origin), in_copy=True)
    return pulled


def _endless() -> Iterator[int]:
    """Return an iterator of unknown length, for a bar that shows how far it is without an end."""
    yield from ()
