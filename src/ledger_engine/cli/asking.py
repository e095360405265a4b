"""Selects the server that a command sends requests to: the server at `--url`, or the database's server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any

import click

from ledger_client.addresses import root_of
from ledger_engine.access import api_keys
from ledger_engine.access.api_keys import NewApiKey
from ledger_engine.cli import options
from ledger_engine.cli.running import LedgerSource, say
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import mode_name
from ledger_engine.store.engine import open_engine
from ledger_engine.store.sqlite.lock import served_at

if TYPE_CHECKING:
    from ledger_client.errors import LedgerError
    from ledger_client.ledger import AsyncLedger

_CHOOSE_WITH_URL = "On PostgreSQL several servers may run. Choose one with --url."
ANSWER_SECONDS_MAX = 60.0
NOTICE_AFTER_S = 3.0


@dataclass(frozen=True, slots=True)
class ServerTarget:
    """The server that the options of a command select."""

    url: str | None
    given_key: str | None
    livemode: bool
    project: str | None
    database: Location

    def root(self) -> str:
        """Return the server's address without `/v1`. Raises ClickException if there is no server."""
        if self.url is not None and self.given_key is None:
            raise click.UsageError("--url needs --key or LEDGER_API_KEY.")
        server = self.url or served_at(options.file_of(self.database, _CHOOSE_WITH_URL))
        if server is None:
            raise click.ClickException(
                f"No server serves {self.database}: start one, or name another with --url."
            )
        return root_of(server)

    @asynccontextmanager
    async def key(self, rights: NewApiKey) -> AsyncIterator[str]:
        """Yield the key that the user gave; otherwise a new key with these rights, revoked at the end."""
        if self.given_key is not None:
            yield self.given_key
            return

        ledger = LedgerSource(self.database, project=self.project, mode=mode_name(self.livemode))
        engine = open_engine(self.database)
        try:
            async with api_keys.key_of(engine, ledger.tenant, rights) as value:
                yield value
        finally:
            await engine.close()

    @asynccontextmanager
    async def connected(self, name: str, *, attempts: int = 1) -> AsyncIterator[AsyncLedger]:
        """Yield a client for the server, with the key that the user gave or a new key of the role owner.

        `name` is the name of the command; the new key gets the same name. A LedgerError within the context
        becomes a ClickException, so a refused or unanswered request ends the command. Each request is sent up
        to `attempts` times. With more than one attempt no notice of waiting is printed: a command that allows
        several attempts shows its own progress.
        """
        # Imported here, because httpx takes longer to load than most commands take to run.
        from ledger_client.errors import LedgerError
        from ledger_client.ledger import AsyncLedger

        root = self.root()
        # Ignore the proxies that the environment names, because they are not meant for a server on this
        # machine or for the server at --url.
        settings: dict[str, Any] = {"trust_env": False, "seconds_max": ANSWER_SECONDS_MAX, "timeout": None}
        async with self.key(NewApiKey(name, "owner", session=True)) as key:
            try:
                async with AsyncLedger(root, key, attempts=attempts, **settings) as ledger:
                    with notice_of_waiting(f"{root} to answer, {ANSWER_SECONDS_MAX:.0f} s at most") as end:
                        if attempts > 1:
                            end()
                        yield ledger
            except LedgerError as error:
                raise click.ClickException(refusal(error, root) + self._way_without(error)) from error

    def _way_without(self, error: LedgerError) -> str:
        """Return how to do without the given key, if the database's own server does not know the key."""
        if error.status != 401 or self.given_key is None or self.url is not None:
            return ""
        return (
            " This key comes from --key or LEDGER_API_KEY; without a key, the command makes one for itself."
        )


@contextmanager
def notice_of_waiting(for_what: str) -> Iterator[Callable[[], None]]:
    """Print a notice if the block still runs after NOTICE_AFTER_S; yield a function that cancels the notice.

    The notice is "Waiting for" and `for_what`. If stderr is not a terminal, commands print only errors on
    stderr, so no notice is printed.
    """
    line = partial(say, f"Waiting for {for_what} …", err=True)
    timer = asyncio.get_running_loop().call_later(NOTICE_AFTER_S, line) if sys.stderr.isatty() else None

    def end() -> None:
        if timer is not None:
            timer.cancel()

    try:
        yield end
    finally:
        end()


def server_options(command: Callable[..., None]) -> Callable[..., None]:
    """Declare the options that select a command's server, and pass them to the command as a ServerTarget."""

    def run(
        *, url: str | None, key: str | None, mode: str, project: str | None, database: Location, **others: Any
    ) -> None:
        command(target=ServerTarget(url, key, mode == "live", project, database), **others)

    with_options = options.database(update_wrapper(run, command))
    with_options = options.mode(options.project(with_options))
    with_options = click.option(
        "--key",
        type=options.BEARER,
        envvar="LEDGER_API_KEY",
        help="An API key, or LEDGER_API_KEY. You need no key for a server of your own database.",
    )(with_options)
    return click.option(
        "--url",
        type=options.url(server=True),
        help="The server's address; by default the server that serves the database.",
    )(with_options)


def refusal(error: LedgerError, server: str) -> str:
    """Return a sentence with the reason why a server refused a request or cannot be reached."""
    if error.status is None or 200 <= error.status < 300:
        return f"{server} cannot be reached: {str(error).removesuffix('.')}."
    if not error.code:
        return f"{error.status} from a server that is not a ledger"
    field = "" if error.param is None else f" ({error.param})"
    return f"{error.status} {error.code}{field}: {error}"
