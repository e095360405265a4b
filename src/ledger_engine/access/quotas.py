"""The limits of each plan: requests, stored objects, webhook endpoints (docs/interface.md#limits)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ledger_engine.core.clock import DAY
from ledger_engine.core.errors import PermissionDenied
from ledger_engine.core.tenant import Tenant
from ledger_engine.store import GroupCache, Unit


@dataclass(frozen=True, slots=True)
class Plan:
    """The limits of a plan.

    `requests_per_minute` and `burst` (requests in one second) apply to each API key. `stored_objects` and
    `webhook_endpoints` apply to each project and mode; None means no limit.
    """

    requests_per_minute: int
    burst: int
    stored_objects: int | None
    webhook_endpoints: int | None


# How long the request log and deliveries are kept (docs/interface.md#quotas-and-retention).
LOGS_KEPT_FOR = 7 * DAY
RECOVERABLE_FOR = 30 * DAY  # how long deleted objects can be restored
PLANS = {
    "free": Plan(requests_per_minute=60, burst=10, stored_objects=10_000, webhook_endpoints=5),
    "pro": Plan(requests_per_minute=600, burst=50, stored_objects=500_000, webhook_endpoints=50),
    # A project on the enterprise plan may have its own limits, because they are negotiated
    # (docs/decisions.md#projects-enterprise).
    "enterprise": Plan(requests_per_minute=6_000, burst=200, stored_objects=None, webhook_endpoints=None),
}


def stored_objects(unit: Unit, tenant: Tenant) -> int:
    """Return the number of objects in the project and mode that count toward the quota."""
    return unit.cached(StoredObjects, tenant).number


class StoredObjects:
    """The number of stored objects in a project and mode. Implements the protocol `CachedValues` of `store`.

    One commit can contain the changes of several requests. Each change updates the number in memory; before
    the commit, `write` stores the number once.
    """

    tables: ClassVar = frozenset({"counters"})
    __slots__ = ("_cache", "_tenant", "_written_number", "number")

    def __init__(self, cache: GroupCache, tenant: Tenant) -> None:
        self._cache = cache
        self._tenant = tenant
        rows = cache.execute(
            "SELECT stored_objects FROM counters WHERE project = :project AND livemode = :livemode",
            tenant.bind(),
        )
        self.number = self._written_number = int(rows[0]["stored_objects"]) if rows else 0

    def count(self, tenant: Tenant, objects: int) -> None:
        """Add to the number of objects. Raises PermissionDenied if the new number exceeds the quota."""
        self.number = self.with_new(tenant, objects, self.number)
        self._cache.change(self)

    def with_new(self, tenant: Tenant, objects: int, before: int) -> int:
        """Return the number of objects that there will be with `objects` new objects; change nothing.

        Raises PermissionDenied if this number exceeds the quota. `before` is the number of objects before the
        request: the error states how many more objects the quota allowed at that time.
        """
        number, quota = self.number + objects, tenant.quota
        if quota is not None and number > quota:
            left = max(0, quota - before)
            remaining = f"has {left:,} left" if left else "is used up"
            raise PermissionDenied(
                "quota_exceeded", f"The plan's quota of {quota:,} stored objects {remaining}."
            )
        return number

    def write(self) -> None:
        """Store the number if it has changed."""
        if self._written_number == self.number:
            return
        self._written_number = self.number
        self._cache.execute_many(
            "INSERT INTO counters (project, livemode, stored_objects) VALUES (:project, :livemode, :stored)"
            " ON CONFLICT (project, livemode) DO UPDATE SET stored_objects = :stored",
            [self._tenant.bind(stored=self.number)],
        )


def count_stored(unit: Unit, tenant: Tenant, objects: int = 1) -> None:
    """Add new objects to the number for the project and mode.

    Raises PermissionDenied if the new number exceeds the quota.
    """
    unit.cached(StoredObjects, tenant).count(tenant, objects)
