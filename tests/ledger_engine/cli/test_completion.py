"""Completion in shells, by the script that `ledger-engine completion` prints."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ledger_engine.cli.conftest import Command, only_line

# What bash does when somebody presses tab after these words.
ASK = """
eval "$1"
COMP_WORDS=(ledger-engine keys cre)
COMP_CWORD=2
_ledger_engine_completion ledger-engine
echo "${COMPREPLY[@]}"
complete -p ledger-engine
"""


@pytest.mark.process  # of bash, which is asked for its version
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_each_shell(command: Command, shell: str) -> None:
    script = command("completion", shell).stdout
    assert f"{shell}_complete" in script
    assert "ledger-engine" in script


def test_another_shell_is_refused(command: Command) -> None:
    assert "tcsh" in only_line(command("completion", "tcsh", status=2).stderr)


def test_the_words_of_a_command_are_completed(command: Command) -> None:
    environment = {"COMP_WORDS": "ledger-engine keys cre", "COMP_CWORD": "2"}
    asked = command(_LEDGER_ENGINE_COMPLETE="bash_complete", **environment)
    assert asked.stdout.split() == ["plain,create"]


@pytest.mark.process
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_by_the_script(command: Command, tmp_path: Path) -> None:
    program = tmp_path / "ledger-engine"
    program.write_text(f"#!{sys.executable}\nfrom ledger_engine.cli import main\nmain()\n")
    program.chmod(0o755)
    script = command("completion", "bash").stdout
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", ASK, "bash", script], capture_output=True, text=True, env=environment
    )
    assert done.stderr == ""
    words, how = done.stdout.splitlines()
    assert words == "create"
    assert how.endswith("ledger-engine")
