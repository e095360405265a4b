"""Deliveries: each sends one event to one endpoint, and lists every attempt.

See docs/decisions.md#webhooks.

`resend_failed` resends all deliveries that have failed since a given time. It works in several short commits,
because one commit for all deliveries would make every other writer wait. If `resend_failed` is interrupted,
its idempotency key is not stored yet: a client can repeat the same request, which resends the remaining
deliveries. `measure` counts the deliveries still to be made, for the metrics.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Annotated, ClassVar, NamedTuple, TypedDict

from ledger_engine.access import idempotency
from ledger_engine.access.quotas import LOGS_KEPT_FOR
from ledger_engine.core.clock import iso
from ledger_engine.core.errors import InvalidRequest, NotFound
from ledger_engine.core.ids import DeliveryId, EndpointId, EventId
from ledger_engine.core.records import Format, Moment, OneOf
from ledger_engine.core.tasks import AT_ONCE, take_turns
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.events.outbox import EventType
from ledger_engine.events.webhooks import endpoints
from ledger_engine.limits import Semaphore
from ledger_engine.store import Row, Unit, Value
from ledger_engine.store.books import OF_BOOK
from ledger_engine.store.engine import Engine
from ledger_engine.store.pages import Listing, Page, PageRequest, expires_with
from ledger_engine.store.rows import any_of

# A resend increments `resends`. When an attempt ends, `attempts.record` compares this count with its value
# before the attempt. If the delivery was resent during the attempt, the result of the attempt must not change
# the due time of the delivery.
_DUE_AGAIN = "status = 'pending', retries = 0, due = :due, resends = deliveries.resends + 1"
_READ_TOGETHER = 500  # endpoints whose deliveries one statement reads
_FAILED = "(status = 'failed' OR (status = 'pending' AND retries > 0))"
SHOWN_MAX = 4096  # bytes of a body that are stored and shown (docs/decisions.md#events-list)
_ONE_AT_A_TIME = Semaphore("resending", 1)


class HttpMessage(TypedDict):
    # The request or the response of an attempt, with the first 4 KB of its body.
    headers: dict[str, str]
    body: str | None


class Attempt(TypedDict):
    """One attempt of a delivery.

    `status` is the receiver's HTTP status, null without an answer; `error` is the reason of a failure, null
    for a success; `latency_ms` is the time until the end of the answer.
    """

    number: int
    attempted_at: Annotated[str, Format("date-time")]
    status: int | None
    error: str | None
    latency_ms: int
    request: HttpMessage
    response: HttpMessage | None


class FailedDelivery(NamedTuple):
    """A delivery whose last attempt, made at `attempted_at`, failed."""

    id: str
    attempted_at: int


@dataclass(slots=True)
class SkippedEndpoint:
    """An endpoint that does not get a resent event, because the endpoint is disabled or deleted."""

    endpoint: EndpointId
    reason: Annotated[str, OneOf("disabled", "deleted")]


@dataclass(slots=True)
class Delivery:
    """The delivery of an event to an endpoint. `attempts` are in the order they were made."""

    OBJECT: ClassVar[str] = "delivery"

    id: DeliveryId
    endpoint: EndpointId
    event: EventId
    event_type: EventType
    status: Annotated[str, OneOf("pending", "succeeded", "failed")]
    next_attempt_at: Moment | None
    attempts: list[Attempt]
    created: Moment
    livemode: bool


@dataclass(slots=True)
class Resent:
    """The deliveries that send the event again, and the endpoints that do not get the event. If an attempt is
    under way, the delivery is sent again after this attempt, whether the attempt succeeds or fails."""

    data: list[Delivery]
    skipped: list[SkippedEndpoint]


@dataclass(slots=True)
class ResentFailed:
    """The number of deliveries that are sent again, and the endpoints that are skipped."""

    deliveries: int
    skipped: list[SkippedEndpoint]


def page(
    unit: Unit,
    tenant: Tenant,
    endpoint: str,
    request: PageRequest,
) -> Page[Delivery]:
    """Return a page of the deliveries to an endpoint, newest first, each with its attempts.

    Raises NotFound unless the endpoint exists or can be restored.
    """
    try:
        (receiver,) = endpoints.receivers(unit, tenant, endpoint)
    except NotFound:
        raise NotFound("webhook endpoint", endpoint) from None
    page = _LISTING.page(unit, tenant, request, {"endpoint": endpoint})
    _fill(unit, tenant, page.items, {endpoint} if receiver.status == "deleted" else set())
    return page


def of_event(unit: Unit, tenant: Tenant, event: str) -> list[Delivery]:
    """Return an event's deliveries to endpoints that exist or can be restored, ordered by the endpoint's id.

    Raises NotFound, and PermissionDenied if the event is about a user and the tenant lacks `read:users`.
    """
    outbox.get(unit, tenant, event)
    status = {receiver.endpoint: receiver.status for receiver in endpoints.receivers(unit, tenant)}
    deliveries: list[Delivery] = []
    for first in range(0, len(status), _READ_TOGETHER):
        id_list, parameters = any_of([*status][first : first + _READ_TOGETHER])
        rows = unit.execute(
            f"SELECT * FROM deliveries WHERE endpoint IN ({id_list}) AND event = :event",
            parameters | {"event": event},
        )
        deliveries += sorted(map(_read, rows), key=attrgetter("endpoint"))
    _fill(unit, tenant, deliveries, {id for id, state in status.items() if state == "deleted"})
    return deliveries


def resend(
    unit: Unit, tenant: Tenant, event: str, endpoint: str | None = None, key: str | None = None
) -> Resent:
    """Send an event again now: to each enabled endpoint that wants this kind of event, or only to `endpoint`.

    If an attempt is in progress, the event is sent again after this attempt. If the event's first attempt is
    still to come, this attempt counts as the resend. Raises NotFound for the event or the endpoint. Raises
    InvalidRequest if `endpoint` does not receive events of this kind.
    """
    message = outbox.get(unit, tenant, event)
    idempotency.take(unit, tenant, key, event)
    deliveries: list[Delivery] = []
    skips: list[SkippedEndpoint] = []
    for receiver in endpoints.receivers(unit, tenant, endpoint):
        if not receiver.wants(message.type):
            if endpoint is not None:
                raise InvalidRequest(
                    "invalid_value", f"{endpoint} does not receive {message.type} events.", "endpoint"
                )
            continue
        if receiver.status != "enabled":
            skips.append(SkippedEndpoint(receiver.endpoint, receiver.status))
            continue
        # If the delivery has no row, no attempt is recorded: either the event is older than the endpoint, or
        # its first attempt is still to come. So insert a row.
        row = unit.first(
            "INSERT INTO deliveries"
            " (id, project, livemode, endpoint, event, status, attempts, retries, resends, due, created)"
            " VALUES (:id, :project, :livemode, :endpoint, :event, 'pending', 0, 0, 1, :due, :now)"
            f" ON CONFLICT (endpoint, event) DO UPDATE SET {_DUE_AGAIN} RETURNING *",
            tenant.bind(
                id=unit.new_id("dlv"), endpoint=receiver.endpoint, event=event, due=unit.now, now=unit.now
            ),
        )
        assert row is not None, "the statement inserts or updates the row"
        deliveries.append(_read(row))
    unit.announce(endpoints.TOPIC)
    _fill(unit, tenant, deliveries)
    return Resent(deliveries, skips)


def failed(
    unit: Unit, tenant: Tenant, endpoints: Sequence[str], since: int, until: int, limit: int
) -> list[FailedDelivery]:
    """Return up to `limit` failed deliveries to `endpoints` whose last attempt was from `since` to `until`.

    The time `until` is included. The delivery with the earliest last attempt comes first. Deliveries that
    already wait to be resent are left out.
    """
    if not endpoints:
        return []
    id_list, parameters = any_of(endpoints)
    rows = unit.execute(
        "SELECT id, attempted_at FROM deliveries WHERE project = :project AND livemode = :livemode"
        f" AND attempted_at >= :since AND attempted_at <= :until AND status <> 'succeeded' AND {_FAILED}"
        f" AND endpoint IN ({id_list}) ORDER BY attempted_at LIMIT :limit",
        tenant.bind(since=since, until=until, limit=limit) | parameters,
    )
    return [FailedDelivery(row["id"], row["attempted_at"]) for row in rows]


def send_again(unit: Unit, ids: Sequence[str]) -> int:
    """Send again now each of these deliveries that has failed; return how many are sent again."""
    id_list, parameters = any_of(ids)
    rows = unit.execute(
        f"UPDATE deliveries SET {_DUE_AGAIN} WHERE id IN ({id_list}) AND {_FAILED} RETURNING id",
        {"due": unit.now, **parameters},
    )
    unit.announce(endpoints.TOPIC)
    return len(rows)


def purge(unit: Unit, before_id: str, limit: int) -> int:
    """Delete up to `limit` deliveries with an id less than `before_id`; return how many were deleted.

    A pending delivery is kept as long as its endpoint exists.
    """
    rows = unit.execute(
        "SELECT id FROM deliveries AS d WHERE id < :before AND (status <> 'pending' OR NOT EXISTS"
        " (SELECT 1 FROM webhook_endpoints AS w WHERE w.id = d.endpoint)) ORDER BY id LIMIT :limit",
        {"before": before_id, "limit": limit},
    )
    ids: list[dict[str, Value]] = [{"id": row["id"]} for row in rows]
    unit.execute_many("DELETE FROM delivery_attempts WHERE delivery = :id", ids)
    unit.execute_many("DELETE FROM deliveries WHERE id = :id", ids)
    return len(ids)


def _fill(
    unit: Unit, tenant: Tenant, deliveries: list[Delivery], deleted_endpoints: Collection[str] = ()
) -> None:
    """Add the event's type and the attempts to each delivery.

    The body of an event about a user is added only if the tenant may read users. A pending delivery to one of
    the `deleted_endpoints` is shown as failed, because nothing more is sent to this endpoint.
    """
    if not deliveries:
        return
    id_list, parameters = any_of(delivery.id for delivery in deliveries)
    rows = unit.execute(
        f"SELECT * FROM delivery_attempts WHERE delivery IN ({id_list}) ORDER BY delivery, number", parameters
    )
    of_delivery: dict[str, list[Row]] = {}
    for row in rows:
        of_delivery.setdefault(row["delivery"], []).append(row)
    for delivery in deliveries:
        event = unit.first(
            f"SELECT {outbox.COLUMNS}, :livemode AS livemode FROM events AS e {outbox.JOIN}"
            f" WHERE e.{OF_BOOK} AND e.id = :id",
            tenant.bind(id=delivery.event),
        )
        assert event is not None, "a delivery has an event"
        delivery.event_type = event["type"]
        if delivery.status == "pending" and delivery.endpoint in deleted_endpoints:
            delivery.status, delivery.next_attempt_at = "failed", None
        body: str | None = outbox.body_of(event).encode()[:SHOWN_MAX].decode(errors="ignore")
        if event["type"] in outbox.USER_KINDS and not tenant.may_see_users():
            body = None
        delivery.attempts = [_attempt(row, body) for row in of_delivery.get(delivery.id, [])]


def _attempt(row: Row, body: str | None) -> Attempt:
    response: HttpMessage | None = None
    if row["response_headers"] is not None:
        response = {"headers": _by_name(row["response_headers"]), "body": row["response_body"]}
    return {
        "number": row["number"],
        "attempted_at": iso(row["attempted_at"]),
        "status": row["status"],
        "error": row["error"],
        "latency_ms": row["latency_ms"],
        "request": {"headers": _by_name(row["request_headers"]), "body": body},
        "response": response,
    }


def _by_name(text: str) -> dict[str, str]:
    """Return the headers in a JSON array of pairs, by name.

    The values of a repeated header are joined with commas, as HTTP allows.
    """
    headers: dict[str, str] = {}
    for name, value in json.loads(text):
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _read(row: Row) -> Delivery:
    return Delivery(
        id=row["id"],
        endpoint=row["endpoint"],
        event=row["event"],
        event_type="",
        status=row["status"],
        next_attempt_at=row["due"],
        attempts=[],
        created=row["created"],
        livemode=bool(row["livemode"]),
    )


_LISTING: Listing[Delivery] = Listing(
    "deliveries", "delivery", _read, was_listed=expires_with("dlv", LOGS_KEPT_FOR)
)


async def resend_failed(
    engine: Engine, tenant: Tenant, since: int, endpoint: str | None = None, key: str | None = None
) -> ResentFailed:
    """Send failed deliveries again now if their last attempt was at `since` or later.

    Return how many deliveries are sent again, and the endpoints that are skipped.

    Only deliveries to enabled endpoints are sent; with `endpoint`, only deliveries to this endpoint.
    Deliveries that already wait to be resent stay as they are. A delivery with an attempt in progress is sent
    again after this attempt. Raises NotFound for the endpoint, and DuplicateIdempotencyKey.
    """
    # Only one call runs at a time: otherwise the engine would group the commits of several calls into one
    # long commit.
    async with engine.shared_state.semaphores.hold(_ONE_AT_A_TIME, wait=True):
        begin = partial(_begin, tenant=tenant, since=since, endpoint=endpoint, key=key)
        endpoint_ids, skips, until = await engine.read(begin)
        attempted_at, count = since, 0

        async def turn() -> int:
            nonlocal attempted_at, count
            find = partial(failed, tenant=tenant, endpoints=endpoint_ids, since=attempted_at)
            # Read outside of the commit, because the search may be long: many other deliveries may lie
            # between two failed deliveries.
            rows = await engine.read(partial(find, until=until, limit=AT_ONCE))
            if rows:
                attempted_at = rows[-1].attempted_at
                ids = [delivery.id for delivery in rows]
                count += await engine.write(partial(send_again, ids=ids))
            return len(rows)

        await take_turns(turn)
        # Store the idempotency key last, so that an interrupted request can be repeated.
        if key is not None:
            object = endpoint or tenant.project
            await engine.write(partial(idempotency.take, tenant=tenant, key=key, object=object))
        return ResentFailed(count, skips)


def _begin(
    unit: Unit, tenant: Tenant, since: int, endpoint: str | None, key: str | None
) -> tuple[list[str], list[SkippedEndpoint], int]:
    """Return the endpoints to resend to, the endpoints to skip, and the present time.

    Deliveries that fail after this time are not resent.
    """
    receivers = endpoints.receivers(unit, tenant, endpoint)
    ids = [receiver.endpoint for receiver in receivers if receiver.status == "enabled"]
    others = {receiver.endpoint: receiver.status for receiver in receivers if receiver.status != "enabled"}
    failing = _failing(unit, tenant, since, [*others]) if others else set()
    skips = [SkippedEndpoint(id, status) for id, status in others.items() if id in failing]
    used = None if key is None else idempotency.second_use(unit, tenant, key)
    if used is not None:
        raise used
    return ids, skips, unit.now


def _failing(unit: Unit, tenant: Tenant, since: int, endpoint_ids: Sequence[str]) -> set[str]:
    """Return the endpoints that have a failed delivery whose last attempt was at `since` or later."""
    id_list, parameters = any_of(endpoint_ids)
    rows = unit.execute(
        "SELECT DISTINCT endpoint FROM deliveries WHERE project = :project AND livemode = :livemode"
        f" AND attempted_at >= :since AND status <> 'succeeded' AND {_FAILED} AND endpoint IN ({id_list})",
        tenant.bind(since=since) | parameters,
    )
    return {row["endpoint"] for row in rows}


COUNTED_MAX = 10_000  # `measure` counts at most this many events after the cursor of each endpoint


@dataclass(slots=True)
class Backlog:
    """The deliveries still to be made.

    `events` counts first attempts that are not recorded yet, and `retries` counts deliveries that wait for
    another attempt. `oldest` is the time in milliseconds at which the oldest of these events and deliveries
    was created; it is None if the backlog is empty.
    """

    events: int = 0
    retries: int = 0
    oldest: int | None = None

    def _note_oldest(self, created: int | None) -> None:
        if created is not None:
            self.oldest = created if self.oldest is None else min(self.oldest, created)


def measure(unit: Unit) -> Backlog:
    """Return the backlog of all projects."""
    backlog = Backlog()
    for subscription in endpoints.subscriptions(unit):
        type_list, parameters = any_of(sorted(subscription.kinds or ()))
        types_match = "1 = 1" if subscription.kinds is None else f"type IN ({type_list})"
        row = unit.first(
            f"SELECT sum(CASE WHEN {types_match} THEN 1 ELSE 0 END) AS events,"
            f" min(CASE WHEN {types_match} THEN created END) AS oldest FROM"
            f" (SELECT type, created FROM events WHERE {OF_BOOK} AND id > :cursor ORDER BY id LIMIT :most)"
            " AS following",
            Tenant(subscription.project, subscription.livemode).bind(
                cursor=subscription.cursor, most=COUNTED_MAX
            )
            | parameters,
        )
        assert row is not None, "an aggregate has one row"
        backlog.events += row["events"] or 0
        backlog._note_oldest(row["oldest"])
        row = unit.first(
            "SELECT count(*) AS retries, min(created) AS oldest FROM deliveries"
            " WHERE endpoint = :endpoint AND status = 'pending'",
            {"endpoint": subscription.endpoint},
        )
        assert row is not None
        backlog.retries += row["retries"]
        backlog._note_oldest(row["oldest"])
    return backlog
