"""`ledger-engine apps`: the programs that may ask a project's users to let them in (docs/oauth.md)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from ledger_engine.access.oauth import apps as room
from ledger_engine.access.oauth.apps import App, NewApp
from ledger_engine.cli import options
from ledger_engine.cli.running import (
    known_project,
    print_json,
    print_table,
    project_or_first,
    read,
    say,
    shown,
    write,
)
from ledger_engine.core.clock import iso
from ledger_engine.core.tenant import Scope, mode_name
from ledger_engine.database import Unit


@click.group()
def apps() -> None:
    """Register, list and delete the apps that users can let in."""


@apps.command()
@click.argument("name")
@options.project
@click.option(
    "--mode",
    type=click.Choice(["test", "live"]),
    default="test",
    show_default=True,
    help="Whose users it may ask: those of the test or of the live mode.",
)
@click.option(
    "--redirect-uri",
    "redirect_uris",
    multiple=True,
    required=True,
    metavar="URI",
    help="Where users are sent back to, to the letter; give it several times for several.",
)
@options.database
@options.as_json
def create(
    name: str, project: str | None, mode: str, redirect_uris: tuple[str, ...], database: Path, as_json: bool
) -> None:
    """Register an app called NAME. Its client_id is no secret."""

    def make(unit: Unit) -> App:
        owner = project_or_first(unit, project)
        return room.create(unit, Scope(owner.id, mode == "live"), NewApp(name, list(redirect_uris)))

    app = write(database, make, make=True)
    if as_json:
        print_json(_shown(app))
        return
    say(app.id)
    say(f"{app.name}: {mode} mode, project {app.project}.", err=True)


@apps.command("list")
@options.project
@options.database
@options.as_json
def list_apps(project: str | None, database: Path, as_json: bool) -> None:
    """List the apps of a project, newest first."""
    found = read(database, lambda unit: room.every(unit, known_project(unit, project).id))
    if as_json:
        print_json([_shown(app) for app in found])
        return
    print_table(
        ("CLIENT ID", "MODE", "CREATED", "NAME", "REDIRECT URIS"),
        [
            (
                app.id,
                mode_name(app.livemode),
                iso(app.created),
                app.name,
                " ".join(app.redirect_uris),
            )
            for app in found
        ],
    )


@apps.command()
@click.argument("id")
@options.database
@options.as_json
def delete(id: str, database: Path, as_json: bool) -> None:
    """Delete the app ID: what its users allowed it ends, in a running server within a second."""
    app = write(database, partial(room.delete, id=id))
    if as_json:
        print_json(_shown(app))
    else:
        say(f"{app.id} is deleted.")


def _shown(app: App) -> dict[str, Any]:
    return shown(app, client_id=app.id)
