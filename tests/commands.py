"""Runs commands of `ledger-engine` in this process, because a new process takes half a second longer."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from click.testing import CliRunner, Result

from ledger_engine.cli import main
from ledger_engine.core.settings import Location


def run_command(database: Location, *words: str, stdin: str = "") -> Result:
    """Run a command of `ledger-engine` on this database; this also works while an event loop runs."""
    arguments = [*words, "--database", str(database), "--json"]
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(CliRunner().invoke, main, arguments, stdin).result()


def answer_of_command(database: Location, *words: str, stdin: str = "") -> Any:
    """Run a command that succeeds and return the JSON it prints."""
    done = run_command(database, *words, stdin=stdin)
    assert done.exit_code == 0, (done.output, done.exception)
    return json.loads(done.stdout)
