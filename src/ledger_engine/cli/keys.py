"""`ledger-engine keys`: the API keys of a project."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import click

from ledger_engine.access import api_keys
from ledger_engine.access.api_keys import ApiKey, NewApiKey
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
from ledger_engine.core.tenant import ROLES, SCOPES, Tenant, mode_name
from ledger_engine.store import Unit


@click.group()
def keys() -> None:
    """Create, list, revoke and roll API keys."""


@keys.command()
@options.project
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
@click.option("--name", help="What the key is for.")
@options.ledger
def create(
    project: str | None,
    mode: str,
    role: str,
    scopes: tuple[str, ...],
    name: str | None,
    database: Location,
    as_json: bool,
) -> None:
    """Create an API key. Its value is printed only this once."""
    value = api_keys.new_value(mode == "live")
    new = NewApiKey(name, role, list(scopes) or None)

    def make(unit: Unit) -> tuple[ApiKey, str]:
        owner = project_or_first(unit, project)
        return api_keys.create(unit, Tenant(owner.id, mode == "live"), new, value), owner.id

    key, owner = write(database, make, make=True, in_copy=True)
    _print(key, value, owner, as_json)


@keys.command("list")
@options.project
@click.option("--all", "revoked_too", is_flag=True, help="Include revoked keys.")
@options.ledger
def list_keys(project: str | None, revoked_too: bool, database: Location, as_json: bool) -> None:
    """List the keys of a project, newest first, without their values, which are not stored."""

    def find(unit: Unit) -> tuple[list[ApiKey], str]:
        owner = known_project(unit, project)
        return api_keys.every(unit, owner.id), owner.id

    found, owner = read(database, find)
    listed = [key for key in found if revoked_too or key.revoked_at is None]
    columns: Mapping[str, Callable[[ApiKey], str]] = {
        "ID": lambda key: key.id,
        "VALUE": lambda key: f"sk_{mode_name(key.livemode)}_…{key.last4}",
        "ROLE": lambda key: key.role,
        "SCOPES": lambda key: "all" if key.scopes is None else ",".join(key.scopes),
        "CREATED": lambda key: iso(key.created),
        "REVOKED": lambda key: "" if key.revoked_at is None else iso(key.revoked_at),
        "NAME": lambda key: key.name or "",
    }
    print_list(listed, as_json, columns, partial(shown, project=owner))


@keys.command()
@click.argument("id")
@options.ledger
def revoke(id: str, database: Location, as_json: bool) -> None:
    """Revoke the key ID and its tokens for ever. A running server refuses them within a second."""

    def end(unit: Unit) -> ApiKey:
        return api_keys.revoke(unit, api_keys.tenant_of(unit, id), id)

    key = write(database, end, in_copy=True)
    print_one(shown(key), as_json, f"{key.id} is revoked.")


@keys.command()
@click.argument("id")
@options.ledger
def roll(id: str, database: Location, as_json: bool) -> None:
    """Revoke the key ID and create one with the same rights, whose value is printed only this once."""
    tenant = read(database, partial(api_keys.tenant_of, id=id))
    value = api_keys.new_value(tenant.livemode)
    key = write(database, partial(api_keys.roll, tenant=tenant, id=id, value=value), in_copy=True)
    _print(key, value, tenant.project, as_json)


def _print(key: ApiKey, value: str, project: str, as_json: bool) -> None:
    mode = mode_name(key.livemode)
    note = f"{key.id}: {mode} mode, role {key.role}, project {project}. Shown this once."
    print_one(shown(key, project=project, key=value), as_json, value, note)
