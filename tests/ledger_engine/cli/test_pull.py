"""`ledger-engine pull`: a copy from any server, which the other commands take as the copy it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger_engine.core.settings import Location
from tests.ledger_engine.cli.conftest import Command
from tests.ledger_tui.contract_server import KEY, ContractServer

RunJson = Callable[..., Any]


@pytest.fixture
def server() -> Iterator[ContractServer]:
    with ContractServer() as running:
        account = running.add_account("Till")
        for number in range(3):
            running.post(account, 1 + number)
        yield running


@pytest.mark.slow
def test_pull_copies_and_verify_says_of_what(
    server: ContractServer, command: Command, run_json: RunJson
) -> None:
    answer = run_json("pull", server.url, LEDGER_API_KEY=KEY)
    assert answer["new"] == {"accounts": 1, "transactions": 3}
    assert (answer["mode"], answer["not_shown"]) == ("test", ["events", "invoices"])
    verified = run_json("verify")
    assert verified["ok"]
    assert server.url in verified["copy_of"]
    assert f"a copy of {server.url} as of" in command("verify").stdout
    assert "nothing new" in command("pull", server.url + "/v1/", "--key", KEY).stdout
    server.add_account("Safe")
    assert ": 1 account new from " in command("pull", server.url, "--key", KEY).stdout


@pytest.mark.slow
def test_a_copy_refuses_what_would_change_it(server: ContractServer, command: Command) -> None:
    command("pull", server.url, "--key", KEY)
    assert "a copy of" in command("seed", "roastery", status=1).stderr
    words = ("users", "set-password", "ada@example.com", "--password-stdin")
    assert "a copy of" in command(*words, stdin="correct horse\n", status=1).stderr


@pytest.mark.slow
def test_a_writable_copy_is_an_own_ledger(
    server: ContractServer, command: Command, run_json: RunJson
) -> None:
    command("pull", server.url, "--key", KEY, "--writable")
    assert run_json("verify")["copy_of"] is None
    assert "ledger of its own" in command("pull", server.url, "--key", KEY, status=1).stderr


def test_a_server_that_refuses_leaves_no_file(
    server: ContractServer, command: Command, database: Location
) -> None:
    assert "401" in command("pull", server.url, "--key", "sk_test_other", status=1).stderr
    assert not isinstance(database, Path) or not database.exists()
    assert "--key" in command("pull", server.url, status=2).stderr
