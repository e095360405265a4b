"""`ledger-engine users`: the users of a project and their passwords."""

from __future__ import annotations

import sys

import click

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
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import ROLES, Tenant
from ledger_engine.ledger import users as ledger_users
from ledger_engine.ledger.users import NewUser, User
from ledger_engine.store import Unit


@click.group()
def users() -> None:
    """Create and list the users of a project, and set their passwords."""


@users.command()
@click.argument("name")
@click.argument("email")
@click.option("--role", type=click.Choice(ROLES), default="member", show_default=True, help="Its rank.")
@options.mode
@options.project
@options.database
@options.as_json
def create(
    name: str, email: str, role: str, mode: str, project: str | None, database: Location, as_json: bool
) -> None:
    """Create a user called NAME with the address EMAIL."""

    def make(unit: Unit) -> User:
        owner = project_or_first(unit, project)
        tenant = Tenant(owner.id, mode == "live", quota=owner.limits.stored_objects)
        return ledger_users.create(unit, tenant, NewUser(name, email, role))

    user = write(database, make, make=True)
    if as_json:
        print_json(shown(user))
    else:
        say(f"{user.id} {name}: {email}, {role}")


@users.command("list")
@click.option("--role", type=click.Choice(ROLES), help="Only those with this role.")
@options.limit
@options.mode
@options.project
@options.database
@options.as_json
def list_users(
    role: str | None, limit: int, mode: str, project: str | None, database: Location, as_json: bool
) -> None:
    """List the newest users, with the deactivated ones."""

    def find(unit: Unit) -> list[User]:
        tenant = Tenant(known_project(unit, project).id, mode == "live")
        return ledger_users.page(unit, tenant, per_page=limit, role=role).items

    found = read(database, find)
    if as_json:
        print_json([shown(user) for user in found])
        return
    print_table(
        ("ID", "ROLE", "STATUS", "CREATED", "EMAIL", "NAME"),
        [
            (user.id, user.role, user.status, iso(user.created), user.email or "", user.name or "")
            for user in found
        ],
    )


@users.command("set-password")
@click.argument("email")
@options.project
@options.mode
@click.option("--password-stdin", is_flag=True, help="Read the password from stdin instead of asking for it.")
@options.database
@options.as_json
def set_password(
    email: str, project: str | None, mode: str, password_stdin: bool, database: Location, as_json: bool
) -> None:
    """Set the password of the user with the address EMAIL, for signing in."""
    from ledger_engine.access.oauth import passwords

    hashed = passwords.hash_password(_read_password(password_stdin))

    def work(unit: Unit) -> str:
        tenant = Tenant(known_project(unit, project).id, mode == "live")
        return passwords.set_password(unit, tenant, email, hashed)

    id = write(database, work)
    if as_json:
        print_json({"id": id, "email": email})
    else:
        say(f"{id} has a new password.")


def _read_password(from_stdin: bool) -> str:
    if not from_stdin:
        if not sys.stdin.isatty():
            raise click.UsageError("There is no terminal to ask for the password on; use --password-stdin.")
        return str(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    # `echo` adds one line end, which does not belong to the password.
    return sys.stdin.read().removesuffix("\n").removesuffix("\r")
