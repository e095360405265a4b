"""`ledger-engine apps`: the programs that users of a project can authorize (docs/oauth.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import click

from ledger_engine.access.oauth import apps as oauth_apps
from ledger_engine.access.oauth.apps import App, NewApp
from ledger_engine.cli import options
from ledger_engine.cli.running import (
    known_project,
    print_list,
    print_one,
    project_or_first,
    read,
    shown,
    write,
)
from ledger_engine.core.clock import iso
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant, mode_name
from ledger_engine.store import Unit


@click.group()
def apps() -> None:
    """Register, list, delete and restore the apps that users can authorize."""


@apps.command()
@click.argument("name")
@options.project
@click.option(
    "--mode",
    type=click.Choice(["test", "live"]),
    default="test",
    show_default=True,
    help="Which users may be asked: those of test mode or of live mode.",
)
@click.option(
    "--redirect-uri",
    "redirect_uris",
    multiple=True,
    required=True,
    metavar="URI",
    help="Where users are sent back to, matched exactly; repeat it for several.",
)
@click.option(
    "--native", is_flag=True, help="The app runs on the user's machine: loopback addresses may have any port."
)
@options.ledger
def create(
    name: str,
    project: str | None,
    mode: str,
    redirect_uris: tuple[str, ...],
    native: bool,
    database: Location,
    as_json: bool,
) -> None:
    """Register an app called NAME. Its client_id is not a secret."""

    def make(unit: Unit) -> App:
        owner = project_or_first(unit, project)
        return oauth_apps.create(
            unit, Tenant(owner.id, mode == "live"), NewApp(name, list(redirect_uris), native)
        )

    app = write(database, make, make=True)
    note = f"{app.name}: {mode} mode, project {app.project}."
    print_one(_shown(app), as_json, app.id, note)


@apps.command("list")
@click.option("--deleted", is_flag=True, help="List only deleted ones, which can be restored.")
@options.project
@options.ledger
def list_apps(deleted: bool, project: str | None, database: Location, as_json: bool) -> None:
    """List the apps of a project, newest first."""
    every = oauth_apps.deleted if deleted else oauth_apps.every
    found = read(database, lambda unit: every(unit, known_project(unit, project).id))
    columns: Mapping[str, Callable[[App], str]] = {
        "CLIENT ID": lambda app: app.id,
        "MODE": lambda app: mode_name(app.livemode),
        "CREATED": lambda app: iso(app.created),
        "NAME": lambda app: app.name,
        "REDIRECT URIS": lambda app: " ".join(app.redirect_uris),
    }
    print_list(found, as_json, columns, _shown)


@apps.command()
@click.argument("id")
@options.ledger
def delete(id: str, database: Location, as_json: bool) -> None:
    """Delete the app ID: its users' grants end, in a running server within a second."""
    app = write(database, partial(oauth_apps.delete, id=id))
    print_one(_shown(app), as_json, f"{id} is deleted.")


@apps.command()
@click.argument("id")
@options.ledger
def restore(id: str, database: Location, as_json: bool) -> None:
    """Restore the app ID, deleted at most 30 days ago. Its users must allow it again."""
    app = write(database, partial(oauth_apps.restore, id=id))
    print_one(_shown(app), as_json, f"{id} is restored.")


def _shown(app: App) -> dict[str, Any]:
    return shown(app, client_id=app.id)
