"""Options that several commands share, and the checks of their values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ledger_client.addresses import is_address, is_key
from ledger_engine.core.settings import Location, default_database, is_url
from ledger_engine.store.pages import LIMIT_DEFAULT, LIMIT_MAX

Command = TypeVar("Command", bound=Callable[..., Any])


class Url(click.ParamType[str]):
    """An http(s) URL; with `server` it names a server, without query or user."""

    name = "url"

    def __init__(self, *, server: bool = False, default_scheme: str | None = None) -> None:
        self._server = server
        self._default_scheme = default_scheme

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> str:
        """Return the URL with its scheme."""
        text = str(value)
        if "://" not in text and self._default_scheme is not None:
            text = f"{self._default_scheme}://{text}"
        # A handler's address may have a query.
        if not is_address(text if self._server else text.partition("?")[0]) or not text.isprintable():
            example = "http://127.0.0.1:8700" if self._server else "http://127.0.0.1:3000/webhooks"
            self.fail(f"{text!r} is not an address like {example}.", param, context)
        return text


class Number(click.IntRange):
    """A whole number within bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            bounds = f"{self.min} or more" if self.max is None else f"{self.min}–{self.max}"
            self.fail(f"{str(value)!r} must be a number, {bounds}.", param, ctx)


class Bearer(click.ParamType[str]):
    """A bearer value: one word of printable ASCII.

    It is a secret, so no message contains it.
    """

    name = "key"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> str:
        """Return the value."""
        text = str(value)
        if not is_key(text):
            self.fail("the key is empty or has characters that a key cannot have.", param, context)
        return text


class OfFile(click.Path):
    """The path of a file."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if not str(value):
            self.fail("must not be empty.", param, ctx)
        return super().convert(value, param, ctx)


class OfLedger(OfFile):
    """Where a ledger is: a file, or the address of a PostgreSQL database."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a path, or the address as text."""
        return value if isinstance(value, str) and is_url(value) else super().convert(value, param, ctx)


def file_of(database: Location, why: str) -> Path:
    """Return the file of a ledger. Raises UsageError for one on PostgreSQL, with the reason."""
    if isinstance(database, str):
        raise click.UsageError(why)
    return database


def of_server(key_help: str) -> Callable[[Command], Command]:
    """Declare a server of any kind that a command talks to: its URL, and a key, which must be given."""
    key = click.option(
        "--key",
        type=Bearer(),
        envvar="LEDGER_API_KEY",
        required=True,
        show_envvar=True,
        help=key_help,
    )
    return lambda command: click.argument("url", type=Url(server=True))(key(command))


database = click.option(
    "--database",
    envvar="LEDGER_DATABASE",
    type=OfLedger(dir_okay=False, path_type=Path),
    default=default_database,
    show_default="ledger.db in your data directory",
    help="The SQLite file, or postgresql://…; or LEDGER_DATABASE.",
)
project = click.option(
    "--project", metavar="ID", help="The project; by default the first one in the database."
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for a program to read.")
limit = click.option(
    "--limit",
    type=Number(1, LIMIT_MAX),
    default=LIMIT_DEFAULT,
    show_default=True,
    metavar="N",
    help="How many to list, newest first.",
)
mode = click.option(
    "--mode",
    type=click.Choice(["test", "live"]),
    default="test",
    show_default=True,
    help="The mode: test or live.",
)


def ledger(command: Command) -> Command:
    """Declare what every command on a ledger takes: where the ledger is, and whether to print JSON."""
    return database(as_json(command))
