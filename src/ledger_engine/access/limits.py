"""What a plan allows: requests, stored objects, webhook endpoints (interface.md, Limits)."""

from __future__ import annotations

from dataclasses import dataclass

from ledger_engine.core.errors import PermissionDenied
from ledger_engine.core.tenant import Scope
from ledger_engine.database import Unit


@dataclass(frozen=True, slots=True)
class Plan:
    """`requests_per_minute` and `burst` (requests in one second) count per API key; `stored_objects`
    and `webhook_endpoints` per project and mode, None for no limit."""

    requests_per_minute: int
    burst: int
    stored_objects: int | None
    webhook_endpoints: int | None


PLANS = {
    "free": Plan(requests_per_minute=60, burst=10, stored_objects=10_000, webhook_endpoints=5),
    "pro": Plan(requests_per_minute=600, burst=50, stored_objects=500_000, webhook_endpoints=50),
    # Enterprise limits are negotiated: a project may set its own in place of these (decisions.md 3).
    "enterprise": Plan(requests_per_minute=6_000, burst=200, stored_objects=None, webhook_endpoints=None),
}


def count_stored(unit: Unit, scope: Scope, objects: int = 1, before: int = 0) -> None:
    """Count new objects of the project and mode; raises PermissionDenied when they go over the quota.

    `before` is how many the same work has counted already: with it all of them are given back.
    """
    counted = unit.first(
        "INSERT INTO counters (project, livemode, stored_objects) VALUES (:project, :livemode, :objects)"
        " ON CONFLICT (project, livemode) DO UPDATE SET stored_objects = counters.stored_objects + :objects"
        " RETURNING stored_objects",
        scope.bind(objects=objects),
    )
    assert counted is not None
    if scope.quota is not None and counted["stored_objects"] > scope.quota:
        left = max(0, scope.quota - (counted["stored_objects"] - objects - before))
        told = f"has room for {left:,} more" if left else "is used up"
        raise PermissionDenied(
            "quota_exceeded", f"The plan's quota of {scope.quota:,} stored objects {told}."
        )
