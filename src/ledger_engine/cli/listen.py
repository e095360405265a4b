"""`ledger-engine listen` and `tail`: the events of a server as they happen, forwarded or printed."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Any

import click

from ledger_client.parsing import parsed
from ledger_engine.access.api_keys import NewApiKey
from ledger_engine.cli import options
from ledger_engine.cli.asking import ServerTarget, server_options
from ledger_engine.cli.running import print_json, say
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.settings import default_database, make_folder
from ledger_engine.events.outbox import KINDS
from ledger_engine.events.webhooks.endpoints import new_secret
from ledger_engine.store.files import write_private

_NAME = re.compile(r"[!#$%&'*+.^`|~0-9A-Za-z_-]+")
_READER = NewApiKey("listen", "member", ["read:projects", "read:users"], session=True)


def _kinds(text: str) -> tuple[str, ...]:
    """Return the types of events in a text such as `invoice.paid,order.paid`."""
    kinds = tuple(kind.strip() for kind in text.split(","))
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"{kind!r} is not one of {', '.join(KINDS)}.")
    return kinds


def _headers(text: str) -> dict[str, str]:
    """Return the headers in a text such as `X-Tenant: 1,X-Trace: on`."""
    headers = {}
    for header in text.split(","):
        name, separator, value = (part.strip() for part in header.partition(":"))
        if not (separator and _NAME.fullmatch(name) and value.isascii() and value.isprintable()):
            raise ValueError(f"{header!r} must be like X-Tenant:1, in ASCII.")
        headers[name] = value
    return headers


@click.command()
@click.option(
    "--forward-to",
    metavar="URL",
    required=True,
    type=options.url(default_scheme="http"),
    help="The address of your webhook handler, or its port on this machine.",
)
@click.option(
    "--events",
    "kinds",
    type=options.ParsedText("A,B,…", _kinds),
    help="Forward only these types, like invoice.paid,order.paid.",
)
@click.option(
    "--headers",
    type=options.ParsedText("NAME:VALUE,…", _headers),
    help="Headers to send along, like X-Tenant:1,X-Trace:on.",
)
@click.option(
    "--retry", is_flag=True, help="Send an event again, up to five times, if your handler did not accept it."
)
@server_options
def listen(
    target: ServerTarget,
    forward_to: str,
    kinds: tuple[str, ...] | None,
    headers: dict[str, str] | None,
    retry: bool,
) -> None:
    """Post each event that happens on a server to a URL of yours, signed as a webhook, until Ctrl-C."""

    async def forward(root: str, key: str) -> None:
        from ledger_engine.cli.listening import WebhookListener

        secret = _stored_secret()
        await WebhookListener(root, key, forward_to, secret, say, retry, kinds or (), headers or {}).run()

    _run_until_stopped(target, forward)


@click.command()
@server_options
@options.as_json
def tail(target: ServerTarget, as_json: bool) -> None:
    """Print each event that happens on a server as one line, until Ctrl-C."""

    async def show(root: str, key: str) -> None:
        from ledger_engine.cli.listening import EventFollower

        to_people = partial(say, err=True)
        follower = EventFollower(root, key, to_people, lambda: to_people(f"Listening to {root}"))
        async with aclosing(follower.events()) as stream:
            async for event in stream:
                record = parsed(event.body)
                if as_json:
                    print_json(record, indent=None)
                else:
                    say(f"{record.get('created')} {event.kind} {_subject(record)} {event.id}")

    _run_until_stopped(target, show)


def _subject(record: dict[str, Any]) -> Any:
    """Return the id of the object that an event is about."""
    try:
        return record["data"]["object"]["id"]
    except (LookupError, TypeError):
        return "-"


def _stored_secret() -> str:
    """Return the secret with which all listeners of this user sign. If it does not exist, create it."""
    try:
        file = default_database().with_name("listen.secret")
        if not file.exists():
            make_folder(default_database())
            write_private(file, f"{new_secret()}\n")
        return file.read_text(encoding="utf-8").strip()
    except StorageUnavailable as error:
        raise click.ClickException(
            "Your data directory cannot be created. The signing secret of your listeners is stored there:"
            " name another directory in the variable XDG_DATA_HOME."
        ) from error


def _run_until_stopped(target: ServerTarget, work: Callable[[str, str], Awaitable[None]]) -> None:
    """Run `work` with the server's address and a key until Ctrl-C or SIGTERM; the exit status is then 0."""

    async def follow() -> None:
        # Imported here, because httpx takes longer to load than most commands take to run.
        from ledger_engine.cli.listening import StreamRefusal

        root = target.root()
        async with target.key(_READER) as key:
            try:
                await work(root, key)
            except StreamRefusal as refusal:
                raise click.ClickException(str(refusal)) from refusal

    async def run() -> None:
        task = asyncio.ensure_future(follow())
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(run())
