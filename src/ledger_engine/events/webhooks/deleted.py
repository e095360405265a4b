"""Deleted webhook endpoints, which can be restored for 30 days. Their secrets are deleted at once."""

from __future__ import annotations

from functools import partial

from ledger_engine.access import idempotency
from ledger_engine.access.quotas import RECOVERABLE_FOR
from ledger_engine.core.errors import Conflict
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.events.webhooks import endpoints
from ledger_engine.events.webhooks.endpoints import EndpointWithSecret, WebhookEndpoint
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine
from ledger_engine.store.turns import AT_ONCE, take_turns

_KEPT = "id, project, livemode, url, events, status, disabled_reason, disabled_at, created"


def delete(unit: Unit, tenant: Tenant, id: str) -> WebhookEndpoint:
    """Delete the endpoint and its secret: what was not delivered to it is not sent any more.

    Its open deliveries may be many and are left as they are: nobody sends or shows them while the endpoint is
    not there. `restore` ends them.
    """
    endpoint = endpoints.get(unit, tenant, id)
    of_endpoint = tenant.bind(id=id, now=unit.now)
    unit.execute(
        f"INSERT INTO deleted_webhook_endpoints ({_KEPT}, deleted_at)"
        f" SELECT {_KEPT}, :now FROM webhook_endpoints"
        " WHERE id = :id AND project = :project AND livemode = :livemode",
        of_endpoint,
    )
    unit.execute(
        "DELETE FROM webhook_endpoints WHERE id = :id AND project = :project AND livemode = :livemode",
        of_endpoint,
    )
    unit.announce(endpoints.TOPIC)
    return endpoint


async def end_deliveries(engine: Engine, tenant: Tenant, id: str) -> None:
    """End the open deliveries of a deleted endpoint, in short turns, so that `restore` has little to do."""

    async def turn() -> int:
        return await engine.write(partial(_end_some, tenant=tenant, id=id, limit=AT_ONCE))

    await take_turns(turn)


def restore(
    unit: Unit, tenant: Tenant, id: str, secret: str, sealed: str, key: str | None = None
) -> EndpointWithSecret:
    """Restore an endpoint that was deleted at most 30 days ago, with a new secret.

    It gets the events from now on, and nothing that was open when it was deleted. Raises NotFound, Conflict
    for one that is not deleted, and PermissionDenied as `endpoints.create` does.
    """
    idempotency.take(unit, tenant, key, id)
    row = unit.first(
        "DELETE FROM deleted_webhook_endpoints WHERE id = :id AND project = :project"
        " AND livemode = :livemode AND deleted_at >= :oldest RETURNING *",
        tenant.bind(id=id, oldest=unit.now - RECOVERABLE_FOR),
    )
    if row is None:
        endpoints.get(unit, tenant, id)
        raise Conflict("not_recoverable", f"{id} is not deleted.")
    endpoint = endpoints.read(row)
    unit.execute(
        "UPDATE deliveries SET status = 'failed', due = NULL WHERE endpoint = :id AND status = 'pending'"
        " AND project = :project AND livemode = :livemode",
        tenant.bind(id=id),
    )
    if endpoints.EVERY in endpoint.events or not set(endpoint.events).isdisjoint(outbox.USER_KINDS):
        tenant.require_scope("read:users")
    return endpoints.add(unit, tenant, endpoint, secret, sealed)


def every(unit: Unit, project: str) -> list[WebhookEndpoint]:
    """Return the endpoints of both modes that can be restored, oldest first; for the local administrator."""
    rows = unit.execute(
        "SELECT * FROM deleted_webhook_endpoints WHERE project = :project AND deleted_at >= :oldest"
        " ORDER BY id",
        {"project": project, "oldest": unit.now - RECOVERABLE_FOR},
    )
    return [endpoints.read(row) for row in rows]


def tenant_of(unit: Unit, id: str) -> Tenant:
    """Return the local administrator's tenant of an endpoint's project and mode, deleted or not.

    Raises NotFound.
    """
    row = unit.first("SELECT project, livemode FROM deleted_webhook_endpoints WHERE id = :id", {"id": id})
    return endpoints.tenant_of(unit, id) if row is None else Tenant(row["project"], bool(row["livemode"]))


def purge(unit: Unit, before: int, limit: int) -> int:
    """Purge up to `limit` endpoints that were deleted before `before`; return how many."""
    forgotten = unit.execute(
        "DELETE FROM deleted_webhook_endpoints WHERE id IN (SELECT id FROM deleted_webhook_endpoints"
        " WHERE deleted_at < :before ORDER BY deleted_at LIMIT :limit) RETURNING id",
        {"before": before, "limit": limit},
    )
    return len(forgotten)


def _end_some(unit: Unit, tenant: Tenant, id: str, limit: int) -> int:
    """End up to `limit` open deliveries of an endpoint that is deleted; return how many."""
    ended = unit.execute(
        "UPDATE deliveries SET status = 'failed', due = NULL WHERE id IN (SELECT d.id FROM deliveries AS d"
        " JOIN deleted_webhook_endpoints AS w ON w.id = d.endpoint WHERE w.id = :id AND w.project = :project"
        " AND w.livemode = :livemode AND d.status = 'pending' LIMIT :limit) RETURNING id",
        tenant.bind(id=id, limit=limit),
    )
    return len(ended)
