"""Asking a server over HTTP: the one that `--url` names, or the one that serves the ledger."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from ledger_client.parsing import parsed
from ledger_engine.access import sessions
from ledger_engine.access.api_keys import NewApiKey
from ledger_engine.cli import options
from ledger_engine.cli.running import known_project
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant
from ledger_engine.store import Unit
from ledger_engine.store.engine import open_engine
from ledger_engine.store.sqlite.lock import served_at

if TYPE_CHECKING:
    import httpx

    Send: TypeAlias = Callable[..., Awaitable[httpx.Response]]

_ANY_NUMBER = "On PostgreSQL several servers may run. Choose one with --url."
ANSWER_SECONDS_MAX = 300.0


@dataclass(frozen=True, slots=True)
class Target:
    """The server that a command asks, as its options say."""

    url: str | None
    given_key: str | None
    livemode: bool
    project: str | None
    database: Location

    def root(self) -> str:
        """Return the server's address without `/v1`. Raises ClickException when there is no server."""
        if self.url is not None and self.given_key is None:
            raise click.UsageError("--url needs --key or LEDGER_API_KEY.")
        server = self.url or served_at(options.file_of(self.database, _ANY_NUMBER))
        if server is None:
            raise click.ClickException(
                f"No server serves {self.database}: start one, or name another with --url."
            )
        return server.rstrip("/").removesuffix("/v1")

    @asynccontextmanager
    async def key(self, rights: NewApiKey) -> AsyncIterator[str]:
        """Yield the given key, or create one with these rights and revoke it at the end."""
        if self.given_key is not None:
            yield self.given_key
            return

        def tenant(unit: Unit) -> Tenant:
            return Tenant(known_project(unit, self.project).id, self.livemode)

        engine = open_engine(self.database)
        try:
            async with sessions.key_of(engine, tenant, rights) as value:
                yield value
        finally:
            await engine.close()

    @asynccontextmanager
    async def connected(self, name: str) -> AsyncIterator[Send]:
        """Yield what sends a request as an owner and returns its answer; `name` is that of the command.

        It raises ClickException for an answer that is an error, or that does not come.
        """
        # Imported here: httpx takes longer to load than most commands to run.
        import httpx

        from ledger_client.answers import LIST_BYTES_MAX, Client

        root = self.root()
        # The proxies in the environment are not meant for this machine, nor for the server of --url.
        limits: dict[str, Any] = {"bytes_max": LIST_BYTES_MAX, "timeout": None, "trust_env": False}
        async with (
            self.key(NewApiKey(name, "owner", session=True)) as key,
            Client(
                seconds_max=ANSWER_SECONDS_MAX, headers={"Authorization": f"Bearer {key}"}, **limits
            ) as client,
        ):

            async def send(method: str, path: str, **parts: Any) -> httpx.Response:
                try:
                    answer = await client.request(method, f"{root}{path}", **parts)
                except (httpx.HTTPError, httpx.InvalidURL) as error:
                    reason = str(error) or type(error).__name__
                    raise click.ClickException(f"{root} cannot be asked: {reason}.") from error
                if not answer.is_success:
                    raise click.ClickException(refusal(answer))
                return answer

            yield send


def any_server(command: Callable[..., None]) -> Callable[..., None]:
    """Declare the options that say which server a command asks, and pass them to it as a Target."""

    def run(
        *, url: str | None, key: str | None, mode: str, project: str | None, database: Location, **others: Any
    ) -> None:
        command(target=Target(url, key, mode == "live", project, database), **others)

    declared = options.database(update_wrapper(run, command))
    declared = options.mode(options.project(declared))
    declared = click.option(
        "--key",
        type=options.Bearer(),
        envvar="LEDGER_API_KEY",
        help="An API key, or LEDGER_API_KEY. Not needed for a server on your own database.",
    )(declared)
    return click.option(
        "--url",
        type=options.Url(server=True),
        help="The server; by default the one that serves the database.",
    )(declared)


def refusal(answer: httpx.Response) -> str:
    """Return in a sentence why a server refused a request."""
    try:
        body = parsed(answer.content)
        error = body["error"]
        code, message, param = (
            (error["code"], error["message"], error.get("param"))
            if isinstance(error, dict)
            else (error, body["message"], None)
        )
        return f"{answer.status_code} {code}{'' if param is None else f' ({param})'}: {message}"
    except (ValueError, KeyError, TypeError):
        return f"{answer.status_code} from a server that is not a ledger"
