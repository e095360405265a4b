"""Webhook endpoints: URLs to which a project's events are sent, each with its signing secret.

See docs/decisions.md#webhooks.

An endpoint is registered for certain kinds of events, and wants only events of these kinds. Each endpoint has
a cursor, the id of an event: all wanted events up to this event were attempted, and all later wanted events
must still be sent. The cursor is stored, so no event is missed if the sending process ends.

A deleted endpoint can be restored for 30 days, with a new secret.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass
from functools import partial
from operator import itemgetter
from typing import Annotated, ClassVar

from ledger_engine.access import api_keys, idempotency, projects
from ledger_engine.access.quotas import RECOVERABLE_FOR
from ledger_engine.core.clock import DAY
from ledger_engine.core.errors import Conflict, InvalidRequest, NotFound, PermissionDenied
from ledger_engine.core.ids import EndpointId
from ledger_engine.core.records import Moment, OneOf, Pattern, dumps
from ledger_engine.core.tasks import AT_ONCE, take_turns
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.events.webhooks.addresses import URL_PATTERN, parse_url
from ledger_engine.store import Row, Unit, Value
from ledger_engine.store.books import OF_TENANT
from ledger_engine.store.engine import Engine
from ledger_engine.store.pages import Listing, Page, PageRequest
from ledger_engine.store.rows import any_of, insert, reader, update_row

TOPIC = "webhooks"  # a commit announces this topic if it changed an endpoint or a delivery
EVERY = "*"
# How long the previous secret still signs after a roll (docs/decisions.md#webhooks-roll).
PREVIOUS_SIGNS_FOR = DAY
# The time without any success after which an endpoint is disabled (docs/decisions.md#webhooks-retries).
DISABLED_AFTER = 5 * DAY
# The columns of a deleted endpoint that are kept; its secrets are deleted at once.
_COLUMNS = (
    "id, project, livemode, url, events, status, disabled_reason, disabled_at, created, enables, restores"
)


@dataclass(slots=True)
class WebhookEndpoint:
    """An endpoint for webhooks. `events` are kinds of events, or `*` for all. `disabled_reason` is `asked`,
    `gone` (the receiver answered 410) or `failing` (no attempt succeeded for five days)."""

    OBJECT: ClassVar[str] = "webhook_endpoint"

    id: EndpointId
    url: Annotated[str, Pattern(URL_PATTERN)]
    events: list[Annotated[str, Pattern(r"^(\*|[a-z]+\.[a-z]+)$")]]
    status: Annotated[str, OneOf("enabled", "disabled")]
    disabled_reason: Annotated[str, OneOf("asked", "gone", "failing")] | None
    disabled_at: Moment | None
    created: Moment
    livemode: bool


@dataclass(slots=True)
class EndpointWithSecret(WebhookEndpoint):
    """The endpoint with its signing secret, which is shown only once."""

    secret: str


@dataclass(slots=True)
class NewEndpoint:
    url: str
    events: list[str]


@dataclass(frozen=True, slots=True)
class Subscription:
    """An enabled endpoint as the deliverer needs it.

    `kinds` are the kinds of events to send, or None for every kind. `secret` is the secret in its stored form
    (`signing.Seal`). `previous` is the stored form of the secret before the last roll, which also signs until
    `previous_until`. `enables` counts how often the endpoint was enabled or restored. `restores` counts how
    often the endpoint was restored.
    """

    endpoint: str
    project: str
    livemode: bool
    url: str
    kinds: frozenset[str] | None
    secret: str
    cursor: str
    previous: str | None = None
    previous_until: int = 0
    enables: int = 0
    restores: int = 0

    def is_sent_as(self, other: Subscription) -> bool:
        """Return whether a message that was signed for `other` may still be sent to this endpoint."""
        return (self.secret, self.enables) == (other.secret, other.enables)


@dataclass(frozen=True, slots=True)
class ResendTarget:
    """An endpoint that exists or can be restored, with its status: `enabled`, `disabled` or `deleted`.

    `kinds` are the kinds of events that it receives, or None for every kind.
    """

    endpoint: str
    kinds: frozenset[str] | None
    status: str

    def wants(self, kind: str) -> bool:
        """Return whether the endpoint receives events of this kind."""
        return self.kinds is None or kind in self.kinds


def new_secret() -> str:
    """Return a new `whsec_…` secret. Call this outside of the work that stores it."""
    return api_keys.new_secret("whsec")


def create(
    unit: Unit, tenant: Tenant, new: NewEndpoint, secret: str, sealed_secret: str, key: str | None = None
) -> EndpointWithSecret:
    """Register an endpoint for future events; `sealed_secret` is the stored form of `secret`.

    Raises InvalidRequest for an invalid URL or kind. Raises PermissionDenied if the plan allows no more
    endpoints, or if the credential may not read the events of one of the kinds.
    """
    parse_url(new.url, livemode=tenant.livemode)
    kinds = _permitted_kinds(tenant, _check_kinds(new.events))
    endpoint = WebhookEndpoint(
        id=unit.new_id("whe"),
        url=new.url,
        events=kinds,
        status="enabled",
        disabled_reason=None,
        disabled_at=None,
        created=Moment(unit.now),
        livemode=tenant.livemode,
    )
    idempotency.take(unit, tenant, key, endpoint.id)
    return add(unit, tenant, endpoint, secret, sealed_secret)


def add(
    unit: Unit,
    tenant: Tenant,
    endpoint: WebhookEndpoint,
    secret: str,
    sealed_secret: str,
    *,
    enables: int = 0,
    restores: int = 0,
) -> EndpointWithSecret:
    """Store an endpoint that receives future events.

    `enables` and `restores` are the counts described in `Subscription`; both are 0 for a new endpoint. Raises
    PermissionDenied if the plan allows no more endpoints.
    """
    _check_quota(unit, tenant)
    values = tenant.bind(
        id=endpoint.id,
        url=endpoint.url,
        events=dumps(endpoint.events),
        secret=sealed_secret,
        status=endpoint.status,
        disabled_reason=endpoint.disabled_reason,
        disabled_at=endpoint.disabled_at,
        cursor=outbox.resume(unit, tenant, None),
        created=endpoint.created,
        enables=enables,
        restores=restores,
    )
    insert(unit, "webhook_endpoints", values)
    unit.announce(TOPIC)
    return _with_secret(endpoint, secret)


def get(unit: Unit, tenant: Tenant, id: str, param: str | None = None) -> WebhookEndpoint:
    """Return the endpoint. Raises NotFound, which names `param`, the request's field that held the id."""
    return _LISTING.get(unit, tenant, id, param)


def page(unit: Unit, tenant: Tenant, request: PageRequest) -> Page[WebhookEndpoint]:
    """Return a page of endpoints, newest first."""
    return _LISTING.page(unit, tenant, request, {})


def roll_secret(
    unit: Unit, tenant: Tenant, id: str, secret: str, sealed_secret: str, key: str | None = None
) -> EndpointWithSecret:
    """Replace the secret at once: all later attempts, also retries, are signed with the new secret.

    For a day, these attempts are also signed with the previous secret.
    """
    idempotency.take(unit, tenant, key, id)
    unit.execute(
        "UPDATE webhook_endpoints SET secret = :secret, previous_secret = secret, previous_until = :until"
        " WHERE id = :id AND project = :project AND livemode = :livemode",
        tenant.bind(id=id, secret=sealed_secret, until=unit.now + PREVIOUS_SIGNS_FOR),
    )
    unit.announce(TOPIC)
    return _with_secret(get(unit, tenant, id), secret)


def disable(unit: Unit, tenant: Tenant, id: str, key: str | None = None) -> WebhookEndpoint:
    """Stop sending to the endpoint. An endpoint that is already disabled is not changed."""
    idempotency.take(unit, tenant, key, id)
    values: dict[str, Value] = {"status": "disabled", "disabled_reason": "asked", "disabled_at": unit.now}
    update_row(unit, tenant, "webhook_endpoints", id, "status = 'enabled'", **values)
    unit.announce(TOPIC)
    return get(unit, tenant, id)


def enable(unit: Unit, tenant: Tenant, id: str, key: str | None = None) -> WebhookEndpoint:
    """Start sending again from the first event that was not sent, so that no event is missed."""
    idempotency.take(unit, tenant, key, id)
    unit.execute(
        "UPDATE webhook_endpoints SET status = 'enabled', disabled_reason = NULL, disabled_at = NULL,"
        " failing_since = NULL, enables = enables + 1"
        f" WHERE id = :id AND {OF_TENANT}",
        tenant.bind(id=id),
    )
    unit.announce(TOPIC)
    return get(unit, tenant, id)


def delete(unit: Unit, tenant: Tenant, id: str) -> WebhookEndpoint:
    """Delete the endpoint and its secret; its pending deliveries are not sent any more.

    There may be many pending deliveries, so their rows are not changed here. Nothing sends them while the
    endpoint is deleted, and the module `deliveries` shows them as failed. If the endpoint is restored,
    `end_deliveries` and `restore` set the rows to `failed`.
    """
    endpoint = get(unit, tenant, id)
    of_endpoint = tenant.bind(id=id, now=unit.now)
    unit.execute(
        f"INSERT INTO deleted_webhook_endpoints ({_COLUMNS}, deleted_at)"
        f" SELECT {_COLUMNS}, :now FROM webhook_endpoints"
        " WHERE id = :id AND project = :project AND livemode = :livemode",
        of_endpoint,
    )
    unit.execute(
        "DELETE FROM webhook_endpoints WHERE id = :id AND project = :project AND livemode = :livemode",
        of_endpoint,
    )
    unit.announce(TOPIC)
    return endpoint


async def end_deliveries(engine: Engine, tenant: Tenant, id: str) -> None:
    """Set the pending deliveries of a deleted endpoint to `failed`, in short commits.

    Call this before `restore`, so that the commit of `restore` is short too.
    """

    async def turn() -> int:
        return await engine.write(partial(_fail_some, tenant=tenant, id=id, limit=AT_ONCE))

    await take_turns(turn)


def restore(
    unit: Unit, tenant: Tenant, id: str, secret: str, sealed_secret: str, key: str | None = None
) -> EndpointWithSecret:
    """Restore an endpoint that was deleted at most 30 days ago, with a new secret.

    The endpoint gets only future events. Deliveries that were pending when the endpoint was deleted are not
    sent. Raises NotFound. Raises Conflict if the endpoint is not deleted. Raises PermissionDenied as `create`
    does.
    """
    idempotency.take(unit, tenant, key, id)
    row = unit.first(
        "DELETE FROM deleted_webhook_endpoints WHERE id = :id AND project = :project"
        " AND livemode = :livemode AND deleted_at >= :oldest RETURNING *",
        tenant.bind(id=id, oldest=unit.now - RECOVERABLE_FOR),
    )
    if row is None:
        get(unit, tenant, id)
        raise Conflict("not_recoverable", f"{id} is not deleted.")
    endpoint = read(row)
    unit.execute(
        "UPDATE deliveries SET status = 'failed', due = NULL WHERE endpoint = :id AND status = 'pending'"
        " AND project = :project AND livemode = :livemode",
        tenant.bind(id=id),
    )
    if EVERY in endpoint.events or not set(endpoint.events).isdisjoint(outbox.USER_KINDS):
        tenant.require_scope("read:users")
    counts = {"enables": row["enables"] + 1, "restores": row["restores"] + 1}
    return add(unit, tenant, endpoint, secret, sealed_secret, **counts)


def every(unit: Unit, project: str) -> list[WebhookEndpoint]:
    """Return a project's endpoints of both modes, oldest first; for the local administrator."""
    rows = unit.execute(
        "SELECT * FROM webhook_endpoints WHERE project = :project ORDER BY livemode, id", {"project": project}
    )
    return [read(row) for row in rows]


def deleted(unit: Unit, project: str) -> list[WebhookEndpoint]:
    """Return a project's deleted endpoints that can be restored, of both modes, oldest first.

    This is for the local administrator.
    """
    rows = unit.execute(
        "SELECT * FROM deleted_webhook_endpoints WHERE project = :project AND deleted_at >= :oldest"
        " ORDER BY id",
        {"project": project, "oldest": unit.now - RECOVERABLE_FOR},
    )
    return [read(row) for row in rows]


def tenant_of(unit: Unit, id: str) -> Tenant:
    """Return the tenant for an endpoint's project and mode, with all rights, for the local administrator.

    The endpoint may be deleted. Raises NotFound.
    """
    row = unit.first(
        "SELECT project, livemode FROM webhook_endpoints WHERE id = :id"
        " UNION ALL SELECT project, livemode FROM deleted_webhook_endpoints WHERE id = :id",
        {"id": id},
    )
    if row is None:
        raise NotFound("webhook endpoint", id)
    return Tenant(row["project"], bool(row["livemode"]))


def receivers(unit: Unit, tenant: Tenant, id: str | None = None) -> list[ResendTarget]:
    """Return the endpoints of the project and mode that exist or can be restored, ordered by id.

    With `id`, return only this endpoint. If there is no such endpoint, raises NotFound, which names the
    parameter `endpoint`.
    """
    rows = unit.execute(
        f"SELECT id, events, status FROM webhook_endpoints WHERE {OF_TENANT} UNION ALL"
        f" SELECT id, events, 'deleted' AS status FROM deleted_webhook_endpoints WHERE {OF_TENANT}"
        " AND deleted_at >= :oldest",
        tenant.bind(oldest=unit.now - RECOVERABLE_FOR),
    )
    matches = [
        ResendTarget(row["id"], _kinds(row), row["status"])
        for row in sorted(rows, key=itemgetter("id"))
        if id in (None, row["id"])
    ]
    if id is not None and not matches:
        raise NotFound("webhook endpoint", id, "endpoint")
    return matches


# For the deliverer


def subscriptions(unit: Unit) -> list[Subscription]:
    """Return all enabled endpoints of projects that are not archived."""
    rows = unit.execute(
        "SELECT w.* FROM webhook_endpoints AS w JOIN projects AS p ON p.id = w.project"
        " WHERE w.status = 'enabled' AND p.archived_at IS NULL ORDER BY w.id"
    )
    return [_subscription(row) for row in rows]


def advance(unit: Unit, id: str, cursor: str) -> None:
    """Move an endpoint's cursor forward to the event `cursor`.

    Call this when all wanted events up to this event were attempted.

    The cursor does not move to an event that does not exist: a failover of the database may have lost the
    event.
    """
    unit.execute(
        "UPDATE webhook_endpoints SET cursor = :cursor WHERE id = :id AND cursor < :cursor AND EXISTS"
        " (SELECT 1 FROM books AS b JOIN events AS e ON e.book = b.book AND e.id = :cursor"
        " WHERE b.project = webhook_endpoints.project AND b.livemode = webhook_endpoints.livemode)",
        {"id": id, "cursor": cursor},
    )


def restores(unit: Unit, ids: Collection[str]) -> dict[str, int]:
    """Return how often each of these endpoints was restored; deleted endpoints are left out."""
    if not ids:
        return {}
    id_list, parameters = any_of(sorted(ids))
    rows = unit.execute(f"SELECT id, restores FROM webhook_endpoints WHERE id IN ({id_list})", parameters)
    return {row["id"]: row["restores"] for row in rows}


def note_outcomes(unit: Unit, id: str, enables: int, now: int, *, any_succeeded: bool, is_gone: bool) -> None:
    """Record the success or failure of attempts in the endpoint's row.

    The status 410 disables the endpoint at once. A failure disables it if no attempt has succeeded for five
    days. `enables` is the value that the endpoint's count `enables` had when the attempts were read. If the
    stored count has another value, the endpoint was enabled or restored in the meantime. In this case the
    function ignores the attempts.
    """
    row = unit.first(
        "UPDATE webhook_endpoints SET failing_since = CASE WHEN :succeeded = 1 THEN NULL"
        " ELSE COALESCE(failing_since, :now) END WHERE id = :id AND status = 'enabled'"
        " AND enables = :enables RETURNING failing_since",
        {"id": id, "enables": enables, "now": now, "succeeded": any_succeeded},
    )
    if row is None:
        return
    failing = row["failing_since"] is not None and now - row["failing_since"] >= DISABLED_AFTER
    if not (is_gone or failing):
        return
    unit.execute(
        "UPDATE webhook_endpoints SET status = 'disabled', disabled_reason = :reason, disabled_at = :now"
        " WHERE id = :id",
        {"id": id, "now": now, "reason": "gone" if is_gone else "failing"},
    )
    unit.announce(TOPIC)


def begin_sending(unit: Unit) -> None:
    """For each failing endpoint, let the five days until it is disabled begin again.

    Call this after a time in which nothing was sent.
    """
    unit.execute(
        "UPDATE webhook_endpoints SET failing_since = :now WHERE failing_since IS NOT NULL", {"now": unit.now}
    )


def sealed_secrets(unit: Unit) -> list[tuple[str, str]]:
    """Return the id and the stored secret of every endpoint."""
    return [(row["id"], row["secret"]) for row in unit.execute("SELECT id, secret FROM webhook_endpoints")]


def sealed_previous_secrets(unit: Unit) -> list[tuple[str, str]]:
    """Return the id and the stored previous secret of every endpoint that has a previous secret."""
    rows = unit.execute("SELECT id, previous_secret FROM webhook_endpoints WHERE previous_secret IS NOT NULL")
    return [(row["id"], row["previous_secret"]) for row in rows]


def replace_sealed(unit: Unit, id: str, old: str, new: str) -> None:
    """Replace the stored form `old` of an endpoint's secret by the form `new` of the same secret.

    If the secret was rolled in the meantime, it is now the previous secret, and is replaced in the column of
    the previous secret.
    """
    for column in ("secret", "previous_secret"):
        unit.execute(
            f"UPDATE webhook_endpoints SET {column} = :new WHERE id = :id AND {column} = :old",
            {"id": id, "old": old, "new": new},
        )


def forget_previous_secrets(unit: Unit) -> None:
    """Delete the previous secrets that no longer sign, because their time is over."""
    unit.execute(
        "UPDATE webhook_endpoints SET previous_secret = NULL, previous_until = NULL"
        " WHERE previous_until <= :now",
        {"now": unit.now},
    )


def purge(unit: Unit, before: int, limit: int) -> int:
    """Erase the URLs of up to `limit` endpoints that were deleted before `before`; return the number erased.

    The rows stay, because their ids stay valid as cursors for ever (docs/decisions.md#lists-next-cursor).
    """
    rows = unit.execute(
        "UPDATE deleted_webhook_endpoints SET url = '', events = '[]' WHERE id IN"
        " (SELECT id FROM deleted_webhook_endpoints WHERE deleted_at < :before AND url <> ''"
        " ORDER BY deleted_at LIMIT :limit) RETURNING id",
        {"before": before, "limit": limit},
    )
    return len(rows)


def _fail_some(unit: Unit, tenant: Tenant, id: str, limit: int) -> int:
    """Set up to `limit` pending deliveries of a deleted endpoint to `failed`; return how many were set."""
    rows = unit.execute(
        "UPDATE deliveries SET status = 'failed', due = NULL WHERE id IN (SELECT d.id FROM deliveries AS d"
        " JOIN deleted_webhook_endpoints AS w ON w.id = d.endpoint WHERE w.id = :id AND w.project = :project"
        " AND w.livemode = :livemode AND d.status = 'pending' LIMIT :limit) RETURNING id",
        tenant.bind(id=id, limit=limit),
    )
    return len(rows)


def _check_kinds(kinds: list[str]) -> list[str]:
    if not kinds:
        raise InvalidRequest("invalid_value", "events must name a kind of event, or be ['*'].", "events")
    for position, kind in enumerate(kinds):
        if kind != EVERY and kind not in outbox.KINDS:
            raise InvalidRequest(
                "invalid_value", f"events must be among *, {', '.join(outbox.KINDS)}.", f"events.{position}"
            )
    return [EVERY] if EVERY in kinds else list(dict.fromkeys(kinds))


def _permitted_kinds(tenant: Tenant, kinds: list[str]) -> list[str]:
    """Return the kinds of events for an endpoint that this credential registers with `kinds`.

    A webhook must not reveal data that the credential may not read. So if the credential may not read users,
    `*` becomes all kinds that are not about users. In this case a kind about users raises PermissionDenied.
    """
    if tenant.may_see_users():
        return kinds
    if kinds == [EVERY]:
        return [kind for kind in outbox.KINDS if kind not in outbox.USER_KINDS]
    if not set(kinds).isdisjoint(outbox.USER_KINDS):
        tenant.require_scope("read:users")
    return kinds


def _check_quota(unit: Unit, tenant: Tenant) -> None:
    most = projects.get(unit, tenant.project).limits.webhook_endpoints
    row = unit.first(
        "SELECT count(*) AS endpoints FROM webhook_endpoints"
        " WHERE project = :project AND livemode = :livemode",
        tenant.bind(),
    )
    assert row is not None
    if most is not None and row["endpoints"] >= most:
        raise PermissionDenied("quota_exceeded", f"The plan allows {most} webhook endpoints.")


def _kinds(row: Row) -> frozenset[str] | None:
    """Return the kinds of events that an endpoint receives; None for every kind."""
    types = json.loads(row["events"])
    return None if EVERY in types else frozenset(types)


def _subscription(row: Row) -> Subscription:
    return Subscription(
        endpoint=row["id"],
        project=row["project"],
        livemode=bool(row["livemode"]),
        url=row["url"],
        kinds=_kinds(row),
        secret=row["secret"],
        cursor=row["cursor"],
        previous=row["previous_secret"],
        previous_until=row["previous_until"] or 0,
        enables=row["enables"],
        restores=row["restores"],
    )


def _with_secret(endpoint: WebhookEndpoint, secret: str) -> EndpointWithSecret:
    return EndpointWithSecret(**asdict(endpoint), secret=secret)


read = reader(WebhookEndpoint)  # reads an enabled, disabled or deleted endpoint
_DELETED: Listing[WebhookEndpoint] = Listing("deleted_webhook_endpoints", "webhook endpoint", read)
_LISTING: Listing[WebhookEndpoint] = Listing(
    "webhook_endpoints", "webhook endpoint", read, was_listed=_DELETED.has
)
