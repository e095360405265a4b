"""`ledger-engine events`: list events, and send them again."""

from __future__ import annotations

import asyncio

import click

from ledger_engine.cli import options
from ledger_engine.cli.running import (
    known_project,
    print_json,
    print_table,
    read,
    require,
    say,
    shown,
    using,
    write,
)
from ledger_engine.core.clock import iso, parse_moment
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant
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
@options.database
@options.as_json
def list_events(limit: int, mode: str, project: str | None, database: Location, as_json: bool) -> None:
    """List the newest events."""

    def find(unit: Unit) -> list[Event]:
        tenant = Tenant(known_project(unit, project).id, mode == "live")
        return ledger_events.page(unit, tenant, PageRequest(limit)).items

    found = read(database, find)
    if as_json:
        print_json([shown(event) for event in found])
        return
    print_table(
        ("ID", "KIND", "CREATED", "OBJECT"),
        [(event.id, event.type, iso(event.created), event.data["object"]["id"]) for event in found],
    )


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
@options.database
@options.as_json
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
            tenant = await engine.read(lambda unit: Tenant(known_project(unit, project).id, mode == "live"))
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
    if as_json:
        print_json({"deliveries": count})
    else:
        say(f"{count} {'delivery is' if count == 1 else 'deliveries are'} sent again.")
