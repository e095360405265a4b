"""How every command ends, and what it says then."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ledger_engine import __version__, cli
from ledger_engine.core.settings import Location
from tests.forking import Process
from tests.ledger_engine.cli.conftest import Command, only_line

pytestmark = pytest.mark.process

ON_A_DATABASE_THAT_IS_THERE = (
    ("verify",),
    ("projects", "list"),
    ("projects", "update", "prj_x", "--plan", "pro"),
    ("keys", "list"),
    ("keys", "revoke", "key_x"),
    ("keys", "roll", "key_x"),
)


def test_the_version_is_printed(command: Command) -> None:
    assert command("--version").stdout == f"ledger-engine {__version__}\n"


def test_no_command_shows_the_commands_and_is_a_wrong_call(command: Command) -> None:
    assert "serve" in command(status=2).stderr


@pytest.mark.parametrize(
    "words",
    [
        ("nonsense",),
        ("serve", "--nonsense"),
        ("serve", "--port", "99999"),
        ("serve", "--auth-rate-limit", "20"),
        ("keys", "create"),
        ("keys", "create", "--mode", "both"),
        ("projects", "create"),
        ("projects", "create", "x", "--plan", "gold"),
        ("seed",),
    ],
)
def test_a_wrong_call_is_2_and_one_line(command: Command, words: tuple[str, ...]) -> None:
    done = command(*words, status=2)
    assert only_line(done.stderr).startswith("ledger-engine: ")
    assert done.stdout == ""


@pytest.mark.sqlite
@pytest.mark.parametrize("words", ON_A_DATABASE_THAT_IS_THERE)
def test_a_command_for_what_is_there_makes_no_database(
    command: Command, database: Path, words: tuple[str, ...]
) -> None:
    done = command(*words, status=1)
    assert str(database) in only_line(done.stderr)
    assert list(database.parent.iterdir()) == []


@pytest.mark.sqlite
@pytest.mark.parametrize("words", [("projects", "list"), ("keys", "create", "--mode", "test"), ("verify",)])
def test_a_file_that_is_no_database_is_one_line_and_stays_as_it_is(
    command: Command, database: Path, words: tuple[str, ...]
) -> None:
    database.write_text("dear diary, " * 100)
    assert "not a database" in only_line(command(*words, status=1).stderr)
    assert database.read_text() == "dear diary, " * 100


@pytest.mark.sqlite
def test_the_database_can_be_named_on_the_command_line(command: Command, tmp_path: Path) -> None:
    command("projects", "create", "One", "--database", str(tmp_path / "other.db"))
    assert [path.name for path in tmp_path.iterdir()] == ["other.db"]


@pytest.mark.sqlite
def test_without_a_name_the_database_is_in_the_users_data_directory(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    command("projects", "create", "One", LEDGER_DATABASE="")
    (found,) = tmp_path.rglob("ledger.db")
    assert found.stat().st_mode & 0o777 == 0o600
    assert found.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.sqlite
def test_a_missing_folder_is_not_made_up(command: Command, tmp_path: Path) -> None:
    missing = tmp_path / "no" / "such" / "ledger.db"
    done = command("projects", "create", "One", "--database", str(missing), status=1)
    assert f"there is no folder {missing.parent}" in only_line(done.stderr)


def test_a_reader_who_has_seen_enough_ends_it_without_a_word(command: Command, database: Location) -> None:
    for number in range(3):
        command("projects", "create", f"Project {number}")
    words = [sys.executable, "-m", "ledger_engine", "projects", "list", "--database", str(database)]
    listing = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert listing.stdout is not None
    listing.stdout.close()
    assert listing.stderr is not None
    assert listing.stderr.read() == ""
    listing.stderr.close()
    assert listing.wait() in (0, 1)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("words", [("projects", "list"), ("projects", "list", "--json"), ("--version",)])
def test_output_that_cannot_be_written_is_reported_in_one_line(
    command: Command, database: Location, words: tuple[str, ...]
) -> None:
    command("projects", "create", "One")
    with open("/dev/full", "w") as full:
        listing = Process(
            words,
            environment={**os.environ, "LEDGER_DATABASE": str(database)},
            stdout=full,
            stderr=subprocess.PIPE,
        )
    _, stderr = listing.communicate()
    assert listing.returncode == 1
    assert only_line(stderr).rstrip(".").endswith("No space left on device")


@pytest.mark.parametrize("words", [("keys", "create", "--mode", "test", "--json"), ("--version",)])
def test_a_closed_stdout_is_one_line_and_nothing_is_made(
    database: Location, tmp_path: Path, words: tuple[str, ...]
) -> None:
    done = subprocess.run(
        ["sh", "-c", f"exec {shlex.join([sys.executable, '-m', 'ledger_engine', *words])} >&-"],
        env={**os.environ, "LEDGER_DATABASE": str(database)},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 1
    assert only_line(done.stderr).startswith("ledger-engine: Standard output is closed.")
    assert [*tmp_path.iterdir()] == []


def test_a_closed_stderr_and_stdin_do_not_matter(command: Command, database: Location) -> None:
    command("keys", "create", "--mode", "test")
    words = [sys.executable, "-m", "ledger_engine", "verify", "--database", str(database)]
    done = subprocess.run(
        ["sh", "-c", f"exec {shlex.join(words)} 2>&- <&-"], stdout=subprocess.PIPE, text=True
    )
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)


@pytest.mark.parametrize("program", ["ledger_engine", "ledger_tui", "ledger_engine.archive"])
def test_ctrl_c_while_the_program_is_imported_ends_it_without_a_traceback(
    tmp_path: Path, program: str
) -> None:
    (tmp_path / "click.py").write_text("import sys\nprint('importing', flush=True)\nsys.stdin.read()\n")
    entry = program if program.endswith("archive") else f"{program}.__main__"
    with subprocess.Popen(
        [sys.executable, "-c", f"from {entry} import main; main()", "keys"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as starting:
        assert starting.stdout is not None
        assert starting.stdout.readline() == "importing\n"
        starting.send_signal(signal.SIGINT)
        _, stderr = starting.communicate()
    assert (starting.returncode, stderr) == (-signal.SIGINT, "")


@pytest.mark.parametrize("address", ["mysql://me:secret@host/books", "sqlite:///x.db", "s3://bucket/x"])
@pytest.mark.parametrize(
    "words", [("keys", "list", "--database"), ("serve", "--database"), ("serve", "--backup-to"), ("backup",)]
)
def test_an_address_is_not_taken_as_the_path_of_a_file(
    command: Command, words: tuple[str, ...], address: str
) -> None:
    line = only_line(command(*words, address, status=2).stderr)
    assert "is an address, not the path of a file" in line
    assert "secret" not in line


def test_a_home_in_which_nothing_can_be_made_is_named_with_what_was_wanted(command: Command) -> None:
    done = command("projects", "create", "One", status=1, HOME="/proc", XDG_DATA_HOME="", LEDGER_DATABASE="")
    line = only_line(done.stderr)
    assert "the folder /proc/.local/share/ledger-engine for your ledger cannot be created" in line
    assert "--database or LEDGER_DATABASE" in line


def test_a_key_given_in_place_of_something_else_is_not_printed(command: Command) -> None:
    key = "sk_test_0123456789abcdefghijklmnopqrstuv"
    command("projects", "create", "One")
    for words in (("keys", "revoke", key), ("keys", "roll", key), (key,)):
        line = only_line(command(*words, status=2).stderr)
        assert key[10:] not in line
    assert "key_…" in only_line(command("keys", "revoke", key, status=2).stderr)
    assert key[10:] not in command("projects", "archive", key, status=1).stderr


def test_an_argument_that_is_not_utf8_is_a_wrong_call(command: Command) -> None:
    done = command("projects", "create", "Caf\udce9", status=2)
    assert only_line(done.stderr) == "ledger-engine: An argument is not UTF-8."


def test_the_list_shows_each_command_with_a_whole_line_on_a_narrow_terminal(command: Command) -> None:
    listed = command("--help").stdout
    for name, (_, line) in cli._COMMANDS.items():
        assert cli.main.commands[name].name == name
        assert line.endswith(".")
        assert re.search(rf"(?m)^  {name} +{re.escape(line)}$", listed), name


def test_the_list_of_commands_imports_none_of_them() -> None:
    script = (
        "import sys; from click.testing import CliRunner; from ledger_engine.cli import main;"
        " print(CliRunner().invoke(main, ['--help']).output);"
        " sys.exit('asyncio' in sys.modules or 'ledger_engine.cli.serve' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "serve" in done.stdout
