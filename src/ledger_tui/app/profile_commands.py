"""`ledger-tui profiles` and `ledger-tui keys`: commands on the config file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import click

from ledger_tui.client.transport import is_key
from ledger_tui.settings.config import STORED, BadConfig, Config, Profile, config_file, read_config


@click.group()
def profiles() -> None:
    """Manage profiles: servers by name, each with its address and key."""


@profiles.command()
@click.argument("name")
@click.option("--url", required=True, metavar="U", help="The server's address.")
@click.option("--key-stdin", is_flag=True, help="Read the API key from the first line of standard input.")
@click.option("--key-variable", metavar="V", help="Take the key from this environment variable each time.")
@click.option("--read-only", is_flag=True, help="Read only: send nothing that changes data.")
@click.option("--mode-color", metavar="#RRGGBB", help="The colour of its mode label, to distinguish servers.")
@click.option("--client-id", metavar="ID", help="Sign in with OAuth as this app, instead of a key.")
@click.option("--scope", default="", metavar="S", help="The OAuth scopes to ask for, separated by spaces.")
@click.option("--auth-url", metavar="U", help="Where to sign in, if that is another address.")
def add(
    name: str,
    url: str,
    key_stdin: bool,
    key_variable: str | None,
    read_only: bool,
    mode_color: str | None,
    client_id: str | None,
    scope: str,
    auth_url: str | None,
) -> None:
    """Add a profile. Its key is asked for, and kept in the keyring or in a file for you alone."""
    from ledger_tui.settings.config_edit import add_profile, check_profile
    from ledger_tui.settings.secret_store import Secrets, secret_store

    if sum(map(bool, (key_stdin, key_variable, client_id))) > 1:
        raise click.UsageError("Give one of --key-stdin, --key-variable and --client-id.")
    source = f"env:{key_variable}" if key_variable else STORED
    profile = Profile(name, url, source, read_only, mode_color, client_id, scope, auth_url)
    file = config_file()
    with _usage_errors():
        read_checked(file)
        check_profile(file, profile)
        secret = None if key_variable or client_id else _ask_key(key_stdin)
        where = secret_store().put(name, Secrets(api_key=secret)) if secret else ""
        add_profile(file, profile)
    click.echo(f"Added {name} to {file}." + (f" Its key is in {where}." if where else ""))


@profiles.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(as_json: bool) -> None:
    """List the profiles. Secrets are not shown."""

    with _usage_errors():
        found = read_checked(config_file()).profiles
    if as_json:
        click.echo(json.dumps([asdict(profile) for profile in found.values()], indent=2))
        return
    width = max(map(len, found), default=0)
    for profile in found.values():
        how = f"signs in as {profile.client_id}" if profile.client_id else f"key {profile.key}"
        click.echo(f"{profile.name:{width}}  {profile.url}  {how}" + ("  read-only" * profile.read_only))


@profiles.command()
@click.argument("name")
def remove(name: str) -> None:
    """Remove a profile and forget its secrets."""
    from ledger_tui.settings.config_edit import remove_profile
    from ledger_tui.settings.secret_store import secret_store

    with _usage_errors():
        read_checked(config_file())
        remove_profile(config_file(), name)
        secret_store().delete(name)
    click.echo(f"Removed {name}.")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def keys(as_json: bool) -> None:
    """List the dashboard's keys by the names that the config file knows them by."""
    from ledger_tui.app.keymap import BY_ID

    if as_json:
        entries = [{"id": name, "keys": b.key, "does": b.description} for name, b in BY_ID.items()]
        click.echo(json.dumps(entries, indent=2))
        return
    for name, binding in BY_ID.items():
        click.echo(f"{name:22}  {binding.key:24}  {binding.description}")


def _ask_key(key_stdin: bool) -> str:
    if key_stdin:
        key = sys.stdin.readline().strip()
    elif sys.stdin.isatty():
        key = click.prompt("API key", hide_input=True, err=True).strip()
    else:
        raise click.UsageError(
            "Give --key-stdin, --key-variable or --client-id: there is no terminal to ask for the key on."
        )
    if not is_key(key):
        raise click.UsageError("The key is empty or has characters that a key cannot have.")
    return key


@contextmanager
def _usage_errors() -> Iterator[None]:
    """Raise UsageError for BadConfig, as the config file is part of the call; a full disk is an error."""

    try:
        yield
    except BadConfig as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{error}.") from None


def read_checked(file: Path) -> Config:
    """Return the file's content. Raises BadConfig, also for a key or a theme that the dashboard has not.

    What knows the keys and the themes loads Textual, so it is imported only where the file names one.
    """
    config = read_config(file)
    if config.keys or config.commands:
        from ledger_tui.app.keymap import command_bindings, keymap

        keymap(config.keys, str(file))
        command_bindings(config.commands, config.keys, str(file))
    if config.theme is not None or config.themes:
        from ledger_tui.ui.styles import ABOUT, custom_themes, theme_named

        own = custom_themes(config.themes, str(file))
        if config.theme is not None:
            theme_named(config.theme, str(file), [*ABOUT, *(theme.name for theme in own)])
    return config
