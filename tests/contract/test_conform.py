"""`ledger-engine conform` against the server as its clients see it (docs/conform.md)."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from ledger_engine.cli import main
from ledger_engine.tools.conform.examiner import RULES
from tests.contract.conftest import Project, Server, ledger_engine, start_server, stop_server
from tests.ledger_engine.tools.conform.broken import PROVEN
from tests.locations import new_ledger


def conforms(server: Server, key: str) -> None:
    done = CliRunner().invoke(main, ["conform", server.url, "--key", key, "--json"])
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    failed = [each for each in report["rules"] if each["result"] == "failed"]
    assert (done.exit_code, report["ok"], failed) == (0, True, [])
    assert [each["rule"] for each in report["rules"]] == list(RULES)
    assert {each["rule"] for each in report["rules"] if each["result"] == "passed"} == PROVEN
    assert key not in done.stdout


def test_the_server_conforms(server: Server, project: Project) -> None:
    conforms(server, project.key)


def test_a_server_on_postgres_conforms(tmp_path: Path) -> None:
    server = start_server(new_ledger("postgres", tmp_path))
    try:
        key = ledger_engine("keys", "create", "--mode", "test", "--role", "owner", database=server.database)
        conforms(server, key["key"])
    finally:
        stop_server(server)
