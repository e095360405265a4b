"""`ledger-engine listen`: events of a server, forwarded to a handler on this machine."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from ledger_engine.access import api_keys
from ledger_engine.access.api_keys import NewApiKey
from ledger_engine.cli import options
from ledger_engine.cli.running import known_project, say
from ledger_engine.core.tenant import Scope
from ledger_engine.database import Unit
from ledger_engine.database.engine import open_engine
from ledger_engine.database.lock import served_at


@click.command()
@click.option("--forward-to", metavar="URL", required=True, help="Where your handler takes its webhooks.")
@click.option("--url", help="The ledger's server; the one that serves the database when this is left out.")
@click.option(
    "--key",
    envvar="LEDGER_API_KEY",
    help="An API key; LEDGER_API_KEY has it too. Not needed for a server of your own database.",
)
@click.option("--retry", is_flag=True, help="Try what your handler did not take again, up to five times.")
@options.mode
@options.project
@options.database
def listen(
    forward_to: str,
    url: str | None,
    key: str | None,
    retry: bool,
    mode: str,
    project: str | None,
    database: Path,
) -> None:
    """Post each event that happens on a server to a URL of yours, signed as a webhook, until Ctrl-C."""
    if url is not None and key is None:
        raise click.UsageError("--url needs --key or LEDGER_API_KEY.")
    target = forward_to if "://" in forward_to else f"http://{forward_to}"
    server = url or served_at(database)
    if server is None:
        raise click.ClickException(f"No server serves {database}: start one, or name another by --url.")
    for option, address in (("--forward-to", target), ("--url", server)):
        if not _is_address(address):
            raise click.UsageError(f"{option} takes an address like http://127.0.0.1:3000/webhooks.")
    _run_until_stopped(
        _listen(server.rstrip("/").removesuffix("/v1"), key, target, retry, mode == "live", project, database)
    )


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return (
            parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and " " not in text
        )
    except ValueError:  # a port that is none
        return False


async def _listen(
    server: str,
    key: str | None,
    target: str,
    retry: bool,
    livemode: bool,
    project: str | None,
    database: Path,
) -> None:
    # Only now: a client takes longer to load than most commands to run.
    from ledger_engine.cli.listening import Listener, Refused

    async with _key(key, database, project, livemode) as value:
        try:
            await Listener(server, value, target, say, retry).run()
        except Refused as refusal:
            raise click.ClickException(str(refusal)) from refusal


@asynccontextmanager
async def _key(given: str | None, database: Path, project: str | None, livemode: bool) -> AsyncIterator[str]:
    """The key that was given, or one of our own that can read and ends with us."""
    if given is not None:
        yield given
        return
    value = api_keys.new_value(livemode)

    def make(unit: Unit) -> tuple[Scope, str]:
        scope = Scope(known_project(unit, project).id, livemode)
        new = NewApiKey("listen", "member", ["read:projects", "read:users"], session=True)
        return scope, api_keys.create(unit, scope, new, value).id

    engine = open_engine(database)
    try:
        scope, id = await engine.write(make)
        try:
            yield value
        finally:
            await engine.write(partial(api_keys.revoke, scope=scope, id=id))
    finally:
        await engine.close()


def _run_until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run it; Ctrl-C and SIGTERM are how one ends it, so they are no failure."""

    async def run() -> None:
        task = asyncio.ensure_future(work)
        if sys.platform != "win32":
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        try:
            await task
        except asyncio.CancelledError:
            return

    asyncio.run(run())
