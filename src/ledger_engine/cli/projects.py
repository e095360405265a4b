"""`ledger-engine projects`: the projects of a ledger and their plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import click

from ledger_engine.access import projects as ledger_projects
from ledger_engine.access.projects import Changes, NewProject, Project
from ledger_engine.access.quotas import PLANS
from ledger_engine.cli import options
from ledger_engine.cli.running import print_list, print_one, read, shown, write
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant

_rate_limit = click.option(
    "--rate-limit", type=options.Number(1), metavar="N", help="Requests a minute per key (enterprise)."
)
_burst = click.option(
    "--burst", type=options.Number(1), metavar="N", help="Requests in one second per key (enterprise)."
)


@click.group()
def projects() -> None:
    """Create, list, change, archive and restore projects."""


@projects.command()
@click.argument("name")
@click.option("--plan", type=click.Choice(list(PLANS)), default="free", show_default=True, help="Its plan.")
@_rate_limit
@_burst
@click.option(
    "--overdraft",
    type=click.Choice(ledger_projects.OVERDRAFT),
    default="allow",
    show_default=True,
    help="Whether a debit may take a balance below zero.",
)
@options.ledger
def create(
    name: str,
    plan: str,
    rate_limit: int | None,
    burst: int | None,
    overdraft: str,
    database: Location,
    as_json: bool,
) -> None:
    """Create a project called NAME."""
    new = NewProject(name, plan, rate_limit, burst, overdraft)
    _print(write(database, partial(ledger_projects.create, new=new), make=True), as_json)


@projects.command("list")
@options.ledger
def list_projects(database: Location, as_json: bool) -> None:
    """List the projects, oldest first."""
    columns: Mapping[str, Callable[[Project], str]] = {
        "ID": lambda project: project.id,
        "PLAN": lambda project: project.plan,
        "A MINUTE": lambda project: str(project.limits.requests_per_minute),
        "A SECOND": lambda project: str(project.limits.burst),
        "OVERDRAFT": lambda project: project.overdraft,
        "NAME": lambda project: project.name + (" (archived)" if project.archived_at is not None else ""),
    }
    print_list(read(database, ledger_projects.every), as_json, columns, _shown)


@projects.command()
@click.argument("id")
@click.option("--name", help="A new name.")
@click.option("--plan", type=click.Choice(list(PLANS)), help="Another plan.")
@_rate_limit
@_burst
@click.option(
    "--overdraft",
    type=click.Choice(ledger_projects.OVERDRAFT),
    help="Whether a debit may take a balance below zero.",
)
@options.ledger
def update(
    id: str,
    name: str | None,
    plan: str | None,
    rate_limit: int | None,
    burst: int | None,
    overdraft: str | None,
    database: Location,
    as_json: bool,
) -> None:
    """Change the given options of the project ID. A running server applies them within a second."""
    changes = Changes(name, plan, rate_limit, burst, overdraft)
    _print(write(database, partial(ledger_projects.update, id=id, changes=changes)), as_json)


@projects.command()
@click.argument("id")
@options.ledger
def archive(id: str, database: Location, as_json: bool) -> None:
    """Archive the project ID: everything is kept, and its keys are refused within a second."""
    tenant = Tenant(id, livemode=False)
    _print(write(database, partial(ledger_projects.archive, tenant=tenant, id=id)), as_json)


@projects.command()
@click.argument("id")
@options.ledger
def restore(id: str, database: Location, as_json: bool) -> None:
    """Restore the archived project ID with everything in it; its keys work again within a second."""
    _print(write(database, partial(ledger_projects.restore, id=id)), as_json)


def _print(project: Project, as_json: bool) -> None:
    archived = ", archived" if project.archived_at is not None else ""
    line = f"{project.id} {project.name}: {project.plan}, overdraft {project.overdraft}{archived}"
    print_one(_shown(project), as_json, line)


def _shown(project: Project) -> dict[str, Any]:
    # Every object shows a mode (docs/decisions.md#conventions-objects). A project has both modes, and over
    # HTTP it shows the credential's. Without a credential it shows the default mode of commands, which is
    # test.
    return shown(project, livemode=False)
