"""`ledger-engine apps`."""

from __future__ import annotations

import asyncio

import pytest

from ledger_engine.cli import running
from ledger_engine.core.settings import Location
from tests.ledger_engine.cli.conftest import Command, RunJson, only_line

REDIRECT = "https://app.example/callback"


def test_an_app_is_registered_with_its_addresses(run_json: RunJson) -> None:
    made = run_json(
        "apps", "create", "Planner", "--redirect-uri", REDIRECT, "--redirect-uri", "http://127.0.0.1/cb"
    )
    assert made["client_id"] == made["id"]
    assert made["client_id"].startswith("app_")
    assert (made["name"], made["livemode"]) == ("Planner", False)
    assert made["redirect_uris"] == [REDIRECT, "http://127.0.0.1/cb"]
    assert made["native"] is False
    native = run_json("apps", "create", "Till", "--native", "--redirect-uri", "http://127.0.0.1/cb")
    assert native["native"] is True
    (project,) = run_json("projects", "list")
    assert made["project"] == project["id"]


@pytest.mark.parametrize(("mode", "livemode"), [("test", False), ("live", True)])
def test_an_app_is_of_the_project_and_mode_that_are_named(
    run_json: RunJson, mode: str, livemode: bool
) -> None:
    run_json("projects", "create", "Roastery")
    other = run_json("projects", "create", "Bakery")["id"]
    words = ("apps", "create", "Planner", "--redirect-uri", REDIRECT)
    made = run_json(*words, "--project", other, "--mode", mode)
    assert (made["project"], made["livemode"]) == (other, livemode)
    assert [app["client_id"] for app in run_json("apps", "list", "--project", other)] == [made["client_id"]]
    assert run_json("apps", "list") == []


def test_the_client_id_alone_is_on_stdout(command: Command) -> None:
    done = command("apps", "create", "Planner", "--redirect-uri", REDIRECT)
    assert only_line(done.stdout).startswith("app_")
    assert "Planner: test mode" in only_line(done.stderr)


def test_a_list_shows_each_app_in_a_line(command: Command, run_json: RunJson) -> None:
    made = run_json("apps", "create", "Planner", "--redirect-uri", REDIRECT)
    heads, line = command("apps", "list").stdout.splitlines()
    assert heads.split()[:2] == ["CLIENT", "ID"]
    for text in (made["client_id"], "test", "Planner", REDIRECT):
        assert text in line


def test_a_deleted_app_is_gone_until_it_is_restored(command: Command, run_json: RunJson) -> None:
    id = run_json("apps", "create", "Planner", "--redirect-uri", REDIRECT)["client_id"]
    assert only_line(command("apps", "delete", id).stdout) == f"{id} is deleted."
    assert run_json("apps", "list") == []
    assert id in only_line(command("apps", "delete", id, status=1).stderr)
    assert [app["id"] for app in run_json("apps", "list", "--deleted")] == [id]
    assert only_line(command("apps", "restore", id).stdout) == f"{id} is restored."
    assert [app["id"] for app in run_json("apps", "list")] == [id]
    assert "not deleted" in only_line(command("apps", "restore", id, status=1).stderr)
    for word in ("delete", "restore"):
        assert run_json("apps", word, id)["client_id"] == id


def test_an_impossible_address_is_reported_in_one_line(command: Command) -> None:
    done = command("apps", "create", "Planner", "--redirect-uri", "http://app.example/callback", status=1)
    assert "https://" in only_line(done.stderr)


@pytest.mark.parametrize(
    "words", [("create", "Planner"), ("create", "--redirect-uri", REDIRECT), ("delete",)]
)
def test_an_option_left_out_is_asked_for(command: Command, words: tuple[str, ...]) -> None:
    assert "Missing" in only_line(command("apps", *words, status=2).stderr)


def test_without_a_project_it_is_said_how_to_make_one(command: Command, database: Location) -> None:
    asyncio.run(running.using(database, lambda engine: engine.read(lambda unit: unit.now)))
    assert "ledger-engine projects create NAME" in only_line(command("apps", "list", status=1).stderr)
