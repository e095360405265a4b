"""`ledger-engine pull`: a copy from any server, which the other commands take as the copy it is."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click
import pytest
from click.testing import Result

from ledger_engine.cli import main
from ledger_engine.core.errors import PermissionDenied
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts
from ledger_engine.ledger.accounts import NewAccount
from ledger_engine.store.engine import open_engine
from tests.ledger_engine.cli.conftest import Command, RunJson, only_line
from tests.ledger_tui.contract_server import KEY, ContractServer

# What changes a ledger, with what each command needs besides.
CHANGES: dict[str, tuple[str, ...]] = {
    "projects create": ("Shop",),
    "projects update": ("prj_x", "--name", "Shop"),
    "projects restore": ("prj_x",),
    "projects archive": ("prj_x",),
    "users create": ("Ada", "ada@example.com"),
    "users set-password": ("ada@example.com", "--password-stdin"),
    "apps create": ("Shop", "--redirect-uri", "https://shop.example/back"),
    "apps delete": ("app_x",),
    "apps restore": ("app_x",),
    "webhooks create": ("http://127.0.0.1:9/",),
    "webhooks delete": ("whe_x",),
    "webhooks restore": ("whe_x",),
    "webhooks disable": ("whe_x",),
    "webhooks enable": ("whe_x",),
    "webhooks roll": ("whe_x",),
    "events resend": ("evt_x",),
    "seed": ("roastery",),
    "log-key rotate": (),
}
# What only reads, handles whole files, serves, asks a server, or manages the keys that a copy is read with.
NO_CHANGES = {
    *("projects list", "users list", "apps list", "webhooks list", "webhooks deliveries", "events list"),
    *(
        "keys create",
        "keys list",
        "keys revoke",
        "keys roll",
        "listen",
        "tail",
        "api",
        "post",
        "trigger",
        "serve",
        "pull",
    ),
    *("checkpoint", "proof", "check-proof", "log-key show", "witness"),
    *("verify", "export", "backup", "restore", "recover", "migrate", "conform", "completion"),
}


def pull(command: Command, server: ContractServer, database: Location, *more: str, status: int = 0) -> Result:
    return command("pull", server.url, "--key", KEY, "--database", str(database), *more, status=status)


def _commands(command: click.Command, name: str) -> Iterator[str]:
    """Yield the names of all commands."""
    if isinstance(command, click.Group):
        for each in command.commands.values():
            yield from _commands(each, f"{name} {each.name}".strip())
    else:
        yield name


@pytest.fixture
def server() -> Iterator[ContractServer]:
    with ContractServer() as running:
        account = running.add_account("Till")
        for number in range(3):
            running.post(account, 1 + number)
        yield running


@pytest.mark.slow
def test_pull_copies_and_verify_says_of_what(
    server: ContractServer, command: Command, run_json: RunJson, database: Location
) -> None:
    answer = run_json("pull", server.url + "/v1/", "--database", str(database), LEDGER_API_KEY=KEY)
    assert answer["new"] == {"accounts": 1, "transactions": 3}
    assert (answer["mode"], answer["not_shown"]) == ("test", ["events", "invoices"])
    verified = run_json("verify")
    assert verified["ok"]
    assert server.url in verified["checked"]["copy_of"]
    assert f"a copy of {server.url} as of" in command("verify").stdout
    assert "nothing new" in pull(command, server, database).stdout
    server.add_account("Safe")
    assert ": 1 account new from " in pull(command, server, database).stdout


@pytest.mark.slow
def test_a_copy_refuses_every_command_that_would_change_it(
    server: ContractServer, command: Command, run_json: RunJson, database: Location
) -> None:
    pull(command, server, database)
    for words, more in CHANGES.items():
        refused = command(*words.split(), *more, stdin="correct horse\n", status=1)
        assert only_line(refused.stderr) == (
            f"ledger-engine: This ledger is a copy of {server.url} and cannot be changed:"
            " change it there, and pull."
        ), words
    key = run_json("keys", "create", "--mode", "test")  # to read with
    rolled = run_json("keys", "roll", key["id"])
    assert run_json("keys", "revoke", rolled["id"])["revoked_at"] is not None
    refused = command("keys", "create", "--mode", "live", status=1)
    assert only_line(refused.stderr) == (
        f"ledger-engine: This ledger is a copy of the test mode of {server.url} and has no data in live mode."
    )
    assert [each["archived_at"] for each in run_json("projects", "list")] == [None]
    assert "nothing new" in pull(command, server, database).stdout


def test_each_command_is_one_that_a_copy_refuses_or_that_does_not_change_it() -> None:
    assert set(_commands(main, "")) == CHANGES.keys() | NO_CHANGES
    assert not CHANGES.keys() & NO_CHANGES


@pytest.mark.slow
def test_a_copy_of_one_mode_takes_nothing_in_the_other(
    server: ContractServer, command: Command, run_json: RunJson, database: Location
) -> None:
    pull(command, server, database)
    tenant = Tenant(run_json("projects", "list")[0]["id"], livemode=True)

    async def post() -> None:
        engine = open_engine(database)
        try:
            await engine.write(partial(accounts.create, tenant=tenant, new=NewAccount("Till", "EUR", {})))
        finally:
            await engine.close()

    with pytest.raises(PermissionDenied, match=re.escape(f"a copy of {server.url} and cannot be changed")):
        asyncio.run(post())


def test_pull_needs_a_database_that_is_named(server: ContractServer, command: Command) -> None:
    refused = command("pull", server.url, "--key", KEY, status=2)
    assert only_line(refused.stderr) == "ledger-engine: Missing option '--database'."


@pytest.mark.slow
def test_a_writable_copy_is_an_own_ledger(
    server: ContractServer, command: Command, run_json: RunJson, database: Location
) -> None:
    pull(command, server, database, "--writable")
    assert run_json("verify")["checked"]["copy_of"] is None
    assert "ledger of its own" in pull(command, server, database, status=1).stderr


def test_a_server_that_refuses_leaves_no_file(
    server: ContractServer, command: Command, database: Location
) -> None:
    assert "401" in pull(command, server, database, "--key", "sk_test_other", status=1).stderr
    assert not isinstance(database, Path) or not database.exists()
    assert "--key" in command("pull", server.url, "--database", "copy.db", status=2).stderr
