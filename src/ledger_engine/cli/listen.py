"""`ledger-engine listen`: events of a server, forwarded to a handler on this machine."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import click

from ledger_engine.access import api_keys
from ledger_engine.access.api_keys import NewApiKey
from ledger_engine.cli import options
from ledger_engine.cli.running import known_project, say
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant
from ledger_engine.store import Unit
from ledger_engine.store.engine import open_engine
from ledger_engine.store.sqlite.lock import served_at

_ANY_NUMBER = "On PostgreSQL several servers may run. Choose one with --url."


@click.command()
@click.option(
    "--forward-to",
    metavar="URL",
    required=True,
    type=options.Url(default_scheme="http"),
    help="The address of your webhook handler.",
)
@click.option(
    "--url",
    type=options.Url(server=True),
    help="The server to listen to; by default the one that serves the database.",
)
@click.option(
    "--key",
    type=options.Bearer(),
    envvar="LEDGER_API_KEY",
    help="An API key, or LEDGER_API_KEY. Not needed for a server on your own database.",
)
@click.option("--retry", is_flag=True, help="Retry what your handler did not accept, up to five times.")
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
    database: Location,
) -> None:
    """Post each event that happens on a server to a URL of yours, signed as a webhook, until Ctrl-C."""
    if url is not None and key is None:
        raise click.UsageError("--url needs --key or LEDGER_API_KEY.")
    server = url or served_at(options.file_of(database, _ANY_NUMBER))
    if server is None:
        raise click.ClickException(f"No server serves {database}: start one, or name another with --url.")
    root = server.rstrip("/").removesuffix("/v1")
    _run_until_stopped(_listen(root, key, forward_to, retry, mode == "live", project, database))


async def _listen(
    server: str,
    key: str | None,
    target: str,
    retry: bool,
    livemode: bool,
    project: str | None,
    database: Location,
) -> None:
    # Imported here: httpx takes longer to load than most commands to run.
    from ledger_engine.cli.listening import Listener, Refused

    async with _key(key, database, project, livemode) as value:
        try:
            await Listener(server, value, target, say, retry).run()
        except Refused as refusal:
            raise click.ClickException(str(refusal)) from refusal


@asynccontextmanager
async def _key(
    given: str | None, database: Location, project: str | None, livemode: bool
) -> AsyncIterator[str]:
    """Yield the given key, or create one that can only read and revoke it at the end."""
    if given is not None:
        yield given
        return
    value = api_keys.new_value(livemode)

    def make(unit: Unit) -> tuple[Tenant, str]:
        tenant = Tenant(known_project(unit, project).id, livemode)
        new = NewApiKey("listen", "member", ["read:projects", "read:users"], session=True)
        return tenant, api_keys.create(unit, tenant, new, value).id

    engine = open_engine(database)
    try:
        tenant, id = await engine.write(make)
        try:
            yield value
        finally:
            await engine.write(partial(api_keys.revoke, tenant=tenant, id=id))
    finally:
        await engine.close()


def _run_until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run `work` until Ctrl-C or SIGTERM, which are its normal end and not errors."""

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
