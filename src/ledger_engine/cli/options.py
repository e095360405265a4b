"""Options that several commands share, and the checks of their values."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial, update_wrapper
from pathlib import Path
from typing import Any, TypeVar

import click

from ledger_client.addresses import is_address, is_key
from ledger_engine.core.clock import parse_end, parse_moment
from ledger_engine.core.errors import InvalidRequest
from ledger_engine.core.settings import Location, default_database, is_url, named
from ledger_engine.store.pages import LIMIT_DEFAULT, LIMIT_MAX

Command = TypeVar("Command", bound=Callable[..., Any])
T = TypeVar("T")


class ParsedText(click.ParamType[T]):
    """The type of an option whose text is converted by `parse`.

    `parse` raises ValueError with a sentence for the user.
    """

    def __init__(self, name: str, parse: Callable[[str], T]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> T:
        """Return the converted value. click can pass an already converted value: return it unchanged."""
        if not isinstance(value, str):
            result: T = value
            return result
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _url(text: str, *, server: bool, default_scheme: str | None) -> str:
    if text.isascii() and text.isdecimal() and default_scheme is not None:
        text = f"localhost:{text}"
    if "://" not in text and default_scheme is not None:
        text = f"{default_scheme}://{text}"
    # The address of a webhook handler may contain a query, so check only the part before the query.
    if not is_address(text if server else text.partition("?")[0]) or not text.isprintable():
        example = "http://127.0.0.1:8700" if server else "http://127.0.0.1:3000/webhooks"
        raise ValueError(f"{text!r} is not an address like {example}.")
    return text


def url(*, server: bool = False, default_scheme: str | None = None) -> ParsedText[str]:
    """Return the option type of an http or https URL.

    The URL must not contain a user name; the URL of a `server` must not contain a query either. If there is a
    `default_scheme`, the user can leave out the scheme, or give only a port of this machine.
    """
    return ParsedText("url", partial(_url, server=server, default_scheme=default_scheme))


def _bearer(text: str) -> str:
    if not is_key(text):  # the key is a secret, so the message leaves it out
        raise ValueError("the key is empty, or contains characters that no key contains.")
    return text


BEARER = ParsedText("key", _bearer)  # a single word of printable ASCII


def _moment(text: str, parse: Callable[[str, str], int]) -> int:
    try:
        return parse(text, f"{text!r}")
    except InvalidRequest as error:
        raise ValueError(str(error)) from error


MOMENT = ParsedText("time", partial(_moment, parse=parse_moment))  # in milliseconds
END = ParsedText("time", partial(_moment, parse=parse_end))  # a date means the last millisecond of the day


class Number(click.IntRange):
    """A whole number within bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            bounds = f"{self.min} or more" if self.max is None else f"{self.min}–{self.max}"
            self.fail(f"{str(value)!r} must be a number, {bounds}.", param, ctx)


_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class FilePath(click.Path):
    """The path of a file. An address, such as s3://bucket/name, is refused."""

    alternative = ""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if not str(value):
            self.fail("must not be empty.", param, ctx)
        if _ADDRESS.match(str(value)):
            self.fail(
                f"{named(str(value))!r} is an address, not the path of a file{self.alternative}.", param, ctx
            )
        return super().convert(value, param, ctx)


class LedgerPlace(FilePath):
    """The place of a ledger: a file, or the address of a PostgreSQL database."""

    alternative = " or postgresql://…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a path, or the address as text."""
        return value if isinstance(value, str) and is_url(value) else super().convert(value, param, ctx)


def file_of(database: Location, why: str) -> Path:
    """Return the file of a ledger. For a ledger on PostgreSQL, raise UsageError with the message `why`."""
    if isinstance(database, str):
        raise click.UsageError(why)
    return database


def server_arguments(key_help: str) -> Callable[[Command], Command]:
    """Declare what a command needs to send requests to a server: the argument URL and the option --key."""
    key = click.option(
        "--key",
        type=BEARER,
        envvar="LEDGER_API_KEY",
        required=True,
        show_envvar=True,
        help=key_help,
    )
    return lambda command: click.argument("url", type=url(server=True))(key(command))


database = click.option(
    "--database",
    envvar="LEDGER_DATABASE",
    type=LedgerPlace(dir_okay=False, path_type=Path),
    default=default_database,
    show_default="ledger.db in your data directory",
    help="The ledger: a SQLite file or postgresql://…. Or set LEDGER_DATABASE.",
)
project = click.option(
    "--project", metavar="ID", help="The project; by default the first project in the database."
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for a program to read.")
limit = click.option(
    "--limit",
    type=Number(1, LIMIT_MAX),
    default=LIMIT_DEFAULT,
    show_default=True,
    metavar="N",
    help="List at most N, newest first.",
)
mode = click.option(
    "--mode",
    type=click.Choice(["test", "live"]),
    default="test",
    show_default=True,
    help="The mode: test or live.",
)


def ledger(
    *more: Callable[[Callable[..., None]], Callable[..., None]], with_json: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Declare the options of a command on a ledger. The command receives them as a LedgerSource.

    `more` contains the options `project` and `mode`, if the command takes them. Without `with_json` the
    command has no option `--json`.
    """

    def declare(command: Callable[..., None]) -> Callable[..., None]:
        names = {"database", "as_json", "project", "mode"}

        def run(**values: Any) -> None:
            # Imported here, because `serve` needs these options but not the code that works on a ledger.
            from ledger_engine.cli.running import LedgerSource

            of_ledger = {name: values.pop(name) for name in names & values.keys()}
            command(ledger=LedgerSource(**of_ledger), **values)

        with_options: Callable[..., None] = update_wrapper(run, command)
        for option in (*((as_json,) if with_json else ()), database, *more):
            with_options = option(with_options)
        return with_options

    return declare
