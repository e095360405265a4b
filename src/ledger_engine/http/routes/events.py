"""Routes of webhook endpoints and of events; all of them go beyond the contract."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from pydantic import Field

from ledger_engine.access import credentials
from ledger_engine.core.clock import parse_moment
from ledger_engine.core.errors import LedgerError
from ledger_engine.core.ids import id_pattern
from ledger_engine.events import outbox
from ledger_engine.events.following import Followers
from ledger_engine.events.outbox import Event
from ledger_engine.events.webhooks import deliveries, endpoints, signing
from ledger_engine.events.webhooks.addresses import URL_MAX, URL_PATTERN
from ledger_engine.events.webhooks.deliveries import Delivery, Resent, ResentFailed
from ledger_engine.events.webhooks.endpoints import EndpointWithSecret, NewEndpoint, WebhookEndpoint
from ledger_engine.events.webhooks.sending import check_url
from ledger_engine.events.webhooks.signing import Seal
from ledger_engine.http.bodies import Body, Query
from ledger_engine.http.lists import GenericList, LookingBack, Time, in_parts, page_request
from ledger_engine.http.operations import Call, Routes, StreamedAnswer
from ledger_engine.store.pages import Page, PageRequest

# Webhook endpoints


endpoint_routes = Routes("webhook_endpoints", "/v1")


WantedType = Annotated[
    str, Field(json_schema_extra={"pattern": f"^({'|'.join(map(re.escape, ('*', *outbox.KINDS)))})$"})
]
EndpointField = Annotated[str, Field(json_schema_extra={"pattern": id_pattern("whe")})]


class CreateWebhookEndpoint(Body):
    url: Annotated[str, Field(min_length=1, max_length=URL_MAX, json_schema_extra={"pattern": URL_PATTERN})]
    events: Annotated[list[WantedType], Field(min_length=1)] | None = [endpoints.EVERY]


@endpoint_routes.add("GET", "/webhook_endpoints")
async def list_webhook_endpoints(call: Call, query: GenericList) -> Page[WebhookEndpoint]:
    """List the webhook endpoints, newest first, without their secrets."""
    return await call.read(endpoints.page, query.page())


@endpoint_routes.add("POST", "/webhook_endpoints", lasting=True, secret=True, status=201)
async def create_webhook_endpoint(call: Call, body: CreateWebhookEndpoint) -> EndpointWithSecret:
    """Register a webhook endpoint for the events from now on; its signing secret is shown only once."""
    await check_url(body.url, livemode=call.authenticate().livemode)
    secret = endpoints.new_secret()
    sealed_secret = Seal.from_environment().seal(secret)
    new = NewEndpoint(body.url, body.events or [endpoints.EVERY])
    return await call.write(endpoints.create, new, secret, sealed_secret, call.idempotency_key)


@endpoint_routes.add("GET", "/webhook_endpoints/<id>")
async def get_webhook_endpoint(call: Call, id: str) -> WebhookEndpoint:
    """Get one webhook endpoint."""
    return await call.read_short(endpoints.get, id)


@endpoint_routes.add("DELETE", "/webhook_endpoints/<id>", changes=endpoints.get)
async def delete_webhook_endpoint(call: Call, id: str) -> WebhookEndpoint:
    """Delete a webhook endpoint; its open deliveries are not sent any more."""
    return await call.write(endpoints.delete, id)


@endpoint_routes.add(
    "POST", "/webhook_endpoints/<id>/restore", lasting=True, secret=True, changes=endpoints.get
)
async def restore_webhook_endpoint(call: Call, id: str) -> EndpointWithSecret:
    """Restore a webhook endpoint within 30 days of its deletion; its new secret is shown only once."""
    secret = endpoints.new_secret()
    sealed_secret = Seal.from_environment().seal(secret)
    # If-Match is compared with the result of `endpoints.get`, which finds no deleted endpoint. So a restore
    # with If-Match always fails. A request that fails must change nothing, so call `end_deliveries`, which
    # changes deliveries, only without If-Match.
    if call.condition is None:
        await endpoints.end_deliveries(call.engine, call.authenticate(), id)
    return await call.write(endpoints.restore, id, secret, sealed_secret, call.idempotency_key)


@endpoint_routes.add(
    "POST", "/webhook_endpoints/<id>/roll_secret", lasting=True, secret=True, changes=endpoints.get
)
async def roll_webhook_secret(call: Call, id: str) -> EndpointWithSecret:
    """Replace the signing secret at once; the new secret is shown only once."""
    secret = endpoints.new_secret()
    sealed_secret = Seal.from_environment().seal(secret)
    return await call.write(endpoints.roll_secret, id, secret, sealed_secret, call.idempotency_key)


@endpoint_routes.add("POST", "/webhook_endpoints/<id>/disable", changes=endpoints.get)
async def disable_webhook_endpoint(call: Call, id: str) -> WebhookEndpoint:
    """Send nothing to a webhook endpoint until it is enabled again."""
    return await call.write(endpoints.disable, id, call.idempotency_key)


@endpoint_routes.add("POST", "/webhook_endpoints/<id>/enable", changes=endpoints.get)
async def enable_webhook_endpoint(call: Call, id: str) -> WebhookEndpoint:
    """Send to a webhook endpoint again, from the event at which sending stopped."""
    return await call.write(endpoints.enable, id, call.idempotency_key)


@endpoint_routes.add("GET", "/webhook_endpoints/<id>/deliveries")
async def list_deliveries(call: Call, id: str, query: GenericList) -> Page[Delivery]:
    """List the deliveries of a webhook endpoint with every attempt, newest first."""
    return await call.read(deliveries.page, id, query.page())


# Events


event_routes = Routes("events", "/v1")

KEEP_ALIVE_S = 15.0  # seconds; proxies close connections after 30 to 60 silent seconds
# Seconds between two checks of a stream's credential. A revoked key must be refused within a second
# (docs/decisions.md#commands).
CHECKED_EVERY_S = 1.0
AT_ONCE = 16  # the most events that are read ahead for a client


class ResendFailed(Body):
    since: Time
    endpoint: EndpointField | None = None


class OneEndpoint(Query):
    endpoint: EndpointField | None = None


class ListEvents(GenericList, LookingBack):
    object: str | None = None
    ending_before: str | None = None

    def page(self) -> PageRequest:
        """Return the requested page. Raises InvalidRequest if both cursors are given."""
        return page_request(self.limit, "cursor", self.cursor, self.ending_before)


@dataclass(slots=True)
class EventDeliveries:
    """The deliveries of one event, one for each endpoint that it was sent to."""

    data: list[Delivery]


@event_routes.add("GET", "/events")
async def list_events(call: Call, query: ListEvents) -> Page[Event] | StreamedAnswer:
    """List the events, newest first; with `object`, only events about the object with this id.

    A program that follows the events stores the id of the last event that it has handled, and sends this id
    in `ending_before` to get the next newer page.
    """
    at = query.moment(call.engine.clock)
    if (object := query.object) is not None:
        return await in_parts(lambda page: call.read(outbox.about, page, object, at), query.page())
    return await in_parts(lambda page: call.read(outbox.page, page, at), query.page())


# `x-accel-buffering: no` keeps nginx from buffering events, which should arrive at once.
_UNBUFFERED = ((b"cache-control", b"no-store"), (b"x-accel-buffering", b"no"))


@event_routes.add("GET", "/events/stream", also_as=("text/event-stream",))
async def stream_events(call: Call) -> StreamedAnswer:
    """Stream new events to the client as server-sent events."""
    cursor = await call.read(outbox.resume, call.header(b"last-event-id"))
    messages = _messages(call, Followers.of(call.engine), cursor)
    await anext(messages)
    return StreamedAnswer("text/event-stream", messages, _UNBUFFERED)


@event_routes.add("GET", "/events/<id>")
async def get_event(call: Call, id: str) -> Event:
    """Get one event."""
    return await call.read_short(outbox.get, id)


@event_routes.add("GET", "/events/<id>/deliveries", answer=EventDeliveries)
async def list_event_deliveries(call: Call, id: str) -> list[Delivery]:
    """List the deliveries of one event with every attempt, in the order of their endpoints."""
    return await call.read(deliveries.of_event, id)


@event_routes.add("POST", "/events/<id>/resend", changes=outbox.get)
async def resend_event(call: Call, id: str, query: OneEndpoint) -> Resent:
    """Send an event again, to one endpoint or to every enabled endpoint that wants its type.

    If an attempt to send the event is in progress, the event is sent again after this attempt. Otherwise it
    is sent again now.
    """
    return await call.write(deliveries.resend, id, query.endpoint, call.idempotency_key)


@event_routes.add("POST", "/events/resend")
async def resend_failed(call: Call, body: ResendFailed) -> ResentFailed:
    """Resend now the failed deliveries that were last attempted at or after a time."""
    since = parse_moment(body.since, "since")
    tenant = call.authenticate()
    key = call.idempotency_key
    return await deliveries.resend_failed(call.engine, tenant, since, body.endpoint, key)


async def _messages(call: Call, followers: Followers, cursor: str) -> AsyncGenerator[str, None]:
    """Yield "", and then server-sent events: first a secret, then the ledger events after `cursor`.

    The secret is made for this stream, and each ledger event is signed with it. The stream ends when the
    client disconnects, the credential becomes invalid or the server stops.

    The number of open streams is limited. If the limit is reached, the generator raises PermissionDenied
    instead of yielding "". `stream_events` takes the "" before the answer begins, so that the answer can
    still report the PermissionDenied. Events are read only as fast as the client takes them, so a slow client
    costs only the memory for a few events.
    """
    secret = endpoints.new_secret()
    value = (call.header(b"authorization") or "").partition(" ")[2]
    sent_at = checked_at = time.monotonic()
    async with followers.follow(call.authenticate().project):
        with contextlib.suppress(LedgerError):
            yield ""
            # This message has the cursor as its id, so a client that loses the connection before the first
            # event can resume from here.
            yield _message("session", cursor, {"secret": secret})
            # A revoked or expired credential, or the loss of the storage, ends the stream. When the client
            # reconnects, it gets the error.
            while not followers.ended:
                change = followers.next_change()
                now = time.monotonic()
                if now - checked_at >= CHECKED_EVERY_S:
                    checked_at = now
                    await call.engine.read(partial(credentials.find, value=value))
                messages, next_cursor = await call.read(outbox.after, cursor, AT_ONCE)
                for event in messages:
                    data = {"body": event.body, "signature": signing.sign(secret, event.body.encode())}
                    yield _message("event", event.id, data)
                    sent_at = now
                if now - sent_at >= KEEP_ALIVE_S:
                    sent_at = now
                    yield ": nothing happened\n\n"
                if next_cursor == cursor:
                    await followers.wait_for(change)
                cursor = next_cursor


def _message(kind: str, id: str, data: dict[str, Any]) -> str:
    """Return one server-sent event.

    The JSON text is ASCII, because some readers would treat U+2028 as the end of the line.
    """
    return f"id: {id}\nevent: {kind}\ndata: {json.dumps(data)}\n\n"
