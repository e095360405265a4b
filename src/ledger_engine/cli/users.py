"""`ledger-engine users` and `apps`: the users of a project, and the programs that they can authorize."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import click

from ledger_engine.access.oauth import apps as oauth_apps
from ledger_engine.access.oauth.apps import App, NewApp
from ledger_engine.cli import options
from ledger_engine.cli.running import LedgerSource, json_object
from ledger_engine.core.clock import iso
from ledger_engine.core.tenant import ROLES, mode_name
from ledger_engine.ledger import users as ledger_users
from ledger_engine.ledger.users import NewUser, User
from ledger_engine.store import Unit

# Users


@click.group()
def users() -> None:
    """Create and list the users of a project, and set passwords."""


@users.command("create")
@click.argument("name")
@click.argument("email")
@click.option(
    "--role", type=click.Choice(ROLES), default="member", show_default=True, help="The role of the user."
)
@options.ledger(options.project, options.mode)
def create_user(ledger: LedgerSource, name: str, email: str, role: str) -> None:
    """Create a user called NAME with the address EMAIL."""

    def make(unit: Unit) -> User:
        return ledger_users.create(unit, ledger.new_tenant(unit), NewUser(name, email, role))

    user = ledger.write(make, make=True)
    ledger.print_one(json_object(user), f"{user.id} {name}: {email}, {role}")


@users.command("list")
@click.option("--role", type=click.Choice(ROLES), help="List only users with this role.")
@options.limit
@options.ledger(options.project, options.mode)
def list_users(ledger: LedgerSource, role: str | None, limit: int) -> None:
    """List the newest users, active and deactivated."""

    def find(unit: Unit) -> list[User]:
        return ledger_users.page(unit, ledger.tenant(unit), per_page=limit, role=role).items

    columns: Mapping[str, Callable[[User], str]] = {
        "ID": lambda user: user.id,
        "ROLE": lambda user: user.role,
        "STATUS": lambda user: user.status,
        "CREATED": lambda user: iso(user.created),
        "EMAIL": lambda user: user.email or "",
        "NAME": lambda user: user.name or "",
    }
    ledger.print_list(ledger.read(find), columns)


@users.command("set-password")
@click.argument("email")
@click.option("--password-stdin", is_flag=True, help="Read the password from stdin instead of asking for it.")
@options.ledger(options.mode, options.project)
def set_password(ledger: LedgerSource, email: str, password_stdin: bool) -> None:
    """Set the sign-in password of the user with the address EMAIL."""
    from ledger_engine.access.oauth import passwords

    password_hash = passwords.hash_password(_read_password(password_stdin))

    def work(unit: Unit) -> str:
        return passwords.set_password(unit, ledger.tenant(unit), email, password_hash)

    id = ledger.write(work)
    ledger.print_one({"id": id, "email": email}, f"{id} has a new password.")


def _read_password(from_stdin: bool) -> str:
    if not from_stdin:
        if not sys.stdin.isatty():
            raise click.UsageError("There is no terminal to ask for the password: use --password-stdin.")
        return str(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    # Remove one line end: `echo` adds it to the password.
    return sys.stdin.read().removesuffix("\n").removesuffix("\r")


# Apps: the programs that users of a project can authorize (docs/oauth.md)


@click.group()
def apps() -> None:
    """Register, list, delete and restore the apps that users can authorize."""


@apps.command("create")
@click.argument("name")
@click.option(
    "--mode",
    type=click.Choice(["test", "live"]),
    default="test",
    show_default=True,
    help="The mode of the users who may authorize the app.",
)
@click.option(
    "--redirect-uri",
    "redirect_uris",
    multiple=True,
    required=True,
    metavar="URI",
    help="An address to which the server may send users back; the app must use exactly this address. Repeat"
    " the option for several.",
)
@click.option(
    "--native",
    is_flag=True,
    help="The app runs on the user's machine; its loopback addresses may have any port.",
)
@options.ledger(options.project)
def create_app(ledger: LedgerSource, name: str, redirect_uris: tuple[str, ...], native: bool) -> None:
    """Register an app called NAME. Its client_id is not a secret."""

    def make(unit: Unit) -> App:
        return oauth_apps.create(unit, ledger.new_tenant(unit), NewApp(name, list(redirect_uris), native))

    app = ledger.write(make, make=True)
    ledger.print_one(_app_object(app), app.id, f"{app.name}: {ledger.mode} mode, project {app.project}.")


@apps.command("list")
@click.option("--deleted", is_flag=True, help="List the deleted apps that you can restore.")
@options.ledger(options.project)
def list_apps(ledger: LedgerSource, deleted: bool) -> None:
    """List the apps of a project, newest first."""
    every = oauth_apps.deleted if deleted else oauth_apps.every
    columns: Mapping[str, Callable[[App], str]] = {
        "CLIENT ID": lambda app: app.id,
        "MODE": lambda app: mode_name(app.livemode),
        "CREATED": lambda app: iso(app.created),
        "NAME": lambda app: app.name,
        "REDIRECT URIS": lambda app: " ".join(app.redirect_uris),
    }
    ledger.print_list(
        ledger.read(lambda unit: every(unit, ledger.selected_project(unit).id)), columns, _app_object
    )


@apps.command("delete")
@click.argument("id")
@options.ledger()
def delete_app(ledger: LedgerSource, id: str) -> None:
    """Delete the app ID and its grants. A running server refuses the app's tokens within a second."""
    ledger.print_one(_app_object(ledger.write(partial(oauth_apps.delete, id=id))), f"{id} is deleted.")


@apps.command("restore")
@click.argument("id")
@options.ledger()
def restore_app(ledger: LedgerSource, id: str) -> None:
    """Restore the app ID, if it was deleted at most 30 days ago. Users must authorize the app again."""
    ledger.print_one(_app_object(ledger.write(partial(oauth_apps.restore, id=id))), f"{id} is restored.")


def _app_object(app: App) -> dict[str, Any]:
    return json_object(app, client_id=app.id)
