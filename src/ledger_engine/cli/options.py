"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

from ledger_engine.core.settings import default_database
from ledger_engine.database.pages import LIMIT_DEFAULT, LIMIT_MAX

database = click.option(
    "--database",
    envvar="LEDGER_DATABASE",
    type=click.Path(dir_okay=False, path_type=Path),
    default=default_database,
    show_default="ledger.db in your data directory",
    help="The SQLite file; LEDGER_DATABASE names it too.",
)
project = click.option(
    "--project", metavar="ID", help="The project; the database's first one when this is left out."
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for a program to read.")
limit = click.option(
    "--limit",
    type=click.IntRange(1, LIMIT_MAX),
    default=LIMIT_DEFAULT,
    show_default=True,
    metavar="N",
    help="How many, the newest first.",
)
mode = click.option(
    "--mode",
    type=click.Choice(["test", "live"]),
    default="test",
    show_default=True,
    help="Whose data: that of the test or of the live mode.",
)
