"""`ledger-engine users`: set the passwords of users."""

from __future__ import annotations

import sys

import click

from ledger_engine.cli import options
from ledger_engine.cli.running import known_project, print_json, say, write
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant
from ledger_engine.store import Unit


@click.group()
def users() -> None:
    """Manage the users of a project."""


@users.command("set-password")
@click.argument("email")
@options.project
@click.option(
    "--mode",
    type=click.Choice(["test", "live"]),
    default="test",
    show_default=True,
    help="The mode of the user: test or live.",
)
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
