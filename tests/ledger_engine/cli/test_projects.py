"""`ledger-engine projects`."""

from __future__ import annotations

from tests.ledger_engine.cli.conftest import Command, RunJson, only_line


def test_a_project_is_made_with_its_plan_and_limits(run_json: RunJson) -> None:
    made = run_json(
        "projects", "create", "Roastery", "--plan", "enterprise",
        "--rate-limit", "9000", "--burst", "300", "--overdraft", "refuse",
    )  # fmt: skip
    assert made["id"].startswith("prj_")
    assert (made["object"], made["name"], made["plan"]) == ("project", "Roastery", "enterprise")
    assert (made["rate_limit"], made["burst"], made["overdraft"]) == (9000, 300, "refuse")
    assert made["livemode"] is False


def test_a_project_is_free_and_may_be_overdrawn_unless_said(run_json: RunJson) -> None:
    made = run_json("projects", "create", "Roastery")
    assert (made["plan"], made["overdraft"], made["rate_limit"]) == ("free", "allow", None)


def test_limits_of_its_own_take_the_enterprise_plan(command: Command) -> None:
    done = command("projects", "create", "Roastery", "--plan", "pro", "--burst", "9", status=1)
    assert "enterprise" in only_line(done.stderr)


def test_projects_are_listed_the_first_one_first(run_json: RunJson, command: Command) -> None:
    names = ["Roastery", "Bakery", "Brewery"]
    for name in names:
        run_json("projects", "create", name)
    assert [project["name"] for project in run_json("projects", "list")] == names
    table = command("projects", "list").stdout.splitlines()
    assert len(table) == 4
    assert table[1].endswith("Roastery")


def test_a_project_is_changed_where_it_is_said(run_json: RunJson) -> None:
    made = run_json("projects", "create", "Roastery", "--plan", "enterprise", "--burst", "7")
    changed = run_json("projects", "update", made["id"], "--overdraft", "refuse", "--name", "Rösterei")
    assert (changed["name"], changed["overdraft"], changed["burst"]) == ("Rösterei", "refuse", 7)
    assert run_json("projects", "update", made["id"], "--plan", "pro")["burst"] is None
    assert [project["plan"] for project in run_json("projects", "list")] == ["pro"]


def test_a_project_is_archived_and_restored(run_json: RunJson, command: Command) -> None:
    made = run_json("projects", "create", "Roastery")
    run_json("keys", "create", "--mode", "live", "--project", made["id"])
    assert command("projects", "archive", made["id"]).stdout.endswith(", archived\n")
    archived = run_json("projects", "archive", made["id"])["archived_at"]
    assert archived == run_json("projects", "list")[0]["archived_at"] is not None
    assert "No such project" in only_line(command("projects", "archive", "prj_x", status=1).stderr)
    assert "(archived)" in command("projects", "list").stdout
    assert run_json("projects", "restore", made["id"])["archived_at"] is None
    assert "(archived)" not in command("projects", "list").stdout
    assert "No such project" in only_line(command("projects", "restore", "prj_x", status=1).stderr)
    again = command("projects", "restore", made["id"], status=1)
    assert only_line(again.stderr) == f"ledger-engine: The project {made['id']} is not archived."


def test_an_unknown_project_cannot_be_changed(run_json: RunJson, command: Command) -> None:
    run_json("projects", "create", "Roastery")
    assert "No such project" in only_line(
        command("projects", "update", "prj_x", "--plan", "pro", status=1).stderr
    )


STEERING = "\x1b]0;owned\x07 \x9b2J\x7f \u202eevil\u2066 line\ntwo"


def test_a_name_cannot_steer_the_terminal(command: Command, run_json: RunJson) -> None:
    shown = r"\x1b]0;owned\x07 \x9b2J\x7f \u202eevil\u2066 line\ntwo"
    assert shown in only_line(command("projects", "create", STEERING).stdout)
    table = command("projects", "list").stdout.splitlines()
    assert len(table) == 2
    assert table[1].endswith(shown)
    refused = command("seed", STEERING, "--project", STEERING, status=1)
    assert only_line(refused.stderr).isprintable()


def test_json_keeps_such_a_name_and_does_not_steer_either(command: Command, run_json: RunJson) -> None:
    run_json("projects", "create", STEERING)
    assert run_json("projects", "list")[0]["name"] == STEERING
    text = command("projects", "list", "--json").stdout
    assert text.replace("\n", "").isprintable()


def test_an_empty_name_of_a_database_is_refused(command: Command) -> None:
    refused = command("projects", "list", "--database", "", status=2)
    assert only_line(refused.stderr) == "ledger-engine: Invalid value for '--database': must not be empty."
