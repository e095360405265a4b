"""`ledger-engine webhooks`: where events are sent, and what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import click

from ledger_engine.cli import options
from ledger_engine.cli.running import (
    known_project,
    print_json,
    print_table,
    project_or_first,
    read,
    say,
    shown,
    write,
)
from ledger_engine.core.clock import iso
from ledger_engine.core.tenant import Scope, mode_name
from ledger_engine.database import Unit
from ledger_engine.database.pages import PageRequest
from ledger_engine.events.outbox import KINDS
from ledger_engine.events.webhooks import deliveries
from ledger_engine.events.webhooks import endpoints as room
from ledger_engine.events.webhooks.deliveries import Delivery
from ledger_engine.events.webhooks.endpoints import EndpointWithSecret, NewEndpoint, WebhookEndpoint
from ledger_engine.events.webhooks.sealing import Seal


@click.group()
def webhooks() -> None:
    """Make, list and change webhook endpoints, and see what was sent to them."""


@webhooks.command()
@click.argument("url")
@click.option(
    "--event",
    "kinds",
    type=click.Choice(KINDS),
    metavar="KIND",
    multiple=True,
    help="Send this kind of event only, like invoice.paid; give it several times for several.",
)
@options.mode
@options.project
@options.database
@options.as_json
def create(
    url: str, kinds: tuple[str, ...], mode: str, project: str | None, database: Path, as_json: bool
) -> None:
    """Send the events from now on to URL. Its signing secret is printed this once."""
    from ledger_engine.events.webhooks.exchange import check_url

    livemode = mode == "live"
    asyncio.run(check_url(url, livemode=livemode))
    secret = room.new_secret()
    sealed = Seal.from_environment().close(secret)
    new = NewEndpoint(url, list(kinds) or [room.EVERY])

    def make(unit: Unit) -> EndpointWithSecret:
        scope = Scope(project_or_first(unit, project).id, livemode)
        return room.create(unit, scope, new, secret, sealed)

    _tell_secret(write(database, make, make=True), as_json)


@webhooks.command("list")
@options.project
@options.database
@options.as_json
def list_endpoints(project: str | None, database: Path, as_json: bool) -> None:
    """List the webhook endpoints of both modes, the first one first."""

    def find(unit: Unit) -> list[WebhookEndpoint]:
        return room.every(unit, known_project(unit, project).id)

    found = read(database, find)
    if as_json:
        print_json([shown(endpoint) for endpoint in found])
        return
    print_table(
        ("ID", "MODE", "STATUS", "EVENTS", "URL"),
        [
            (
                endpoint.id,
                mode_name(endpoint.livemode),
                endpoint.status + (f" ({endpoint.disabled_reason})" if endpoint.disabled_reason else ""),
                ",".join(endpoint.events),
                endpoint.url,
            )
            for endpoint in found
        ],
    )


@webhooks.command()
@click.argument("id")
@options.database
@options.as_json
def delete(id: str, database: Path, as_json: bool) -> None:
    """Delete the endpoint ID; what was not delivered to it never will be."""
    _change(room.delete, id, database, as_json, "deleted")


@webhooks.command()
@click.argument("id")
@options.database
@options.as_json
def disable(id: str, database: Path, as_json: bool) -> None:
    """Send nothing to the endpoint ID until it is enabled again."""
    _change(room.disable, id, database, as_json, "disabled")


@webhooks.command()
@click.argument("id")
@options.database
@options.as_json
def enable(id: str, database: Path, as_json: bool) -> None:
    """Send to the endpoint ID again, from where it stopped."""
    _change(room.enable, id, database, as_json, "enabled")


@webhooks.command()
@click.argument("id")
@options.database
@options.as_json
def roll(id: str, database: Path, as_json: bool) -> None:
    """Replace the signing secret of the endpoint ID at once; the new one is printed this once."""
    secret = room.new_secret()
    sealed = Seal.from_environment().close(secret)

    def replace(unit: Unit) -> EndpointWithSecret:
        return room.roll_secret(unit, room.scope_of(unit, id), id, secret, sealed)

    _tell_secret(write(database, replace), as_json)


@webhooks.command("deliveries")
@click.argument("id")
@options.limit
@options.database
@options.as_json
def list_deliveries(id: str, limit: int, database: Path, as_json: bool) -> None:
    """List what was sent to the endpoint ID, with every attempt."""

    def find(unit: Unit) -> list[Delivery]:
        return deliveries.page(unit, room.scope_of(unit, id), id, PageRequest(limit)).items

    found = read(database, find)
    if as_json:
        print_json([shown(delivery) for delivery in found])
        return
    print_table(
        ("EVENT", "KIND", "STATUS", "ATTEMPTS", "LAST", "ANSWER", "NEXT"),
        [_row(delivery) for delivery in found],
    )


def _row(delivery: Delivery) -> tuple[str, ...]:
    last = delivery.attempts[-1] if delivery.attempts else None
    return (
        delivery.event,
        delivery.event_type,
        delivery.status,
        str(len(delivery.attempts)),
        last["attempted_at"] if last else "",
        (last["error"] or str(last["status"])) if last else "",
        "" if delivery.next_attempt_at is None else iso(delivery.next_attempt_at),
    )


def _change(
    change: Callable[[Unit, Scope, str], WebhookEndpoint], id: str, database: Path, as_json: bool, done: str
) -> None:
    endpoint = write(database, lambda unit: change(unit, room.scope_of(unit, id), id))
    if as_json:
        print_json(shown(endpoint))
    else:
        say(f"{endpoint.id} is {done}.")


def _tell_secret(endpoint: EndpointWithSecret, as_json: bool) -> None:
    if as_json:
        print_json(shown(endpoint))
        return
    # The secret alone on stdout, so that it can go straight into a variable or a secret store.
    say(endpoint.secret)
    mode = mode_name(endpoint.livemode)
    say(f"{endpoint.id}: {mode} mode, sent to {endpoint.url}. Shown this once.", err=True)
