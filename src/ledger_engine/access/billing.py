"""Billing: the plan of a project, what it allows and how much of it is used (decisions.md 3, 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from ledger_engine.access import projects
from ledger_engine.access.limits import PLANS
from ledger_engine.access.projects import Changes, Project
from ledger_engine.core.records import Moment, OneOf
from ledger_engine.core.tenant import Scope
from ledger_engine.database import Unit


@dataclass(slots=True)
class Billing:
    """A project's plan as one mode sees it.

    `rate_limit` is in requests a minute and `burst` in requests a second, for each API key;
    `stored_objects` counts what the mode holds, of `stored_objects_max` at most (None for no limit).
    `created` is the project's.
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


def get(unit: Unit, scope: Scope) -> Billing:
    """The billing of the caller's project."""
    return _show(unit, scope, projects.get(unit, scope.project))


def change_plan(unit: Unit, scope: Scope, plan: str) -> Billing:
    """Put the caller's project on another plan, at once.

    What is stored beyond the quota of a lower plan stays; nothing can be added until it fits. Raises
    PermissionDenied for a key of the test mode once the project has keys of the live mode.
    """
    return _show(unit, scope, projects.change(unit, scope, scope.project, Changes(plan=plan)))


def _show(unit: Unit, scope: Scope, project: Project) -> Billing:
    counted = unit.first(
        "SELECT stored_objects FROM counters WHERE project = :project AND livemode = :livemode", scope.bind()
    )
    return Billing(
        id=project.id,
        plan=project.plan,
        rate_limit=project.limits.requests_per_minute,
        burst=project.limits.burst,
        stored_objects=counted["stored_objects"] if counted else 0,
        stored_objects_max=project.limits.stored_objects,
        webhook_endpoints_max=project.limits.webhook_endpoints,
        created=project.created,
        livemode=scope.livemode,
    )
