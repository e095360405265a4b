"""`ledger-engine users`."""

from __future__ import annotations

import os
import sys

import pytest
from argon2 import PasswordHasher

from ledger_engine.core.settings import Location
from tests.forking import Process
from tests.ledger_engine.cli.conftest import Command, RunJson, only_line
from tests.locations import execute, stored_bytes

pytestmark = pytest.mark.process

ADA = "ada@example.com"  # of the data set


@pytest.fixture(autouse=True)
def _users(command: Command) -> None:
    command("seed", "minimal")


def stored_hash(database: Location) -> str | None:
    rows = execute(database, f"SELECT password_hash FROM users WHERE email = '{ADA}'")
    return rows[0][0] if rows else None


def test_a_password_is_stored_as_an_argon2_hash(
    command: Command, run_json: RunJson, database: Location
) -> None:
    run_json("users", "set-password", ADA, "--password-stdin", stdin="correct horse\n")
    hashed = stored_hash(database)
    assert hashed is not None
    assert hashed.startswith("$argon2id$")
    assert PasswordHasher().verify(hashed, "correct horse")
    assert b"correct horse" not in stored_bytes(database)


def test_the_case_of_an_address_does_not_matter(command: Command, database: Location) -> None:
    command("users", "set-password", "ADA@Example.com", "--password-stdin", stdin="correct horse")
    assert stored_hash(database) is not None


@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo-terminals")
def test_a_password_is_asked_for_twice_and_not_shown(database: Location) -> None:
    ours, theirs = os.openpty()
    asking = Process(
        ("users", "set-password", ADA, "--database", str(database)),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        new_session=True,  # without a terminal of its own, getpass takes the one on stdin
    )
    os.close(theirs)
    shown = b""
    # What is typed before it is asked for is thrown away.
    for question in (b"Password: ", b"confirmation: "):
        while question not in shown:
            shown += os.read(ours, 1024)
        os.write(ours, b"correct horse\n")
    while b"has a new password." not in shown:
        shown += os.read(ours, 1024)
    os.close(ours)
    assert asking.wait() == 0
    assert b"correct" not in shown
    assert stored_hash(database) is not None


def test_without_a_terminal_there_is_nobody_to_ask(command: Command, database: Location) -> None:
    done = command("users", "set-password", ADA, stdin="correct horse\ncorrect horse\n", status=2)
    assert "--password-stdin" in only_line(done.stderr)
    assert stored_hash(database) is None


@pytest.mark.parametrize("password", ["", "short", "x" * 1025])
def test_a_password_too_short_or_long_is_refused(command: Command, database: Location, password: str) -> None:
    done = command("users", "set-password", ADA, "--password-stdin", stdin=password, status=1)
    assert "A password has" in only_line(done.stderr)
    assert stored_hash(database) is None


def test_an_unknown_address_is_reported(command: Command) -> None:
    words = ("users", "set-password", "eve@example.com", "--password-stdin")
    assert "No such active user" in only_line(command(*words, stdin="correct horse", status=1).stderr)


def test_a_user_of_the_test_mode_does_not_exist_in_the_live_mode(command: Command) -> None:
    words = ("users", "set-password", ADA, "--mode", "live", "--password-stdin")
    assert "No such active user" in only_line(command(*words, stdin="correct horse", status=1).stderr)


def test_a_user_is_created_in_one_mode_and_listed_there(run_json: RunJson, command: Command) -> None:
    made = run_json("users", "create", "Grace", "grace@example.com", "--role", "admin", "--mode", "live")
    assert (made["object"], made["name"], made["role"], made["livemode"]) == ("user", "Grace", "admin", True)
    assert run_json("users", "list", "--mode", "live") == [made]
    assert run_json("users", "list", "--mode", "live", "--role", "owner") == []
    assert {each["email"] for each in run_json("users", "list")} == {ADA}
    table = command("users", "list", "--mode", "live").stdout.splitlines()
    assert [line.split()[0] for line in table] == ["ID", made["id"]]
    assert len(run_json("events", "list", "--mode", "live")) == 1


def test_a_user_that_cannot_be_is_refused_in_one_line(command: Command) -> None:
    words = ("users", "create", "Ada")
    assert "email must be an address" in only_line(command(*words, "ada", status=1).stderr)
    assert "already has the address" in only_line(command(*words, ADA, status=1).stderr)
