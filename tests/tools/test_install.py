"""What `make` installs with says how far it is, and what went wrong."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "install.py"

pytestmark = pytest.mark.process


def test_it_says_what_it_installs_and_shows_what_pip_said_when_it_failed(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text("nothing-of-ours==1.0\nclick[extra]==8.5 ; sys_platform == 'win32'\n")
    command = [sys.executable, TOOL, "what it needs", lock]
    offline = os.environ | {"PIP_NO_INDEX": "1"}
    done = subprocess.run(command, env=offline, capture_output=True, text=True)
    assert done.stdout == "Installing what it needs: up to 2 packages. It takes a minute or two, once.\n"
    assert done.returncode == 1
    assert "No matching distribution found for nothing-of-ours" in done.stderr
    assert done.stderr.endswith("When it can reach them, the same command goes on.\n")
