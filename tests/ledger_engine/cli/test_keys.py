"""`ledger-engine keys`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ledger_engine.core.settings import Location
from tests.ledger_engine.cli.conftest import Command, RunJson, only_line
from tests.locations import execute, stored_bytes


@pytest.mark.parametrize("mode", ["test", "live"])
def test_a_key_is_made_and_its_value_shown(run_json: RunJson, mode: str) -> None:
    made = run_json("keys", "create", "--mode", mode)
    assert made["id"].startswith("key_")
    assert re.fullmatch(rf"sk_{mode}_[A-Za-z0-9]{{32}}", made["key"])
    assert (made["role"], made["scopes"], made["livemode"]) == ("admin", None, mode == "live")


def test_a_key_can_have_a_role_scopes_and_a_name(run_json: RunJson) -> None:
    made = run_json(
        "keys", "create", "--mode", "test", "--role", "member", "--scope", "read:users",
        "--scope", "read:projects", "--name", "the till",
    )  # fmt: skip
    assert (made["role"], made["name"]) == ("member", "the till")
    assert made["scopes"] == ["read:projects", "read:users"]


def test_the_first_key_makes_the_first_project_which_is_without_limits(run_json: RunJson) -> None:
    made = run_json("keys", "create", "--mode", "test")
    (project,) = run_json("projects", "list")
    assert project["plan"] == "enterprise"
    assert made["project"] == project["id"]
    assert run_json("keys", "create", "--mode", "live")["project"] == project["id"]


def test_a_key_is_of_the_project_that_is_named(run_json: RunJson) -> None:
    run_json("projects", "create", "Roastery")
    other = run_json("projects", "create", "Bakery")["id"]
    assert run_json("keys", "create", "--mode", "test", "--project", other)["project"] == other
    assert [key["project"] for key in run_json("keys", "list", "--project", other)] == [other]
    assert run_json("keys", "list") == []


def test_an_unknown_project_has_no_keys(run_json: RunJson, command: Command) -> None:
    run_json("projects", "create", "Roastery")
    for words in (("keys", "create", "--mode", "test"), ("keys", "list")):
        assert "No such project" in only_line(command(*words, "--project", "prj_x", status=1).stderr)


def test_the_value_alone_is_on_stdout(command: Command) -> None:
    done = command("keys", "create", "--mode", "test")
    assert re.fullmatch(r"sk_test_[A-Za-z0-9]{32}\n", done.stdout)
    assert "It is shown only once." in only_line(done.stderr)


@pytest.mark.sqlite
def test_a_key_of_a_ledger_that_was_not_there_says_so(command: Command, database: Path) -> None:
    new = f"The ledger is new: {database}"
    assert new in only_line(command("keys", "create", "--mode", "test").stderr)
    assert new not in only_line(command("keys", "create", "--mode", "test").stderr)


def test_values_are_neither_listed_nor_stored(
    run_json: RunJson, command: Command, database: Location
) -> None:
    value = run_json("keys", "create", "--mode", "test")["key"]
    listing = command("keys", "list").stdout
    assert value[-4:] in listing
    assert value not in listing
    assert value not in command("keys", "list", "--json").stdout
    assert value.encode() not in stored_bytes(database)


def test_keys_are_listed_newest_first_and_the_revoked_ones_when_asked(run_json: RunJson) -> None:
    ids = [run_json("keys", "create", "--mode", "test")["id"] for _ in range(3)]
    run_json("keys", "revoke", ids[1])
    assert [key["id"] for key in run_json("keys", "list")] == [ids[2], ids[0]]
    listed = run_json("keys", "list", "--all")
    assert [key["id"] for key in listed] == ids[::-1]
    assert [key["revoked_at"] is None for key in listed] == [True, False, True]


def test_revoking_a_key_again_changes_nothing(run_json: RunJson) -> None:
    id = run_json("keys", "create", "--mode", "test")["id"]
    assert run_json("keys", "revoke", id)["revoked_at"] == run_json("keys", "revoke", id)["revoked_at"]


def test_a_rolled_key_has_the_rights_of_the_one_before(run_json: RunJson) -> None:
    old = run_json(
        "keys", "create", "--mode", "live", "--role", "member", "--scope", "read:users", "--name", "x"
    )
    new = run_json("keys", "roll", old["id"])
    assert new["key"] != old["key"]
    for field in ("role", "scopes", "name", "livemode", "project"):
        assert new[field] == old[field]
    assert [key["id"] for key in run_json("keys", "list")] == [new["id"]]


def test_a_revoked_key_is_not_rolled(run_json: RunJson, command: Command) -> None:
    id = run_json("keys", "create", "--mode", "test")["id"]
    assert only_line(command("keys", "revoke", id).stdout) == f"{id} is revoked."
    assert "revoked" in only_line(command("keys", "roll", id, status=1).stderr)


def test_an_unknown_key_is_neither_revoked_nor_rolled(run_json: RunJson, command: Command) -> None:
    run_json("projects", "create", "Roastery")
    for word in ("revoke", "roll"):
        assert "No such API key" in only_line(command("keys", word, "key_x", status=1).stderr)


def test_an_archived_project_gets_no_keys(run_json: RunJson, command: Command, database: Location) -> None:
    id = run_json("projects", "create", "Roastery")["id"]
    execute(database, "UPDATE projects SET archived_at = created")
    done = command("keys", "create", "--mode", "test", "--project", id, status=1)
    assert "is archived" in only_line(done.stderr)
