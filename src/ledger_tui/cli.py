"""The command line of the dashboard."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

import click

from ledger_tui.profile_commands import is_key, keys, profiles

if TYPE_CHECKING:
    from ledger_tui.app import LedgerApp
    from ledger_tui.options import Options

KEY_VARIABLE = "LEDGER_API_KEY"
_COLLECT_AFTER_OBJECTS = 50_000


def _version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"ledger-tui {version('ledger-engine')}")
        context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, invoke_without_command=True)
@click.option("--demo", is_flag=True, help="Look at demo data with live traffic, in a throw-away database.")
@click.option(
    "--url", metavar="U", help="Look at this server instead of an own one, e.g. http://127.0.0.1:8700."
)
@click.option("--key", metavar="K", help=f"The API key for --url. Better in the variable {KEY_VARIABLE}.")
@click.option("--profile", metavar="P", help="Look at the server of this profile (see `profiles`).")
@click.option("--database", metavar="F", help="The SQLite file of the own server (default: the user's).")
@click.option("--read-only", is_flag=True, help="Look, and change nothing.")
@click.option("--web", is_flag=True, help="Show it in a browser on this machine; prints a link good once.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="The port for --web; without it, or with 0, a free one is taken.",
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Say the version."
)
@click.pass_context
def command(
    context: click.Context,
    url: str | None,
    key: str | None,
    profile: str | None,
    database: str | None,
    demo: bool,
    read_only: bool,
    web: bool,
    port: int | None,
) -> None:
    """A dashboard for a ledger server, in the terminal.

    Without --url or --profile it runs a server of its own on the default database.
    """
    if context.invoked_subcommand is not None:
        return
    if url is not None or profile is not None:
        if demo or database:
            given = "--url" if url is not None else "--profile"
            raise click.UsageError(f"{given} is another server; --demo and --database are for an own one.")
    elif demo and database:
        raise click.UsageError("--demo has a database of its own; leave out --database.")
    if key is not None and url is None:
        own = "" if profile is None else " A profile has a key of its own."
        raise click.UsageError(f"--key goes with --url.{own}")
    if port is not None and not web:
        raise click.UsageError("--port goes with --web.")
    options = _options(url, key, profile, database, demo, read_only)
    sys.exit(_serve(options, port or 0) if web else _draw(options))


command.add_command(profiles)
command.add_command(keys)


def _options(
    url: str | None, key: str | None, profile: str | None, database: str | None, demo: bool, read_only: bool
) -> Options:
    """What was chosen, checked. Raises UsageError: the config file is part of the call."""
    from ledger_tui.config import BadConfig, config_file, is_address, read_config
    from ledger_tui.options import Options

    if url is not None and profile is not None:
        raise click.UsageError("Give --url or --profile, not both.")
    if url is not None and not is_address(url):
        raise click.UsageError(f"{url!r} is no address like http://127.0.0.1:8700.")
    if url is not None:  # the variable is for this server, and a profile's may be another
        key = key or os.environ.get(KEY_VARIABLE)
        if not key:
            raise click.UsageError(f"{url} needs a key: put it in {KEY_VARIABLE}, or give --key.")
    if key is not None and not is_key(key):
        raise click.UsageError("The key has characters that no key has.")
    file = config_file()
    try:
        config = read_config(file)
    except BadConfig as error:
        raise click.UsageError(str(error)) from None
    if profile is not None and profile not in config.profiles:
        known = ", ".join(config.profiles) or "none; `ledger-tui profiles add` makes one"
        raise click.UsageError(f"{file}: there is no profile {profile!r}. There is {known}.")
    chosen = config.profiles[profile] if profile is not None else None
    return Options(url, key, database, demo, read_only, chosen, config, str(file))


def _draw(options: Options) -> int:
    # textual-serve's dashboards draw on its pipe; else Textual reads stdin and draws on stderr.
    on_a_terminal = all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
    if "TEXTUAL_DRIVER" not in os.environ and not on_a_terminal:
        raise click.UsageError("ledger-tui draws on a terminal: stdin, stdout and stderr must all be one.")
    _collect_rarely()
    # Twice Textual's pace: a key that comes right after a frame waits half as long for the next.
    os.environ.setdefault("TEXTUAL_FPS", "120")
    # Imported here: --help, --version and a wrong option answer without loading the dashboard.
    import asyncio

    from ledger_tui.app import LedgerApp
    from ledger_tui.config import BadConfig

    try:
        app = LedgerApp(options)
    except BadConfig as error:
        raise click.UsageError(str(error)) from None
    gc.freeze()
    gc.enable()
    asyncio.run(_run(app))
    if app.failure:
        click.echo(f"Error: {app.failure}", err=True)
    return app.return_code or 0


async def _run(app: LedgerApp) -> None:
    """Until it is left. SIGTERM ends it as a quit does, so that the terminal is put back as it was."""
    import asyncio
    import signal

    if sys.platform != "win32":
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, app.exit)
    await app.run_async()


def _collect_rarely() -> None:
    # A full collection walks every row and widget, in the middle of a frame; what is drawn makes hardly
    # any cycles. Until the dashboard is loaded there is nothing to collect at all.
    gc.disable()
    gc.set_threshold(_COLLECT_AFTER_OBJECTS, 20, 50)


def _serve(options: Options, port: int) -> int:
    from ledger_tui.web import CannotServe, serve

    try:
        serve(options, port, lambda link: click.echo(f"Open {link}\nIt is good once. Ctrl-C ends."))
    except CannotServe as error:
        raise click.ClickException(str(error)) from None
    return 0


def main() -> None:
    """The entry point: exit code 0, 1 (it did not work) or 2 (it was called wrongly), one line on stderr."""
    try:
        command.main(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(1)
    except click.ClickException as error:
        click.echo(f"Error: {error.format_message()}", err=True)
        sys.exit(error.exit_code)
