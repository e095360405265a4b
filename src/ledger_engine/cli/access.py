"""`ledger-engine projects` and `keys`: the projects of a ledger with their plans, and their API keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from ledger_engine.access import api_keys
from ledger_engine.access import projects as ledger_projects
from ledger_engine.access.api_keys import ApiKey, NewApiKey
from ledger_engine.access.projects import NewProject, Project, ProjectChanges
from ledger_engine.access.quotas import PLANS
from ledger_engine.cli import options
from ledger_engine.cli.running import LedgerSource, json_object
from ledger_engine.core.clock import iso
from ledger_engine.core.tenant import ROLES, SCOPES, Tenant, mode_name
from ledger_engine.store import Unit

_rate_limit = click.option(
    "--rate-limit",
    type=options.Number(1),
    metavar="N",
    help="Requests a minute per key, on the plan enterprise.",
)
_burst = click.option(
    "--burst",
    type=options.Number(1),
    metavar="N",
    help="Requests in one second per key, on the plan enterprise.",
)


# Projects


@click.group()
def projects() -> None:
    """Create, list, change, archive and restore projects."""


@projects.command("create")
@click.argument("name")
@click.option("--plan", type=click.Choice(list(PLANS)), default="free", show_default=True, help="The plan.")
@_rate_limit
@_burst
@click.option(
    "--overdraft",
    type=click.Choice(ledger_projects.OVERDRAFT),
    default="allow",
    show_default=True,
    help="Whether a debit may take a balance below zero.",
)
@options.ledger()
def create_project(ledger: LedgerSource, **fields: Any) -> None:
    """Create a project called NAME."""
    _print_project(ledger, ledger.write(partial(ledger_projects.create, new=NewProject(**fields)), make=True))


@projects.command("list")
@options.ledger()
def list_projects(ledger: LedgerSource) -> None:
    """List the projects, oldest first."""
    columns: Mapping[str, Callable[[Project], str]] = {
        "ID": lambda project: project.id,
        "PLAN": lambda project: project.plan,
        "A MINUTE": lambda project: str(project.limits.requests_per_minute),
        "A SECOND": lambda project: str(project.limits.burst),
        "OVERDRAFT": lambda project: project.overdraft,
        "NAME": lambda project: project.name + (" (archived)" if project.archived_at is not None else ""),
    }
    ledger.print_list(ledger.read(ledger_projects.every), columns, _project_object)


@projects.command("update")
@click.argument("id")
@click.option("--name", help="The new name.")
@click.option("--plan", type=click.Choice(list(PLANS)), help="The new plan.")
@_rate_limit
@_burst
@click.option(
    "--overdraft",
    type=click.Choice(ledger_projects.OVERDRAFT),
    help="Whether a debit may take a balance below zero.",
)
@options.ledger()
def update_project(ledger: LedgerSource, id: str, **fields: Any) -> None:
    """Change the given options of the project ID. A running server applies them within a second."""
    changes = ProjectChanges(**fields)
    _print_project(ledger, ledger.write(partial(ledger_projects.update, id=id, changes=changes)))


@projects.command("archive")
@click.argument("id")
@options.ledger()
def archive_project(ledger: LedgerSource, id: str) -> None:
    """Archive the project ID: its data stays, and its keys are refused within a second."""
    tenant = Tenant(id, livemode=False)
    _print_project(ledger, ledger.write(partial(ledger_projects.archive, tenant=tenant, id=id)))


@projects.command("restore")
@click.argument("id")
@options.ledger()
def restore_project(ledger: LedgerSource, id: str) -> None:
    """Restore the archived project ID with everything in it; its keys work again within a second."""
    _print_project(ledger, ledger.write(partial(ledger_projects.restore, id=id)))


def _print_project(ledger: LedgerSource, project: Project) -> None:
    suffix = ", archived" if project.archived_at is not None else ""
    line = f"{project.id} {project.name}: {project.plan}, overdraft {project.overdraft}{suffix}"
    ledger.print_one(_project_object(project), line)


def _project_object(project: Project) -> dict[str, Any]:
    # Every object shows a mode (docs/decisions.md#conventions-objects), but a project belongs to both modes.
    # Over HTTP a project shows the mode of the request's credential. A command has no credential, so the
    # project is shown in the default mode, test.
    return json_object(project, livemode=False)


# Keys


@click.group()
def keys() -> None:
    """Create, list, revoke and roll API keys."""


@keys.command("create")
@click.option(
    "--mode",
    type=click.Choice(["test", "live"]),
    required=True,
    help="The mode of the data that the key can access.",
)
@click.option(
    "--role", type=click.Choice(ROLES), default="admin", show_default=True, help="The role of the key."
)
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(SCOPES),
    multiple=True,
    help="Restrict the key to this scope; repeat it for several.",
)
@click.option("--name", help="A name for the key, such as its purpose.")
@options.ledger(options.project)
def create_key(ledger: LedgerSource, role: str, scopes: tuple[str, ...], name: str | None) -> None:
    """Create an API key. Its value is printed only this once."""
    value = api_keys.new_value(ledger.mode == "live")
    new = NewApiKey(name, role, list(scopes) or None)

    def make(unit: Unit) -> tuple[ApiKey, str]:
        tenant = ledger.new_tenant(unit)
        return api_keys.create(unit, tenant, new, value), tenant.project

    is_new = isinstance(ledger.database, Path) and not ledger.database.exists()
    key, project = ledger.write(make, make=True)
    _print_key(ledger, value, key, project, f" The ledger is new: {ledger.database}" if is_new else "")


@keys.command("list")
@click.option("--all", "revoked_too", is_flag=True, help="Include revoked keys.")
@options.ledger(options.project)
def list_keys(ledger: LedgerSource, revoked_too: bool) -> None:
    """List the keys of a project, newest first. The ledger does not store their values."""

    def find(unit: Unit) -> tuple[list[ApiKey], str]:
        owner = ledger.selected_project(unit)
        return api_keys.every(unit, owner.id), owner.id

    every_key, owner = ledger.read(find)
    rows = [key for key in every_key if revoked_too or key.revoked_at is None]
    columns: Mapping[str, Callable[[ApiKey], str]] = {
        "ID": lambda key: key.id,
        "VALUE": lambda key: f"sk_{mode_name(key.livemode)}_…{key.last4}",
        "ROLE": lambda key: key.role,
        "SCOPES": lambda key: "all" if key.scopes is None else ",".join(key.scopes),
        "CREATED": lambda key: iso(key.created),
        "REVOKED": lambda key: "" if key.revoked_at is None else iso(key.revoked_at),
        "NAME": lambda key: key.name or "",
    }
    ledger.print_list(rows, columns, partial(json_object, project=owner))


def _key_id(text: str) -> str:
    if text.startswith("sk_"):
        raise ValueError("give the id of the key, not its value: key_…, as `keys list` shows it.")
    return text


_KEY_ID = options.ParsedText("id", _key_id)


@keys.command("revoke")
@click.argument("id", type=_KEY_ID)
@options.ledger()
def revoke_key(ledger: LedgerSource, id: str) -> None:
    """Revoke the key ID and its tokens for ever. A running server refuses them within a second."""

    def end(unit: Unit) -> ApiKey:
        return api_keys.revoke(unit, api_keys.tenant_of(unit, id), id)

    key = ledger.write(end)
    ledger.print_one(json_object(key), f"{key.id} is revoked.")


@keys.command("roll")
@click.argument("id", type=_KEY_ID)
@options.ledger()
def roll_key(ledger: LedgerSource, id: str) -> None:
    """Replace the key ID with a new key of the same rights. The new value is printed only this once."""
    tenant = ledger.read(partial(api_keys.tenant_of, id=id))
    value = api_keys.new_value(tenant.livemode)
    key = ledger.write(partial(api_keys.roll, tenant=tenant, id=id, value=value))
    _print_key(ledger, value, key, tenant.project)


def _print_key(ledger: LedgerSource, value: str, key: ApiKey, project: str, note_more: str = "") -> None:
    mode = mode_name(key.livemode)
    note = f"{key.id}: {mode} mode, role {key.role}, project {project}. It is shown only once.{note_more}"
    ledger.print_one(json_object(key, project=project, key=value), value, note)
