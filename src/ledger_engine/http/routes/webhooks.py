"""Routes of webhook endpoints; all of them go beyond the contract."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ledger_engine.events.webhooks import deliveries, endpoints
from ledger_engine.events.webhooks.addresses import URL_MAX
from ledger_engine.events.webhooks.deliveries import Delivery
from ledger_engine.events.webhooks.endpoints import EndpointWithSecret, NewEndpoint, WebhookEndpoint
from ledger_engine.events.webhooks.sealing import Seal
from ledger_engine.events.webhooks.sending import check_url
from ledger_engine.http.bodies import Body
from ledger_engine.http.lists import GenericList
from ledger_engine.http.operations import Call, Routes
from ledger_engine.store.pages import Page

routes = Routes("webhook_endpoints", "/v1")


class CreateWebhookEndpoint(Body):
    url: Annotated[str, Field(min_length=1, max_length=URL_MAX)]
    events: Annotated[list[str], Field(min_length=1)] | None = [endpoints.EVERY]


@routes.add("GET", "/webhook_endpoints", needs="read:projects")
async def list_webhook_endpoints(call: Call, query: GenericList) -> Page[WebhookEndpoint]:
    """List the webhook endpoints, newest first, without their secrets."""
    return await call.read(endpoints.page, query.page())


@routes.add("POST", "/webhook_endpoints", needs="write:projects", lasting=True, secret=True, status=201)
async def create_webhook_endpoint(call: Call, body: CreateWebhookEndpoint) -> EndpointWithSecret:
    """Register a webhook endpoint for the events from now on; its signing secret is shown this once."""
    await check_url(body.url, livemode=call.authenticate().livemode)
    secret = endpoints.new_secret()
    sealed = Seal.from_environment().close(secret)
    new = NewEndpoint(body.url, body.events or [endpoints.EVERY])
    return await call.write(endpoints.create, new, secret, sealed, call.idempotency_key)


@routes.add("GET", "/webhook_endpoints/<id>", needs="read:projects")
async def get_webhook_endpoint(call: Call, id: str) -> WebhookEndpoint:
    """Get one webhook endpoint."""
    return await call.read_short(endpoints.get, id)


@routes.add("DELETE", "/webhook_endpoints/<id>", needs="write:projects")
async def delete_webhook_endpoint(call: Call, id: str) -> WebhookEndpoint:
    """Delete a webhook endpoint; its open deliveries are not sent any more."""
    return await call.write(endpoints.delete, id)


@routes.add("POST", "/webhook_endpoints/<id>/restore", needs="write:projects", lasting=True, secret=True)
async def restore_webhook_endpoint(call: Call, id: str) -> EndpointWithSecret:
    """Restore a webhook endpoint within 30 days of its deletion; its new secret is shown this once."""
    secret = endpoints.new_secret()
    sealed = Seal.from_environment().close(secret)
    await endpoints.end_deliveries(call.engine, call.authenticate(), id)
    return await call.write(endpoints.restore, id, secret, sealed, call.idempotency_key)


@routes.add("POST", "/webhook_endpoints/<id>/roll_secret", needs="write:projects", lasting=True, secret=True)
async def roll_webhook_secret(call: Call, id: str) -> EndpointWithSecret:
    """Replace the signing secret at once; the new one is shown this once."""
    secret = endpoints.new_secret()
    sealed = Seal.from_environment().close(secret)
    return await call.write(endpoints.roll_secret, id, secret, sealed, call.idempotency_key)


@routes.add("POST", "/webhook_endpoints/<id>/disable", needs="write:projects")
async def disable_webhook_endpoint(call: Call, id: str) -> WebhookEndpoint:
    """Send nothing to a webhook endpoint until it is enabled again."""
    return await call.write(endpoints.disable, id, call.idempotency_key)


@routes.add("POST", "/webhook_endpoints/<id>/enable", needs="write:projects")
async def enable_webhook_endpoint(call: Call, id: str) -> WebhookEndpoint:
    """Send to a webhook endpoint again, from where it stopped."""
    return await call.write(endpoints.enable, id, call.idempotency_key)


@routes.add("GET", "/webhook_endpoints/<id>/deliveries", needs="read:projects")
async def list_deliveries(call: Call, id: str, query: GenericList) -> Page[Delivery]:
    """List the deliveries of a webhook endpoint with every attempt, newest first."""
    return await call.read(deliveries.page, id, query.page())
