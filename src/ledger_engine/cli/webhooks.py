"""`ledger-engine webhooks`: endpoints, their signing secrets, and their deliveries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

import click

from ledger_engine.cli import options
from ledger_engine.cli.running import (
    known_project,
    print_list,
    print_one,
    project_or_first,
    read,
    require,
    shown,
    using,
    write,
)
from ledger_engine.core.clock import iso
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant, mode_name
from ledger_engine.events.outbox import KINDS
from ledger_engine.events.webhooks import deliveries, endpoints
from ledger_engine.events.webhooks.deliveries import Attempt, Delivery
from ledger_engine.events.webhooks.endpoints import EndpointWithSecret, NewEndpoint, WebhookEndpoint
from ledger_engine.events.webhooks.signing import Seal
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine
from ledger_engine.store.pages import PageRequest


@click.group()
def webhooks() -> None:
    """Create, list and change webhook endpoints, and list the deliveries to them."""


@webhooks.command()
@click.argument("url")
@click.option(
    "--event",
    "kinds",
    type=click.Choice(KINDS),
    metavar="KIND",
    multiple=True,
    help="Send only this kind of event, like invoice.paid; repeat it for several.",
)
@options.mode
@options.project
@options.ledger
def create(
    url: str, kinds: tuple[str, ...], mode: str, project: str | None, database: Location, as_json: bool
) -> None:
    """Send the events from now on to URL. The signing secret is printed only this once."""
    from ledger_engine.events.webhooks.sending import check_url

    livemode = mode == "live"
    asyncio.run(check_url(url, livemode=livemode))
    secret = endpoints.new_secret()
    sealed = Seal.from_environment().close(secret)
    new = NewEndpoint(url, list(kinds) or [endpoints.EVERY])

    def make(unit: Unit) -> EndpointWithSecret:
        tenant = Tenant(project_or_first(unit, project).id, livemode)
        return endpoints.create(unit, tenant, new, secret, sealed)

    _print_secret(write(database, make, make=True), as_json)


@webhooks.command("list")
@click.option("--deleted", is_flag=True, help="List only deleted ones, which can be restored.")
@options.project
@options.ledger
def list_endpoints(deleted: bool, project: str | None, database: Location, as_json: bool) -> None:
    """List the webhook endpoints of both modes, oldest first."""
    every = endpoints.deleted if deleted else endpoints.every
    found = read(database, lambda unit: every(unit, known_project(unit, project).id))
    columns: Mapping[str, Callable[[WebhookEndpoint], str]] = {
        "ID": lambda each: each.id,
        "MODE": lambda each: mode_name(each.livemode),
        "STATUS": lambda each: each.status + (f" ({each.disabled_reason})" if each.disabled_reason else ""),
        "EVENTS": lambda each: ",".join(each.events),
        "URL": lambda each: each.url,
    }
    print_list(found, as_json, columns)


@webhooks.command()
@click.argument("id")
@options.ledger
def delete(id: str, database: Location, as_json: bool) -> None:
    """Delete the endpoint ID, which can be restored for 30 days."""
    _change(endpoints.delete, id, database, as_json, "deleted")


@webhooks.command()
@click.argument("id")
@options.ledger
def restore(id: str, database: Location, as_json: bool) -> None:
    """Restore the deleted endpoint ID, for the events from now on; its new secret is printed only once."""
    secret = endpoints.new_secret()
    sealed = Seal.from_environment().close(secret)

    async def take_back(engine: Engine) -> EndpointWithSecret:
        tenant = await engine.read(partial(endpoints.tenant_of, id=id))
        await endpoints.end_deliveries(engine, tenant, id)
        return await engine.write(
            partial(endpoints.restore, tenant=tenant, id=id, secret=secret, sealed=sealed)
        )

    require(database)
    _print_secret(asyncio.run(using(database, take_back)), as_json)


@webhooks.command()
@click.argument("id")
@options.ledger
def disable(id: str, database: Location, as_json: bool) -> None:
    """Send nothing to the endpoint ID until it is enabled again."""
    _change(endpoints.disable, id, database, as_json, "disabled")


@webhooks.command()
@click.argument("id")
@options.ledger
def enable(id: str, database: Location, as_json: bool) -> None:
    """Send to the endpoint ID again, from where it stopped."""
    _change(endpoints.enable, id, database, as_json, "enabled")


@webhooks.command()
@click.argument("id")
@options.ledger
def roll(id: str, database: Location, as_json: bool) -> None:
    """Replace the signing secret of the endpoint ID at once. The new one is printed only this once."""
    secret = endpoints.new_secret()
    sealed = Seal.from_environment().close(secret)

    def replace(unit: Unit) -> EndpointWithSecret:
        return endpoints.roll_secret(unit, endpoints.tenant_of(unit, id), id, secret, sealed)

    _print_secret(write(database, replace), as_json)


@webhooks.command("deliveries")
@click.argument("id")
@options.limit
@options.ledger
def list_deliveries(id: str, limit: int, database: Location, as_json: bool) -> None:
    """List the deliveries to the endpoint ID, with every attempt."""

    def find(unit: Unit) -> list[Delivery]:
        return deliveries.page(unit, endpoints.tenant_of(unit, id), id, PageRequest(limit)).items

    found = read(database, find)

    def last(delivery: Delivery, show: Callable[[Attempt], str]) -> str:
        return show(delivery.attempts[-1]) if delivery.attempts else ""

    columns: Mapping[str, Callable[[Delivery], str]] = {
        "EVENT": lambda each: each.event,
        "KIND": lambda each: each.event_type,
        "STATUS": lambda each: each.status,
        "ATTEMPTS": lambda each: str(len(each.attempts)),
        "LAST": lambda each: last(each, lambda attempt: attempt["attempted_at"]),
        "ANSWER": lambda each: last(each, lambda attempt: attempt["error"] or str(attempt["status"])),
        "NEXT": lambda each: "" if each.next_attempt_at is None else iso(each.next_attempt_at),
    }
    print_list(found, as_json, columns)


def _change(
    change: Callable[[Unit, Tenant, str], WebhookEndpoint],
    id: str,
    database: Location,
    as_json: bool,
    done: str,
) -> None:
    endpoint = write(database, lambda unit: change(unit, endpoints.tenant_of(unit, id), id))
    print_one(shown(endpoint), as_json, f"{endpoint.id} is {done}.")


def _print_secret(endpoint: EndpointWithSecret, as_json: bool) -> None:
    note = f"{endpoint.id}: {mode_name(endpoint.livemode)} mode, sent to {endpoint.url}. Shown this once."
    print_one(shown(endpoint), as_json, endpoint.secret, note)
