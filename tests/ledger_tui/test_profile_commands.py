"""`ledger-tui profiles` and what a profile does, as a program."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ledger_tui.commands import call
from tests.ledger_tui.contract_server import KEY

pytestmark = pytest.mark.process

COMMAND = [sys.executable, "-m", "ledger_tui"]


class Shell:
    def __init__(self, folder: Path) -> None:
        self.file = folder / "config.toml"
        self._ours = {
            "LEDGER_TUI_CONFIG": str(self.file),
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        }

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if name != "LEDGER_API_KEY"}
        return subprocess.run(
            [*COMMAND, *arguments], input=stdin, capture_output=True, text=True, timeout=60,
            env=kept | self._ours, check=False,
        )  # fmt: skip

    def call(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Do the same in this process, for what reads and stores no secret."""
        return call(*arguments, environment={"LEDGER_API_KEY": None, **self._ours}, stdin=stdin)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_a_profile_is_added_listed_and_removed_with_its_secret(shell: Shell) -> None:
    added = shell.run(
        "profiles", "add", "shop", "--url", "https://h", "--key-stdin", "--read-only", stdin=KEY + "\n"
    )
    secrets = shell.file.with_name("secrets.json")
    assert (added.returncode, added.stderr) == (0, "")
    assert str(secrets) in added.stdout
    assert secrets.stat().st_mode & 0o777 == 0o600
    assert KEY in secrets.read_text(encoding="utf-8")
    assert KEY not in shell.file.read_text(encoding="utf-8") + added.stdout
    listed = shell.call("profiles", "list")
    assert listed.stdout == "shop  https://h  key stored  read-only\n"
    listed = json.loads(shell.call("profiles", "list", "--json").stdout)
    assert [(each["name"], each["read_only"]) for each in listed] == [("shop", True)]
    assert shell.run("profiles", "remove", "shop").returncode == 0
    assert KEY not in secrets.read_text(encoding="utf-8")
    assert shell.call("profiles", "list").stdout == ""


def test_without_a_command_its_help_is_shown_on_stderr(shell: Shell) -> None:
    answer = shell.call("profiles")
    helped = shell.call("profiles", "--help")
    assert (answer.returncode, answer.stdout, answer.stderr) == (2, "", helped.stdout)


@pytest.mark.parametrize(
    ("arguments", "stdin", "sentence"),
    [
        (["add", "shop", "--url", "h", "--key-stdin"], KEY, "profiles.shop.url: is not an address"),
        (["add", "a b", "--url", "https://h", "--key-stdin"], KEY, "letters, digits"),
        (["add", "shop", "--url", "https://h"], "", "there is no terminal to ask for the key on"),
        (
            ["add", "shop", "--url", "https://h", "--key-stdin"],
            "\n",
            "The key is empty or contains an invalid character.",
        ),
        (["add", "shop", "--url", "https://h", "--key-stdin", "--client-id", "a"], KEY, "Give one of"),
        (["add", "shop", "--url", "https://h", "--client-id", "a", "--mode-color", "red"], "", "a colour"),
        (["remove", "shop"], "", "profiles.shop: does not exist"),
    ],
)
def test_a_wrong_call_is_exit_2_one_line_and_writes_nothing(
    shell: Shell, arguments: list[str], stdin: str, sentence: str
) -> None:
    answer = shell.call("profiles", *arguments, stdin=stdin)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert sentence in answer.stderr
    assert len(answer.stderr.splitlines()) == 1
    assert [*shell.file.parent.iterdir()] == []


@pytest.mark.parametrize(
    ("text", "arguments", "sentence"),
    [
        ("colour = 1", ["--demo"], "config.toml: colour: there is no such entry; choose one of "),
        ("", ["--profile", "shop"], 'no profile is named "shop"'),
        ("[profiles.a]\nurl='http://h'", ["--profile", "b"], "Profiles: a."),
        ("[profiles.a]\nurl='http://h'", ["--profile", "a", "--url", "http://h"], "not both"),
        ("[profiles.a]\nurl='http://h'", ["--profile", "a", "--demo"], "--profile names another server"),
    ],
)
def test_a_bad_config_is_exit_2_and_one_line(
    shell: Shell, text: str, arguments: list[str], sentence: str
) -> None:
    shell.file.write_text(text, encoding="utf-8")
    answer = shell.call(*arguments)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert sentence in answer.stderr
    assert len(answer.stderr.splitlines()) == 1


def test_the_keys_are_listed_by_their_names(shell: Shell) -> None:
    answer = shell.call("keys")
    assert "refresh" in answer.stdout
    assert re.search(r"^open +enter +open; restore it, end it$", answer.stdout, re.MULTILINE)
    keys = {each["id"]: each["keys"] for each in json.loads(shell.call("keys", "--json").stdout)}
    assert keys["refresh"] == "r"
    assert keys["show.accounts"] == "1"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('[keys]\nnothing = "x"', "keys.nothing: there is no such action"),
        ('theme = "none"', 'theme: "none" is not a theme'),
        ('[themes.mine]\nbase = "none"', 'themes.mine.base: "none" is not a theme'),
        ('[themes.mine]\nink = "#000000"', "themes.mine.ink: there is no such entry; choose one of "),
        ('[themes.ledger]\naccent = "#000000"', "themes.ledger: there is a built-in theme of this name"),
    ],
)
def test_a_mistake_anywhere_in_the_file_is_an_error_of_the_list(shell: Shell, text: str, reason: str) -> None:
    shell.file.write_text(text, encoding="utf-8")
    listed = shell.call("profiles", "list")
    assert (listed.returncode, listed.stdout) == (2, "")
    assert reason in listed.stderr


@pytest.mark.parametrize(
    "arguments", [("add", "shop", "--url", "https://h", "--key-stdin"), ("remove", "work")]
)
def test_no_profile_is_changed_in_a_file_that_the_dashboard_refuses(
    shell: Shell, arguments: tuple[str, ...]
) -> None:
    text = '[keys]\nnonsense = "f5"\n\n[profiles.work]\nurl = "https://h"\n'
    shell.file.write_text(text, encoding="utf-8")
    answer = shell.call("profiles", *arguments, stdin=KEY + "\n")
    sentence = f"Error: {shell.file}: keys.nonsense: there is no such action; `ledger-tui keys` lists them.\n"
    assert (answer.returncode, answer.stderr) == (2, sentence)
    assert shell.file.read_text(encoding="utf-8") == text
    assert not shell.file.with_name("secrets.json").exists()
