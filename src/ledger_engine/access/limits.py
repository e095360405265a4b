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


def stored_objects(unit: Unit, tenant: Tenant) -> int:
    """Return how many objects the project and mode has stored, as the quota counts them."""
    held: int | None = unit.held("counters", tenant)
    if held is not None:
        return held
    row = unit.first(
        "SELECT stored_objects FROM counters WHERE project = :project AND livemode = :livemode", tenant.bind()
    )
    stored = 0 if row is None else int(row["stored_objects"])
    unit.hold("counters", tenant, "", stored)
    return stored


class StoredObjects:
    """The number of a tenant's stored objects: read once, counted up in memory, and written by `write`."""

    __slots__ = ("_unit", "_tenant", "_before", "_stored", "_quota")

    def __init__(self, unit: Unit, tenant: Tenant) -> None:
        self._unit = unit
        self._stored = stored_objects(unit, tenant)
        self.go_on_for(tenant)

    def go_on_for(self, tenant: Tenant) -> None:
        """Count what this tenant stores next; its project and mode are the same."""
        self._tenant = tenant
        self._before = self._stored
        self._quota = tenant.quota

    def count(self, objects: int) -> None:
        """Count new objects; raises PermissionDenied when they exceed the quota."""
        self._stored += objects
        if self._quota is not None and self._stored > self._quota:
            left = max(0, self._quota - self._before)
            remaining = f"has {left:,} left" if left else "is used up"
            raise PermissionDenied(
                "quota_exceeded", f"The plan's quota of {self._quota:,} stored objects {remaining}."
            )

    def write(self) -> None:
        """Store the number; before this nothing is counted."""
        tenant, stored = self._tenant, self._stored
        self._unit.put_many(
            "counters",
            "INSERT INTO counters (project, livemode, stored_objects) VALUES (:project, :livemode, :stored)"
            " ON CONFLICT (project, livemode) DO UPDATE SET stored_objects = :stored",
            tenant,
            {"": stored},
            [tenant.bind(stored=stored)],
        )


def count_stored(unit: Unit, tenant: Tenant) -> None:
    """Count one new object of the project and mode; raises PermissionDenied when it exceeds the quota."""
    stored = StoredObjects(unit, tenant)
    stored.count(1)
    stored.write()
