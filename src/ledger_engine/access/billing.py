"""Billing: the plan of a project, what it allows, and how much of it is used.

See docs/decisions.md#projects, #credentials.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from ledger_engine.access import projects
from ledger_engine.access import quotas as limits
from ledger_engine.access.projects import Changes, Project
from ledger_engine.access.quotas import PLANS
from ledger_engine.core.records import Moment, OneOf
from ledger_engine.core.tenant import Tenant
from ledger_engine.store import Unit


@dataclass(slots=True)
class Billing:
    """A project's plan and its use in one mode.

    `rate_limit` is in requests a minute and `burst` in requests a second, for each API key; `stored_objects`
    counts the objects of the mode, of `stored_objects_max` at most (None for no limit). `created` is the
    project's.
    """

    OBJECT: ClassVar[str] = "billing"

    id: str
    plan: Annotated[str, OneOf(*PLANS)]
    rate_limit: int
    burst: int
    stored_objects: int
    stored_objects_max: int | None
    webhook_endpoints_max: int | None
    created: Moment
    livemode: bool


def get(unit: Unit, tenant: Tenant) -> Billing:
    """Return the billing of the caller's project."""
    return _show(unit, tenant, projects.get(unit, tenant.project))


def change_plan(unit: Unit, tenant: Tenant, plan: str) -> Billing:
    """Move the caller's project to another plan, at once.

    Objects beyond the quota of a lower plan stay; nothing can be added until the project is below it again.
    Raises PermissionDenied for a key of the test mode once the project has keys of the live mode.
    """
    return _show(unit, tenant, projects.change(unit, tenant, tenant.project, Changes(plan=plan)))


def _show(unit: Unit, tenant: Tenant, project: Project) -> Billing:
    return Billing(
        id=project.id,
        plan=project.plan,
        rate_limit=project.limits.requests_per_minute,
        burst=project.limits.burst,
        stored_objects=limits.stored_objects(unit, tenant),
        stored_objects_max=project.limits.stored_objects,
        webhook_endpoints_max=project.limits.webhook_endpoints,
        created=project.created,
        livemode=tenant.livemode,
    )
