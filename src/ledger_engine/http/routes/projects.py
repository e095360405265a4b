"""Routes of projects and of their plans; all of them go beyond the contract."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Literal

from pydantic import Field

from ledger_engine.access import api_keys, projects
from ledger_engine.access.projects import Billing, NewChild, Project
from ledger_engine.http.bodies import Body
from ledger_engine.http.lists import GenericList
from ledger_engine.http.operations import Call, Routes
from ledger_engine.http.routes.credentials import ApiKeyWithValue, with_value
from ledger_engine.store.pages import Page

routes = Routes("projects", "/v1")

Name = Annotated[str, Field(min_length=1, max_length=projects.NAME_MAX)]
Plan = Literal["free", "pro", "enterprise"]
Overdraft = Literal["allow", "refuse"]


class CreateProject(Body):
    name: Name
    plan: Plan | None = None
    overdraft: Overdraft | None = None


class ChangeProject(Body):
    # Called only for fields that were sent: they may be left out, but not be null.
    name: Name = Field(default_factory=str)
    overdraft: Overdraft = Field(default_factory=lambda: "allow")


@dataclass(slots=True)
class SeenProject(Project):
    """A project. It has both modes; `livemode` is the mode of the credential that reads it."""

    livemode: bool


@dataclass(slots=True)
class ProjectWithKey(SeenProject):
    """A new project with its first API key, whose value is never shown again.

    `api_key` is null in the answer to an app, because the key would stay valid after the app's grant ends.
    """

    api_key: ApiKeyWithValue | None


def _seen(call: Call, project: Project) -> SeenProject:
    return SeenProject(**asdict(project), livemode=call.authenticate().livemode)


@routes.add("GET", "/projects")
async def list_projects(call: Call, query: GenericList) -> Page[SeenProject]:
    """List the credential's own project and its children, newest first."""
    page = await call.read(projects.page, query.page())
    return Page([_seen(call, project) for project in page.items], page.has_more, page.next_cursor)


@routes.add("POST", "/projects", role="admin", secret=True, status=201)
async def create_project(call: Call, body: CreateProject) -> ProjectWithKey:
    """Create a project and its first API key, whose value is shown this once; an app gets no key."""
    new = NewChild(body.name, body.plan, body.overdraft)
    if call.is_by_app():
        child = await call.write(projects.create_child, new, call.idempotency_key)
        return ProjectWithKey(**asdict(_seen(call, child)), api_key=None)
    value = api_keys.new_value(call.authenticate().livemode)
    project, key = await call.write(projects.create_child_with_key, new, value, call.idempotency_key)
    return ProjectWithKey(**asdict(_seen(call, project)), api_key=with_value(key, value))


@routes.add("GET", "/projects/<id>")
async def get_project(call: Call, id: str) -> SeenProject:
    """Get one project."""
    return _seen(call, await call.read(projects.visible, id))


@routes.add("PATCH", "/projects/<id>", role="admin")
async def change_project(call: Call, id: str, body: ChangeProject) -> SeenProject:
    """Change the fields that are sent."""
    changes = projects.Changes(**body.model_dump(exclude_unset=True))
    return _seen(call, await call.write(projects.change, id, changes))


@routes.add("DELETE", "/projects/<id>", role="admin")
async def archive_project(call: Call, id: str) -> SeenProject:
    """Archive a project; its data is kept, and its credentials stop working."""
    return _seen(call, await call.write(projects.archive, id))


# Billing


billing_routes = Routes("billing", "/v1")


class ChangeBilling(Body):
    # Called only for fields that were sent: the field may be left out, but not be null.
    plan: Literal["free", "pro", "enterprise"] = Field(default_factory=lambda: "free")


@billing_routes.add("GET", "/billing", needs="admin:billing", role="owner")
async def get_billing(call: Call) -> Billing:
    """Get the project's plan, its limits and how much of them is used."""
    return await call.read(projects.billing)


@billing_routes.add("PATCH", "/billing", needs="admin:billing", role="owner")
async def change_billing(call: Call, body: ChangeBilling) -> Billing:
    """Move the project to another plan, at once."""
    if "plan" not in body.model_fields_set:
        return await call.read(projects.billing)
    return await call.write(projects.change_plan, body.plan)
