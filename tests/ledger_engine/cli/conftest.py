"""The command line, on a database of the test's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ledger_engine.cli import main
from ledger_engine.core.settings import Location
from tests.locations import no_ledger_yet
from tests.marking import mark_folder

Command = Callable[..., Result]
RunJson = Callable[..., Any]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--database") == "postgres":
        mark_folder(Path(__file__).parent, items, "process")


@pytest.fixture
def database(kind: str, tmp_path: Path) -> Location:
    return no_ledger_yet(kind, tmp_path)


@pytest.fixture
def command(database: Location) -> Command:
    """Return a function that runs `ledger-engine` and expects the exit status `status`, by default 0."""

    def run(*words: str, status: int = 0, stdin: str | None = None, **environment: str) -> Result:
        environment = {"LEDGER_DATABASE": str(database), **environment}
        done = CliRunner().invoke(main, words, input=stdin, env=environment, prog_name="ledger-engine")
        assert done.exit_code == status, (done.exit_code, done.output, done.exception)
        return done

    return run


@pytest.fixture
def run_json(command: Command) -> RunJson:
    """Return a function that runs a command with `--json` and returns what it prints."""
    return lambda *words, **more: json.loads(command(*words, "--json", **more).stdout)


def only_line(text: str) -> str:
    """Return the only line of a text."""
    lines = text.splitlines()
    assert len(lines) == 1, lines
    return lines[0]
