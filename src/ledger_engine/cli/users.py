"""`ledger-engine users`: the users of a project and their passwords."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

import click

from ledger_engine.cli import options
from ledger_engine.cli.running import (
    known_tenant,
    print_list,
    print_one,
    project_or_first,
    read,
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
@options.ledger
def create(
    name: str, email: str, role: str, mode: str, project: str | None, database: Location, as_json: bool
) -> None:
    """Create a user called NAME with the address EMAIL."""

    def make(unit: Unit) -> User:
        owner = project_or_first(unit, project)
        tenant = Tenant(owner.id, mode == "live", quota=owner.limits.stored_objects)
        return ledger_users.create(unit, tenant, NewUser(name, email, role))

    user = write(database, make, make=True)
    print_one(shown(user), as_json, f"{user.id} {name}: {email}, {role}")


@users.command("list")
@click.option("--role", type=click.Choice(ROLES), help="Only those with this role.")
@options.limit
@options.mode
@options.project
@options.ledger
def list_users(
    role: str | None, limit: int, mode: str, project: str | None, database: Location, as_json: bool
) -> None:
    """List the newest users, with the deactivated ones."""

    def find(unit: Unit) -> list[User]:
        return ledger_users.page(unit, known_tenant(unit, project, mode), per_page=limit, role=role).items

    columns: Mapping[str, Callable[[User], str]] = {
        "ID": lambda user: user.id,
        "ROLE": lambda user: user.role,
        "STATUS": lambda user: user.status,
        "CREATED": lambda user: iso(user.created),
        "EMAIL": lambda user: user.email or "",
        "NAME": lambda user: user.name or "",
    }
    print_list(read(database, find), as_json, columns)


@users.command("set-password")
@click.argument("email")
@options.project
@options.mode
@click.option("--password-stdin", is_flag=True, help="Read the password from stdin instead of asking for it.")
@options.ledger
def set_password(
    email: str, project: str | None, mode: str, password_stdin: bool, database: Location, as_json: bool
) -> None:
    """Set the password of the user with the address EMAIL, for signing in."""
    from ledger_engine.access.oauth import passwords

    hashed = passwords.hash_password(_read_password(password_stdin))

    def work(unit: Unit) -> str:
        return passwords.set_password(unit, known_tenant(unit, project, mode), email, hashed)

    id = write(database, work)
    print_one({"id": id, "email": email}, as_json, f"{id} has a new password.")


def _read_password(from_stdin: bool) -> str:
    if not from_stdin:
        if not sys.stdin.isatty():
            raise click.UsageError("There is no terminal to ask for the password on; use --password-stdin.")
        return str(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    # `echo` adds one line end, which does not belong to the password.
    return sys.stdin.read().removesuffix("\n").removesuffix("\r")
