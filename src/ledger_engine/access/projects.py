"""Projects: a project owns the objects in it, and its plan sets the limits (docs/decisions.md#projects).

A project that is created with a credential is a *child* of the credential's project. Over HTTP a credential
sees its own project and the children of this project; for every other project the answer is 404. The local
administrator, who runs the commands of `ledger-engine` on the database, sees all projects.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Annotated, ClassVar

from ledger_engine.access import api_keys, idempotency
from ledger_engine.access.api_keys import ApiKey, NewApiKey
from ledger_engine.access.quotas import PLANS, Plan, stored_objects
from ledger_engine.core.errors import Conflict, InvalidRequest, NotFound, PermissionDenied
from ledger_engine.core.ids import ProjectId
from ledger_engine.core.records import Moment, OneOf
from ledger_engine.core.tenant import Tenant
from ledger_engine.store import Unit, Value
from ledger_engine.store.pages import Page, PageRequest, bad_cursor
from ledger_engine.store.rows import insert, reader

NAME_MAX = 255
OVERDRAFT = ("allow", "refuse")
FIRST_PROJECT = "My ledger"  # the name of the project that `first_or_new` creates
_RISING_PLANS = tuple(PLANS)


@dataclass(slots=True)
class Project:
    """A project: the owner of all objects in it, limited by its plan.

    A project on the plan enterprise may have limits of its own: `rate_limit` (requests a minute) and `burst`
    (requests a second); None means the limits of the plan. `parent` is the project whose credential created
    this project; None if the administrator created it.
    """

    OBJECT: ClassVar[str] = "project"

    id: ProjectId
    name: str
    plan: Annotated[str, OneOf(*PLANS)]
    rate_limit: int | None
    burst: int | None
    overdraft: Annotated[str, OneOf(*OVERDRAFT)]
    parent: ProjectId | None
    created: Moment
    archived_at: Moment | None

    @property
    def limits(self) -> Plan:
        """Return the limits of the plan, or the project's own limits if the plan allows them."""
        return limits_of(self.plan, self.rate_limit, self.burst)


@dataclass(slots=True)
class Billing:
    """A project's plan and its use in one mode.

    Each API key may send `rate_limit` requests a minute and `burst` requests a second. `stored_objects` is
    the number of objects in the mode, `stored_objects_max` the highest number, None for no limit. `created`
    is the time at which the project was created.
    """

    OBJECT: ClassVar[str] = "billing"

    id: ProjectId
    plan: Annotated[str, OneOf(*PLANS)]
    rate_limit: int
    burst: int
    stored_objects: int
    stored_objects_max: int | None
    webhook_endpoints_max: int | None
    created: Moment
    livemode: bool


@dataclass(slots=True)
class NewProject:
    name: str
    plan: str = "free"
    rate_limit: int | None = None
    burst: int | None = None
    overdraft: str = "allow"


@dataclass(slots=True)
class NewChild:
    """The fields of a new child; a field that is None gets the value of the parent project."""

    name: str
    plan: str | None = None
    overdraft: str | None = None


@dataclass(slots=True)
class ProjectChanges:
    """The new values of a project's fields; a field that is None here does not change."""

    name: str | None = None
    plan: str | None = None
    rate_limit: int | None = None
    burst: int | None = None
    overdraft: str | None = None


def limits_of(plan: str, rate_limit: int | None, burst: int | None) -> Plan:
    """Return the limits of a plan.

    On the plan enterprise, `rate_limit` and `burst` replace the plan's limits unless they are None.
    """
    limits = PLANS[plan]
    if plan != "enterprise":
        return limits
    return Plan(
        requests_per_minute=rate_limit or limits.requests_per_minute,
        burst=burst or limits.burst,
        stored_objects=limits.stored_objects,
        webhook_endpoints=limits.webhook_endpoints,
    )


# Functions for the local administrator.


def create(unit: Unit, new: NewProject, id: str | None = None) -> Project:
    """Create a project, with a new id unless `id` is given. Raises InvalidRequest."""
    project = Project(
        id=id or unit.new_id("prj"),
        name=new.name,
        plan=new.plan,
        rate_limit=new.rate_limit,
        burst=new.burst,
        overdraft=new.overdraft,
        parent=None,
        created=Moment(unit.now),
        archived_at=None,
    )
    _check(project)
    return _insert(unit, project)


def get(unit: Unit, id: str) -> Project:
    """Return the project, archived or not. Raises NotFound."""
    row = unit.first("SELECT * FROM projects WHERE id = :id", {"id": id})
    if row is None:
        raise NotFound("project", id)
    return read(row)


def first(unit: Unit) -> Project | None:
    """Return the oldest project that is not archived. Commands without `--project` use this project."""
    row = unit.first("SELECT * FROM projects WHERE archived_at IS NULL ORDER BY id LIMIT 1")
    return read(row) if row else None


def first_or_new(unit: Unit) -> tuple[Project, bool]:
    """Return the project of `first`, or a new project if `first` returns None.

    The second value is true if the project is new. A new project is on the plan enterprise, because its owner
    also runs the server.
    """
    project = first(unit)
    return (
        (create(unit, NewProject(FIRST_PROJECT, "enterprise")), True) if project is None else (project, False)
    )


def to_add_to(unit: Unit, id: str | None) -> Project:
    """Return the project to which new objects are added.

    This is the project with this id; if `id` is None, the project of `first_or_new`.

    Raises NotFound, and Conflict if the project is archived, because nobody could see new objects in it.
    """
    project = first_or_new(unit)[0] if id is None else get(unit, id)
    if project.archived_at is not None:
        raise Conflict("not_recoverable", f"The project {project.id} is archived.")
    return project


def remove_unused(unit: Unit, id: str) -> None:
    """Delete a project that was just created, unless the project has an API key."""
    project = {"id": id}
    if unit.first("SELECT 1 FROM api_keys WHERE project = :id LIMIT 1", project) is None:
        unit.execute("DELETE FROM books WHERE project = :id", project)
        unit.execute("DELETE FROM projects WHERE id = :id", project)


def every(unit: Unit) -> list[Project]:
    """Return all projects of the database, archived projects included, oldest first."""
    return [read(row) for row in unit.execute("SELECT * FROM projects ORDER BY id")]


def update(unit: Unit, id: str, changes: ProjectChanges) -> Project:
    """Change a project. If it leaves the enterprise plan, it loses its own `rate_limit` and `burst`.

    Raises NotFound, and InvalidRequest for an invalid value.
    """
    project = get(unit, id)
    if changes.plan not in (None, "enterprise"):
        project = replace(project, rate_limit=None, burst=None)
    new_values = {name: value for name, value in asdict(changes).items() if value is not None}
    project = replace(project, **new_values)
    _check(project)
    unit.execute(
        "UPDATE projects SET name = :name, plan = :plan, rate_limit = :rate_limit, burst = :burst,"
        " overdraft = :overdraft WHERE id = :id",
        asdict(project),
    )
    unit.announce(api_keys.TOPIC)
    return project


# Functions for the holder of a credential.


def visible(unit: Unit, tenant: Tenant, id: str) -> Project:
    """Return the project with this id if it is the caller's project or a child of this project.

    Raises NotFound for every other project.
    """
    row = unit.first(
        "SELECT * FROM projects WHERE id = :id AND (id = :project OR parent = :project)",
        {"id": id, "project": tenant.project},
    )
    if row is None:
        raise NotFound("project", id)
    return read(row)


def page(unit: Unit, tenant: Tenant, request: PageRequest) -> Page[Project]:
    """Return a page of the projects that the caller sees, archived projects included, newest first."""
    parameters: dict[str, Value] = {
        "project": tenant.project,
        "rows": request.limit + 1,
        "after": request.after,
    }
    older = ""
    if request.after is not None:
        try:
            visible(unit, tenant, request.after)
        except NotFound:
            raise bad_cursor(request.cursor) from None
        older = " AND id < :after"
    rows = unit.execute(
        f"SELECT * FROM projects WHERE parent = :project{older}"
        f" UNION ALL SELECT * FROM projects WHERE id = :project{older}"
        " ORDER BY id DESC LIMIT :rows",
        parameters,
    )
    items = [read(row) for row in rows[: request.limit]]
    has_more = len(rows) > request.limit
    return Page(items, has_more, items[-1].id if has_more else None)


def create_child_with_key(
    unit: Unit, tenant: Tenant, new: NewChild, value: str, key: str | None = None
) -> tuple[Project, ApiKey]:
    """Create a child as `create_child` does, and its first API key.

    The key has this `value` and the caller's rights.
    """
    project = create_child(unit, tenant, new, key)
    rights = NewApiKey(None, tenant.role, None if tenant.scopes is None else sorted(tenant.scopes))
    return project, api_keys.create(unit, replace(tenant, project=project.id), rights, value)


def create_child(unit: Unit, tenant: Tenant, new: NewChild, key: str | None = None) -> Project:
    """Create a child of the caller's project; by default, the child has its parent's plan and limits.

    Raises PermissionDenied if the child's plan would be higher than the parent's plan, and the caller may not
    change the parent's plan.
    """
    parent = get(unit, tenant.project)
    plan = parent.plan if new.plan is None else new.plan
    project = Project(
        id=unit.new_id("prj"),
        name=new.name,
        plan=plan,
        rate_limit=parent.rate_limit if plan == "enterprise" else None,
        burst=parent.burst if plan == "enterprise" else None,
        overdraft=parent.overdraft if new.overdraft is None else new.overdraft,
        parent=parent.id,
        created=Moment(unit.now),
        archived_at=None,
    )
    _check(project)
    if _RISING_PLANS.index(plan) > _RISING_PLANS.index(parent.plan):
        tenant.require_role("owner")
        tenant.require_scope("admin:billing")
    idempotency.take(unit, tenant, key, project.id)
    return _insert(unit, project)


def change(unit: Unit, tenant: Tenant, id: str, changes: ProjectChanges) -> Project:
    """Change a project that the caller sees. Raises NotFound.

    If the project has keys of the live mode, a key of the test mode must not change the project's plan or
    overdraft, because these settings also apply to the live mode. Raises PermissionDenied for such a change.
    """
    project = visible(unit, tenant, id)
    if changes.overdraft not in (None, project.overdraft) or changes.plan not in (None, project.plan):
        _require_live_key_in_live_use(unit, tenant, id)
    return update(unit, id, changes)


def billing(unit: Unit, tenant: Tenant) -> Billing:
    """Return the plan of the caller's project, and its use in the caller's mode."""
    return _billing_of(unit, tenant, get(unit, tenant.project))


def change_plan(unit: Unit, tenant: Tenant, plan: str) -> Billing:
    """Move the caller's project to another plan at once.

    If the project has more objects than a lower plan allows, the objects stay, and the ledger refuses new
    objects until the project is below the quota. Raises PermissionDenied for a key of the test mode if the
    project has keys of the live mode.
    """
    return _billing_of(unit, tenant, change(unit, tenant, tenant.project, ProjectChanges(plan=plan)))


def archive(unit: Unit, tenant: Tenant, id: str) -> Project:
    """Archive a project that the caller sees: all its data stays, and its credentials stop working at once.

    A project that is already archived is not changed. Raises NotFound. Raises PermissionDenied for a key of
    the test mode if the project has keys of the live mode: a test must not stop the live mode.
    """
    project = visible(unit, tenant, id)
    if project.archived_at is not None:
        return project
    _require_live_key_in_live_use(unit, tenant, id)
    unit.execute("UPDATE projects SET archived_at = :now WHERE id = :id", {"id": id, "now": unit.now})
    unit.announce(api_keys.TOPIC)
    return replace(project, archived_at=Moment(unit.now))


def restore(unit: Unit, id: str) -> Project:
    """Restore an archived project: its credentials work again.

    Only the local administrator can do this: a request over HTTP would need a key of the project, and the
    keys of an archived project do not work. Raises NotFound, and Conflict if the project is not archived.
    """
    if get(unit, id).archived_at is None:
        raise Conflict("not_recoverable", f"The project {id} is not archived.")
    unit.execute("UPDATE projects SET archived_at = NULL WHERE id = :id", {"id": id})
    unit.announce(api_keys.TOPIC)
    return get(unit, id)


def _require_live_key_in_live_use(unit: Unit, tenant: Tenant, id: str) -> None:
    if tenant.livemode or tenant.credential is None:
        return
    live = unit.first(
        "SELECT 1 FROM api_keys WHERE project = :id AND livemode = 1 AND revoked_at IS NULL LIMIT 1",
        {"id": id},
    )
    if live is not None:
        raise PermissionDenied(
            "missing_live_key",
            "The project has live keys, so this needs a live key; this credential is of the test mode.",
        )


def _billing_of(unit: Unit, tenant: Tenant, project: Project) -> Billing:
    return Billing(
        id=project.id,
        plan=project.plan,
        rate_limit=project.limits.requests_per_minute,
        burst=project.limits.burst,
        stored_objects=stored_objects(unit, tenant),
        stored_objects_max=project.limits.stored_objects,
        webhook_endpoints_max=project.limits.webhook_endpoints,
        created=project.created,
        livemode=tenant.livemode,
    )


def _insert(unit: Unit, project: Project) -> Project:
    values = asdict(project)
    del values["archived_at"]
    insert(unit, "projects", values)
    for livemode in (0, 1):
        insert(unit, "books", {"project": project.id, "livemode": livemode})
    return project


def _check(project: Project) -> None:
    if not 1 <= len(project.name) <= NAME_MAX:
        raise InvalidRequest("invalid_value", f"name must have 1 to {NAME_MAX} characters.", "name")
    if project.plan not in PLANS:
        raise InvalidRequest("invalid_value", "plan must be free, pro or enterprise.", "plan")
    if project.overdraft not in OVERDRAFT:
        raise InvalidRequest("invalid_value", "overdraft must be allow or refuse.", "overdraft")
    for name, value in (("rate_limit", project.rate_limit), ("burst", project.burst)):
        if value is None:
            continue
        if project.plan != "enterprise":
            raise InvalidRequest("invalid_value", f"{name} can be set on the enterprise plan only.", name)
        if not 1 <= value <= 10**9:
            raise InvalidRequest("invalid_value", f"{name} must be 1 to 1,000,000,000.", name)


read = reader(Project)
