"""`ledger-engine events`: list events, and send them again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

import click

from ledger_engine.cli import options
from ledger_engine.cli.running import known_tenant, print_list, print_one, read, require, say, using, write
from ledger_engine.core.clock import iso, parse_moment
from ledger_engine.core.settings import Location
from ledger_engine.events import outbox as ledger_events
from ledger_engine.events.outbox import Event
from ledger_engine.events.webhooks import deliveries
from ledger_engine.events.webhooks.deliveries import Delivery
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine
from ledger_engine.store.pages import PageRequest


@click.group()
def events() -> None:
    """List events, and send them to the webhook endpoints again."""


@events.command("list")
@options.limit
@options.mode
@options.project
@options.ledger
def list_events(limit: int, mode: str, project: str | None, database: Location, as_json: bool) -> None:
    """List the newest events."""

    def find(unit: Unit) -> list[Event]:
        return ledger_events.page(unit, known_tenant(unit, project, mode), PageRequest(limit)).items

    columns: Mapping[str, Callable[[Event], str]] = {
        "ID": lambda event: event.id,
        "KIND": lambda event: event.type,
        "CREATED": lambda event: iso(event.created),
        "OBJECT": lambda event: str(event.data["object"]["id"]),
    }
    print_list(read(database, find), as_json, columns)


@events.command()
@click.argument("id", required=False)
@click.option(
    "--failed-since",
    metavar="TIME",
    help="Instead of ID: every delivery that failed and was last attempted since then.",
)
@click.option("--endpoint", metavar="ID", help="To this endpoint only.")
@options.mode
@options.project
@options.ledger
def resend(
    id: str | None,
    failed_since: str | None,
    endpoint: str | None,
    mode: str,
    project: str | None,
    database: Location,
    as_json: bool,
) -> None:
    """Send the event ID again, now, to the enabled endpoints that want its kind.

    A running server sends it within a second; without one it is sent when a server starts.
    """
    if (id is None) == (failed_since is None):
        raise click.UsageError("Give the ID of an event, or --failed-since.")
    if failed_since is not None:
        since = parse_moment(failed_since, "--failed-since")

        async def resend_failed(engine: Engine) -> int:
            tenant = await engine.read(partial(known_tenant, project=project, mode=mode))
            return await deliveries.resend_failed(engine, tenant, since, endpoint)

        require(database)
        count = asyncio.run(using(database, resend_failed))
        if count or as_json:
            _print(count, as_json)
        else:
            say(f"Nothing failed since {iso(since)}.")
        return

    def resend_one(unit: Unit) -> list[Delivery]:
        return deliveries.resend(unit, ledger_events.tenant_of(unit, str(id)), str(id), endpoint)

    _print(len(write(database, resend_one)), as_json)


def _print(count: int, as_json: bool) -> None:
    line = f"{count} {'delivery is' if count == 1 else 'deliveries are'} sent again."
    print_one({"deliveries": count}, as_json, line)
