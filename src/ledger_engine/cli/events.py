"""`ledger-engine events` and `webhooks`: events, webhook endpoints, and the deliveries between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial

import click

from ledger_engine.cli import options
from ledger_engine.cli.running import LedgerSource, json_object, say
from ledger_engine.core.clock import iso
from ledger_engine.core.tenant import Tenant, mode_name
from ledger_engine.events import outbox
from ledger_engine.events.outbox import KINDS, Event
from ledger_engine.events.webhooks import deliveries, endpoints
from ledger_engine.events.webhooks.deliveries import Attempt, Delivery, ResentFailed
from ledger_engine.events.webhooks.endpoints import EndpointWithSecret, NewEndpoint, WebhookEndpoint
from ledger_engine.events.webhooks.signing import Seal
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine
from ledger_engine.store.pages import PageRequest

# Events


@click.group()
def events() -> None:
    """List events, and send them to the webhook endpoints again."""


@events.command("list")
@options.limit
@options.ledger(options.project, options.mode)
def list_events(ledger: LedgerSource, limit: int) -> None:
    """List the newest events."""

    def find(unit: Unit) -> list[Event]:
        return outbox.page(unit, ledger.tenant(unit), PageRequest(limit)).items

    columns: Mapping[str, Callable[[Event], str]] = {
        "ID": lambda event: event.id,
        "KIND": lambda event: event.type,
        "CREATED": lambda event: iso(event.created),
        "OBJECT": lambda event: str(event.data["object"]["id"]),
    }
    ledger.print_list(ledger.read(find), columns)


@events.command()
@click.argument("id", required=False)
@click.option(
    "--failed-since",
    metavar="TIME",
    type=options.MOMENT,
    help="Instead of one event, resend each failed delivery whose last attempt was at TIME or later.",
)
@click.option("--endpoint", metavar="ID", help="Send only to the endpoint ID.")
@options.ledger(options.project, options.mode)
def resend(ledger: LedgerSource, id: str | None, failed_since: int | None, endpoint: str | None) -> None:
    """Send the event ID again now, to the enabled endpoints that accept its type.

    A running server sends the event within a second. If no server runs, the next server sends it when it
    starts.
    """
    if (id is None) == (failed_since is None):
        raise click.UsageError("Give the ID of an event, or --failed-since.")
    if failed_since is not None:
        since = failed_since

        async def resend_failed(engine: Engine) -> ResentFailed:
            tenant = await engine.read(ledger.tenant)
            return await deliveries.resend_failed(engine, tenant, since, endpoint)

        resent = ledger.use(resend_failed)
        if not (resent.deliveries or resent.skipped or ledger.as_json):
            say(f"Nothing failed since {iso(since)}.")
            return
    else:

        def resend_one(unit: Unit) -> ResentFailed:
            result = deliveries.resend(unit, outbox.tenant_of(unit, str(id)), str(id), endpoint)
            return ResentFailed(len(result.data), result.skipped)

        resent = ledger.write(resend_one)
    count = resent.deliveries
    line = f"{count} {'delivery is' if count == 1 else 'deliveries are'} sent again."
    skipped_rows = [asdict(receiver) for receiver in resent.skipped]
    ledger.print_one({"deliveries": count, "skipped": skipped_rows}, line)
    if not ledger.as_json:
        for receiver in resent.skipped:
            say(f"Nothing is sent to {receiver.endpoint}: it is {receiver.reason}.")


# Webhook endpoints


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
@options.ledger(options.project, options.mode)
def create(ledger: LedgerSource, url: str, kinds: tuple[str, ...]) -> None:
    """Create an endpoint: send events from now on to URL. The signing secret is printed only this once."""
    from ledger_engine.events.webhooks.sending import check_url

    asyncio.run(check_url(url, livemode=ledger.mode == "live"))
    secret, sealed_secret = _new_secret()
    new = NewEndpoint(url, list(kinds) or [endpoints.EVERY])

    def make(unit: Unit) -> EndpointWithSecret:
        return endpoints.create(unit, ledger.new_tenant(unit), new, secret, sealed_secret)

    _print_secret(ledger, ledger.write(make, make=True))


@webhooks.command("list")
@click.option("--deleted", is_flag=True, help="List the deleted endpoints that you can restore.")
@options.ledger(options.project)
def list_endpoints(ledger: LedgerSource, deleted: bool) -> None:
    """List the webhook endpoints of both modes, oldest first."""
    every = endpoints.deleted if deleted else endpoints.every
    columns: Mapping[str, Callable[[WebhookEndpoint], str]] = {
        "ID": lambda each: each.id,
        "MODE": lambda each: mode_name(each.livemode),
        "STATUS": lambda each: each.status + (f" ({each.disabled_reason})" if each.disabled_reason else ""),
        "EVENTS": lambda each: ",".join(each.events),
        "URL": lambda each: each.url,
    }
    ledger.print_list(ledger.read(lambda unit: every(unit, ledger.selected_project(unit).id)), columns)


@webhooks.command()
@click.argument("id")
@options.ledger()
def delete(ledger: LedgerSource, id: str) -> None:
    """Delete the endpoint ID. You can restore it for 30 days."""
    _change(ledger, endpoints.delete, id, "deleted")


@webhooks.command()
@click.argument("id")
@options.ledger()
def restore(ledger: LedgerSource, id: str) -> None:
    """Restore the deleted endpoint ID for future events. Its new secret is printed only this once."""
    secret, sealed_secret = _new_secret()

    async def restore_endpoint(engine: Engine) -> EndpointWithSecret:
        tenant = await engine.read(partial(endpoints.tenant_of, id=id))
        await endpoints.end_deliveries(engine, tenant, id)
        return await engine.write(
            partial(endpoints.restore, tenant=tenant, id=id, secret=secret, sealed_secret=sealed_secret)
        )

    _print_secret(ledger, ledger.use(restore_endpoint))


@webhooks.command()
@click.argument("id")
@options.ledger()
def disable(ledger: LedgerSource, id: str) -> None:
    """Send nothing to the endpoint ID until it is enabled again."""
    _change(ledger, endpoints.disable, id, "disabled")


@webhooks.command()
@click.argument("id")
@options.ledger()
def enable(ledger: LedgerSource, id: str) -> None:
    """Send events to the endpoint ID again, beginning with the first event that was not sent to it."""
    _change(ledger, endpoints.enable, id, "enabled")


@webhooks.command()
@click.argument("id")
@options.ledger()
def roll(ledger: LedgerSource, id: str) -> None:
    """Replace the signing secret of the endpoint ID at once. The new secret is printed only this once."""
    secret, sealed_secret = _new_secret()

    def replace(unit: Unit) -> EndpointWithSecret:
        return endpoints.roll_secret(unit, endpoints.tenant_of(unit, id), id, secret, sealed_secret)

    _print_secret(ledger, ledger.write(replace))


@webhooks.command("deliveries")
@click.argument("id")
@options.limit
@options.ledger()
def list_deliveries(ledger: LedgerSource, id: str, limit: int) -> None:
    """List the deliveries to the endpoint ID, with every attempt."""

    def find(unit: Unit) -> list[Delivery]:
        return deliveries.page(unit, endpoints.tenant_of(unit, id), id, PageRequest(limit)).items

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
    ledger.print_list(ledger.read(find), columns)


def _new_secret() -> tuple[str, str]:
    """Return a new signing secret, and the form in which the ledger stores it."""
    secret = endpoints.new_secret()
    return secret, Seal.from_environment().seal(secret)


def _change(
    ledger: LedgerSource, change: Callable[[Unit, Tenant, str], WebhookEndpoint], id: str, result: str
) -> None:
    endpoint = ledger.write(lambda unit: change(unit, endpoints.tenant_of(unit, id), id))
    ledger.print_one(json_object(endpoint), f"{endpoint.id} is {result}.")


def _print_secret(ledger: LedgerSource, endpoint: EndpointWithSecret) -> None:
    mode = mode_name(endpoint.livemode)
    note = f"{endpoint.id} sends {mode} events to {endpoint.url}. The secret is shown only once."
    ledger.print_one(json_object(endpoint), endpoint.secret, note)
