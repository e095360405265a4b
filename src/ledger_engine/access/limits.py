"""The limits of each plan: requests, stored objects, webhook endpoints (docs/interface.md#limits)."""

from __future__ import annotations

from dataclasses import dataclass

from ledger_engine.core.clock import DAY
from ledger_engine.core.errors import PermissionDenied
from ledger_engine.core.tenant import Tenant
from ledger_engine.database import Unit


@dataclass(frozen=True, slots=True)
class Plan:
    """The limits of a plan.

    `requests_per_minute` and `burst` (requests in one second) count per API key; `stored_objects` and
    `webhook_endpoints` per project and mode, None for no limit.
    """

    requests_per_minute: int
    burst: int
    stored_objects: int | None
    webhook_endpoints: int | None


RECOVERABLE_FOR = 30 * DAY  # deleted objects (docs/interface.md#quotas-and-retention)
PLANS = {
    "free": Plan(requests_per_minute=60, burst=10, stored_objects=10_000, webhook_endpoints=5),
    "pro": Plan(requests_per_minute=600, burst=50, stored_objects=500_000, webhook_endpoints=50),
    # The limits of the enterprise plan are negotiated: a project may have its own
    # (docs/decisions.md#projects-enterprise).
    "enterprise": Plan(requests_per_minute=6_000, burst=200, stored_objects=None, webhook_endpoints=None),
}


def count_stored(unit: Unit, tenant: Tenant, objects: int = 1, before: int = 0) -> None:
    """Count new objects of the project and mode; raises PermissionDenied when they exceed the quota.

    `before` is the number of objects that the same work has counted already: when it fails, all of them are
    rolled back together.
    """
    counted = unit.first(
        "INSERT INTO counters (project, livemode, stored_objects) VALUES (:project, :livemode, :objects)"
        " ON CONFLICT (project, livemode) DO UPDATE SET stored_objects = counters.stored_objects + :objects"
        " RETURNING stored_objects",
        tenant.bind(objects=objects),
    )
    assert counted is not None
    if tenant.quota is not None and counted["stored_objects"] > tenant.quota:
        left = max(0, tenant.quota - (counted["stored_objects"] - objects - before))
        remaining = f"has {left:,} left" if left else "is used up"
        raise PermissionDenied(
            "quota_exceeded", f"The plan's quota of {tenant.quota:,} stored objects {remaining}."
        )
