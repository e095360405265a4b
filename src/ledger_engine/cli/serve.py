"""`ledger-engine serve`."""

from __future__ import annotations

import contextlib
import gc
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ledger_engine.cli import options
from ledger_engine.core.printable import printable
from ledger_engine.core.settings import PORT, WEBHOOK_RETRIES_S, BadSettings, ServeSettings

if TYPE_CHECKING:
    from ledger_engine.server import Ready


COLLECTED_AT = 10_000  # objects made and not yet gone
WAITS_MAX = 50
WAIT_MAX_S = 30 * 86_400


class Rate(click.ParamType[tuple[int, int]]):
    """`20/5`: so many requests a minute and so many in one second."""

    name = "N/N"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        minute, _, second = str(value).partition("/")
        if not (minute.isdecimal() and second.isdecimal() and int(minute) and int(second)):
            self.fail(f"{value!r} is not like 20/5, requests a minute and in one second.", param, ctx)
        return int(minute), int(second)


class Waits(click.ParamType[tuple[float, ...]]):
    """`5,300,1800`: seconds, one for each further attempt."""

    name = "S,S,…"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        if isinstance(value, tuple):
            return value
        try:
            waits = tuple(float(wait) for wait in str(value).split(","))
        except ValueError:
            waits = ()
        if not 1 <= len(waits) <= WAITS_MAX or not all(0 <= wait <= WAIT_MAX_S for wait in waits):
            self.fail(f"{value!r} is not like 5,300,1800, seconds of at most 30 days each.", param, ctx)
        return waits


@click.command()
@options.database
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="The port; 0 takes a free one.",
)
@click.option(
    "--certfile",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The TLS certificate, a PEM file.",
)
@click.option(
    "--keyfile", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="The certificate's key."
)
@click.option("--insecure", is_flag=True, help="Listen beyond this machine without TLS.")
@click.option(
    "--trusted-proxies",
    type=click.IntRange(0, 100),
    default=0,
    show_default=True,
    metavar="N",
    help="How many proxies stand in front and append to X-Forwarded-For.",
)
@click.option(
    "--auth-rate-limit",
    type=Rate(),
    default="20/5",
    show_default=True,
    help="Requests a minute and in one second to the authentication endpoints, per client address.",
)
@click.option(
    "--webhook-retries",
    "webhook_retries_s",
    type=Waits(),
    default=",".join(f"{wait:g}" for wait in WEBHOOK_RETRIES_S),
    show_default=True,
    help="Seconds to wait before each further attempt to send a webhook.",
)
@click.option("--demo", is_flag=True, help="Serve demo data with live traffic; nothing of it is kept.")
@click.option("--embedded", is_flag=True, hidden=True, help="Serve the dashboard that started this process.")
@click.pass_context
def serve(
    context: click.Context,
    /,
    database: Path,
    host: str,
    port: int,
    auth_rate_limit: tuple[int, int],
    demo: bool,
    embedded: bool,
    **others: Any,
) -> None:
    """Serve the ledger over HTTP.

    Ends with SIGTERM or Ctrl-C, once the requests under way are answered. The first start makes a
    project and a key to try it with.
    """
    if demo and context.get_parameter_source("database") is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError("--demo has a database of its own: leave out --database.")
    if embedded:
        host, port = "127.0.0.1", 0
    per_minute, per_second = auth_rate_limit
    settings = ServeSettings(
        None if demo else database,
        host,
        port,
        auth_per_minute=per_minute,
        auth_per_second=per_second,
        embedded=embedded,
        **others,
    )
    try:
        settings.check()
        # The web framework takes longer to load than all else: not before we know that it is wanted.
        # Nothing of what is loaded is garbage; to look for some would take a tenth of that time.
        gc.disable()
        from ledger_engine import server

        gc.freeze()
        gc.enable()
        # What a request makes is gone with its answer, hardly any of it in a cycle: with the usual 700 the
        # collector would look at each crowd of requests several times, to find nothing.
        gc.set_threshold(COLLECTED_AT)
        server.run(settings, _announce_embedded if embedded else _announce)
    except BadSettings as error:
        raise click.UsageError(str(error)) from error


def _announce(ready: Ready) -> None:
    _say(f"Listening on {ready.url}")
    if ready.key is not None:
        _say(f"A test key for the new project, shown this once: {ready.key}")
        _say(f'Try it: curl {ready.url}/v1/accounts -H "Authorization: Bearer {ready.key}"')


def _announce_embedded(ready: Ready) -> None:
    _say(json.dumps({"url": ready.url, "key": ready.key}))


def _say(line: str) -> None:
    with contextlib.suppress(
        OSError
    ):  # nobody reads what we say; those who use the socket need us all the same
        click.echo(printable(line))
