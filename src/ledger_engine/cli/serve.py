"""`ledger-engine serve`: start the server."""

from __future__ import annotations

import difflib
import gc
import re
import tomllib
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ledger_engine.cli import announcing, options
from ledger_engine.core.logs import FORMATS, LEVELS
from ledger_engine.core.settings import (
    DEMO_WEBHOOK_RETRIES_S,
    PORT,
    WEBHOOK_RETRIES_S,
    BadSettings,
    Location,
    ServeSettings,
    is_url,
)

# Options can be set in three ways: on the command line, by environment variables and in a TOML file. The
# command line has priority over the environment, and the environment over the file. For example, the variable
# for `--auth-rate-limit` is LEDGER_AUTH_RATE_LIMIT; its line in the file is `auth-rate-limit = "20/5"`.


# Under this key the `meta` of click's context stores a dict. The keys of the dict are the names of the
# parameters that the file sets. The values of the dict are the places in the file, such as `FILE, line 3`.
_LINES = "ledger_engine.lines_of_file"


class TrueOrFalse(click.types.BoolParamType):
    """The value of a flag that is set by an environment variable: true or false."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return whether the flag is set."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{str(value)!r} must be true or false.", param, ctx)


# The sections of `serve --help`, and the options in each section by the names of their parameters.
_GROUPS = {
    "Listening": ("host", "port", "certfile", "keyfile", "insecure", "trusted_proxies", "issuer"),
    "Ledger": ("database", "seed", "demo", "accept_loss"),
    "Keys and limits": ("api_key", "auth_rate_limit", "cors_origins"),
    "Webhooks": ("webhook_retries_s",),
    "Backups": ("backup_to", "backup_every_s", "backup_keep"),
    "Log, metrics and proof": (
        *("log_level", "log_format", "metrics"),
        *("checkpoint_to", "witnesses", "witness_keys"),
    ),
    "Tests": ("test_helpers",),
}


class ConfigurableCommand(click.Command):
    """A command whose options can be set on the command line, by environment variables and in a file.

    Hidden options and `--config` are not allowed in the file. The error for a bad value names the variable
    that set the value, or the file and the line.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        for option in self.params:
            if isinstance(option, click.Option) and not option.hidden and option.envvar is None:
                option.envvar = f"LEDGER_{line_name(option).replace('-', '_').upper()}"
                if option.is_flag:
                    option.type = TrueOrFalse()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of each group in `_GROUPS`, and the remaining options at the end."""
        lines = {param.name: param.get_help_record(ctx) for param in self.get_params(ctx)}
        for title, names in _GROUPS.items():
            group = [line for name in names if (line := lines.pop(name, None)) is not None]
            if group:
                with formatter.section(title):
                    formatter.write_dl(group)
        others = [line for line in lines.values() if line is not None]
        with formatter.section("Other"):
            formatter.write_dl(others)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read all options. Raises UsageError, with the place where a bad value was set."""
        try:
            return super().parse_args(ctx, args)
        except click.BadParameter as error:
            if isinstance(error.param, click.Option):
                error.param_hint = _place(ctx, error.param)
            raise


def line_name(option: click.Option) -> str:
    """Return the name of an option in the file: `auth-rate-limit` for `--auth-rate-limit`."""
    return max(option.opts, key=len).removeprefix("--")


def read_file(ctx: click.Context, param: click.Parameter, file: Path | None) -> None:
    """Use the options in the file as defaults: the command line and the environment have priority.

    This is the callback of `--config`. The file may set every option of `serve`; another command ignores the
    options that it does not take. Raises UsageError, with the file and the line.
    """
    if file is None:
        return
    try:
        text = file.read_text(encoding="utf-8")
        file_values = tomllib.loads(text)
    except OSError as error:
        raise click.UsageError(f"{file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise click.UsageError(f"{file} is not UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise click.UsageError(f"{file} is not TOML: {error}.") from None
    names = {
        line_name(option): option
        for option in serve.params
        if isinstance(option, click.Option) and not option.hidden and option.name != param.name
    }
    values, lines = {}, {}
    for name, value in file_values.items():
        place = f"{file}, line {_line_of(name, text)}"
        if name not in names:
            near = difflib.get_close_matches(name.replace("_", "-"), names, n=1)
            hint = f"; is {near[0]} meant?" if near else ""
            raise click.UsageError(f"{place}: {name} is not an option of serve{hint}")
        option = names[name]
        key = str(option.name)
        values[key], lines[key] = _value_of(option, value, file, place), place
    ctx.default_map = values
    ctx.meta[_LINES] = lines


def _value_of(option: click.Option, value: Any, file: Path, place: str) -> Any:
    """Return a value from the file, converted for the option. Raises UsageError for a wrong type."""
    many = value if option.multiple and isinstance(value, list) else [value]
    if option.multiple:
        kind, is_right = "texts in quotes", all(isinstance(each, str) for each in many)
    elif option.is_flag:
        kind, is_right = "true or false", isinstance(value, bool)
    elif isinstance(option.type, click.IntRange):
        kind, is_right = "a number without quotes", isinstance(value, int) and not isinstance(value, bool)
    else:
        kind, is_right = "a text in quotes", isinstance(value, str)
    if not is_right:
        raise click.UsageError(f"{place}: {line_name(option)} must be {kind}")
    if isinstance(option.type, click.Path):
        many = [_from_folder(file.parent, path, option.type) for path in many]
    return many if option.multiple else many[0]


def _from_folder(folder: Path, path: str, type: click.Path) -> str:
    """Return a path from the config file; a relative path starts at the config file's folder.

    The address of a database is returned unchanged.
    """
    is_address = isinstance(type, options.LedgerPlace) and is_url(path)
    return path if is_address else str(folder / path)


def _line_of(name: str, text: str) -> int:
    """Return the number of the line that sets `name`; 1 if it is not found."""
    match = re.search(rf"(?m)^[ \t]*\[*[ \t]*[\"']?{re.escape(name)}\b", text)
    return 1 if match is None else text.count("\n", 0, match.start()) + 1


def _place(ctx: click.Context, option: click.Option) -> str:
    """Return where the value of an option was set: a variable, a line of the file, or the command line."""
    source = ctx.get_parameter_source(str(option.name))
    if source is ParameterSource.ENVIRONMENT:
        return str(option.envvar)
    if source is ParameterSource.DEFAULT_MAP:
        return f"{line_name(option)} ({ctx.meta[_LINES][option.name]})"
    return f"'{max(option.opts, key=len)}'"


# The command


WAITS_MAX = 50
WAIT_MAX_S = 30 * 86_400
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def _number(text: str) -> int:
    """Return the number in a text of at most 18 digits; -1 for any other text."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else -1


def _rate(text: str) -> tuple[int, int]:
    """Return how many requests a rate such as `20/5` allows in a minute, and in one second."""
    minute, _, second = text.partition("/")
    if _number(minute) < 1 or _number(second) < 1:
        raise ValueError(f"{text!r} must be like 20/5: requests a minute and in one second.")
    return int(minute), int(second)


def _waits(text: str) -> tuple[float, ...]:
    """Return the seconds to wait before each further attempt, from a text such as `5,300,1800`."""
    try:
        waits = tuple(float(wait) for wait in text.split(","))
    except ValueError:
        waits = ()
    if not 1 <= len(waits) <= WAITS_MAX or not all(0 <= wait <= WAIT_MAX_S for wait in waits):
        raise ValueError(f"{text!r} must be like 5,300,1800: seconds, each at most 30 days.")
    return waits


def _period(text: str) -> float:
    """Return the seconds in a time such as `90s`, `30m`, `1h` or `1d`."""
    unit = _UNITS_S.get(text[-1:], 0)
    seconds = unit * int(text[:-1]) if text[:-1].isascii() and text[:-1].isdecimal() else 0
    if not 1 <= seconds <= WAIT_MAX_S:
        raise ValueError(f"{text!r} must be like 90s, 30m, 1h or 1d, and at most 30 days.")
    return float(seconds)


def _address(text: str) -> tuple[str, int]:
    """Return the host and port in an address such as `[::1]:9464`; a port alone means 127.0.0.1."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not 0 <= _number(port) < 65536:
        raise ValueError(f"{text!r} must be like 127.0.0.1:9464 or 9464.")
    return host, int(port)


config = click.option(
    "--config",
    envvar="LEDGER_CONFIG",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    is_eager=True,
    expose_value=False,
    callback=read_file,
    help="A TOML file with a line for each option of `serve`, such as port = 8700.",
)
backup_to = click.option(
    "--backup-to",
    envvar="LEDGER_BACKUP_TO",
    type=options.FilePath(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="The folder of the server's verified backups.",
)


@click.command(cls=ConfigurableCommand)
@config
@options.database
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=options.Number(0, 65535),
    default=PORT,
    show_default=True,
    help="The port to listen on; 0 takes a free port.",
)
@click.option(
    "--certfile",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The TLS certificate, a PEM file.",
)
@click.option(
    "--keyfile", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="The certificate's key."
)
@click.option("--insecure", is_flag=True, help="Allow other machines to connect without TLS.")
@click.option(
    "--trusted-proxies",
    type=options.Number(0, 100),
    default=0,
    show_default=True,
    metavar="N",
    help="How many proxies in front of the server append to X-Forwarded-For.",
)
@click.option(
    "--issuer",
    metavar="URL",
    help="The address at which apps reach this server, like https://ledger.example. OAuth needs this option"
    " if the address contains a host name.",
)
@click.option(
    "--auth-rate-limit",
    type=options.ParsedText("N/N", _rate),
    default="20/5",
    show_default=True,
    help="Requests a minute and in one second to the authentication endpoints, per client address.",
)
@click.option(
    "--webhook-retries",
    "webhook_retries_s",
    type=options.ParsedText("S,S,…", _waits),
    default=",".join(f"{wait:g}" for wait in WEBHOOK_RETRIES_S),
    show_default=True,
    help="Seconds to wait before each further attempt to send a webhook.",
)
@click.option(
    "--cors-origin",
    "cors_origins",
    multiple=True,
    metavar="ORIGIN",
    help="A web page's origin, like https://app.example, that may read answers; may be given more than once.",
)
@click.option(
    "--metrics",
    type=options.ParsedText("[ADDRESS:]PORT", _address),
    help="Serve metrics for Prometheus at this address; a port alone means 127.0.0.1.",
)
@click.option(
    "--log-format",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="How the log on stderr is written.",
)
@click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    default="warning",
    show_default=True,
    help="The lowest level to log; info has a line for each request.",
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Use a PostgreSQL database that lacks acknowledged changes, which a failover may have lost.",
)
@click.option(
    "--api-key",
    envvar="LEDGER_API_KEY_TEST",
    metavar="KEY",
    help="A test key for the first project: sk_test_ and 32 letters or digits.",
)
@backup_to
@click.option(
    "--backup-every",
    "backup_every_s",
    type=options.ParsedText("TIME", _period),
    default="1h",
    show_default=True,
    help="The time from one backup to the next, like 30m or 1d.",
)
@click.option(
    "--backup-keep",
    type=options.Number(1),
    default=24,
    show_default=True,
    metavar="N",
    help="How many backups to keep.",
)
@click.option(
    "--seed",
    metavar="FILE",
    help="Load this data set if the ledger is empty: a JSON file, or the name of an included data set.",
)
@click.option(
    "--checkpoint-to",
    type=click.Path(file_okay=False, path_type=Path),
    multiple=True,
    metavar="DIR",
    help="Write a checkpoint every minute to this folder, best on another disk; may be given more than once.",
)
@click.option(
    "--witness",
    "witnesses",
    type=options.url(server=True),
    multiple=True,
    help="A witness that signs each checkpoint; needs --witness-key, and may be given more than once.",
)
@click.option(
    "--witness-key",
    "witness_keys",
    multiple=True,
    metavar="VKEY",
    help="A witness's key, as the witness prints it; give one for each --witness, in the same order.",
)
@click.option(
    "--test-helpers",
    is_flag=True,
    help="Offer the test helpers: an owner's test key can move the clock, cause faults, restore a snapshot.",
)
@click.option("--demo", is_flag=True, help="Serve demo data with live traffic; remove the data at the end.")
@click.option("--embedded", is_flag=True, hidden=True, help="Serve the dashboard that started this process.")
@click.pass_context
def serve(
    context: click.Context,
    /,
    database: Location,
    host: str,
    port: int,
    demo: bool,
    embedded: bool,
    **others: Any,
) -> None:
    """Serve the ledger over HTTP.

    After SIGTERM or Ctrl-C the server answers the open requests and ends. The first start creates a project
    and a test key.
    """
    if demo and context.get_parameter_source("database") is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError("--demo uses its own database; leave out --database.")
    if embedded:
        host, port = "127.0.0.1", 0
    for name in ("backup_every_s", "backup_keep"):
        if others["backup_to"] is None and _is_set(context, name):
            raise click.UsageError("--backup-every and --backup-keep need --backup-to.")
    if demo and not _is_set(context, "webhook_retries_s"):
        others["webhook_retries_s"] = DEMO_WEBHOOK_RETRIES_S
    settings = _settings(database, demo, host=host, port=port, embedded=embedded, **others)
    try:
        settings.check()
        # Imported after all checks of the options, because the web framework takes longer to load than all
        # other modules together. The garbage collector is off during the imports: imports produce no garbage,
        # and the collector would make them a tenth slower.
        gc.disable()
        from ledger_engine import server
        from ledger_engine.server.serving import collect_rarely

        collect_rarely()
        if embedded:
            server.run(settings, announcing.announce_embedded, announcing.report_embedded)
        else:
            server.run(settings, announcing.announcer(settings, _is_set(context, "database")))
    except BadSettings as error:
        raise click.UsageError(str(error)) from error


def _is_set(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT


def settings_from_environment() -> ServeSettings:
    """Return the settings for another ASGI server, from environment variables and the file in LEDGER_CONFIG.

    The host, the port and the TLS files are left out: the other server has settings of its own for them.
    Raises UsageError for a wrong value.
    """
    with serve.make_context("serve", []) as context:
        own = ("host", "port", "certfile", "keyfile")
        return _settings(**{name: value for name, value in context.params.items() if name not in own})


def _settings(
    database: Location, demo: bool, auth_rate_limit: tuple[int, int], **others: Any
) -> ServeSettings:
    minute, second = auth_rate_limit
    return ServeSettings(None if demo else database, auth_per_minute=minute, auth_per_second=second, **others)
