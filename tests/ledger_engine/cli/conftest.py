"""The command line as it is typed, on a database of the test's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ledger_engine.cli import main

Command = Callable[..., Result]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def command(database: Path) -> Command:
    """Run `ledger-engine` with these words; anything but a clean end is a failure unless `status` says so."""

    def run(*words: str, status: int = 0, stdin: str | None = None, **environment: str) -> Result:
        environment = {"LEDGER_DATABASE": str(database), **environment}
        done = CliRunner().invoke(main, words, input=stdin, env=environment, prog_name="ledger-engine")
        assert done.exit_code == status, (done.exit_code, done.output, done.exception)
        return done

    return run


@pytest.fixture
def told(command: Command) -> Callable[..., Any]:
    """The same with `--json`: what it tells a program."""
    return lambda *words, **more: json.loads(command(*words, "--json", **more).stdout)


def only_line(text: str) -> str:
    """The one line of a text."""
    lines = text.splitlines()
    assert len(lines) == 1, lines
    return lines[0]
