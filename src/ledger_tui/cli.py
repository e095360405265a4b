"""The command line of the dashboard."""

from __future__ import annotations

import os
import sys
from urllib.parse import urlsplit

import click

KEY_VARIABLE = "LEDGER_API_KEY"


def _version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"ledger-tui {version('ledger-engine')}")
        context.exit()


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--demo", is_flag=True, help="Look at demo data with live traffic, in a throw-away database.")
@click.option(
    "--url", metavar="U", help="Look at this server instead of an own one, e.g. http://127.0.0.1:8700."
)
@click.option("--key", metavar="K", help=f"The API key for --url. Better in the variable {KEY_VARIABLE}.")
@click.option("--database", metavar="F", help="The SQLite file of the own server (default: the user's).")
@click.option("--read-only", is_flag=True, help="Look, and change nothing.")
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Say the version."
)
def command(url: str | None, key: str | None, database: str | None, demo: bool, read_only: bool) -> None:
    """A dashboard for a ledger server, in the terminal.

    Without --url it runs a server of its own on the default database.
    """
    if url is not None:
        if demo or database:
            raise click.UsageError("--url is another server; --demo and --database are for an own one.")
        _check_address(url)
        key = key or os.environ.get(KEY_VARIABLE)
        if not key:
            raise click.UsageError(f"{url} needs a key: put it in {KEY_VARIABLE}, or give --key.")
        _check_key(key)
    elif key is not None:
        raise click.UsageError("--key goes with --url.")
    elif demo and database:
        raise click.UsageError("--demo has a database of its own; leave out --database.")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.ClickException("ledger-tui draws on a terminal, and this is none.")
    sys.exit(_run(url, key, database, demo, read_only))


def _check_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
    except ValueError:
        sound = False
    if not sound or not url.isprintable() or " " in url:
        raise click.UsageError(f"{url!r} is no address like http://127.0.0.1:8700.")


def _check_key(key: str) -> None:
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise click.UsageError("The key has characters that no key has.")


def _run(url: str | None, key: str | None, database: str | None, demo: bool, read_only: bool) -> int:
    # Imported here: --help, --version and a wrong option answer without loading the dashboard.
    from ledger_tui.app import LedgerApp, Options

    app = LedgerApp(Options(url, key, database, demo, read_only))
    app.run()
    if app.failure:
        click.echo(f"Error: {app.failure}", err=True)
    return app.return_code or 0


def main() -> None:
    """The entry point: exit code 0, 1 (it did not work) or 2 (it was called wrongly), one line on stderr."""
    try:
        command.main(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(1)
    except click.ClickException as error:
        click.echo(f"Error: {error.format_message()}", err=True)
        sys.exit(error.exit_code)
