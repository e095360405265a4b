"""`ledger-engine conform` against the server as its clients see it."""

from __future__ import annotations

import json

from click.testing import CliRunner

from ledger_engine.cli import main
from ledger_engine.conforming.rules import RULES
from tests.contract.conftest import Project, Server


def test_the_server_conforms(server: Server, project: Project) -> None:
    done = CliRunner().invoke(main, ["conform", server.url, "--key", project.key, "--json"])
    report = json.loads(done.stdout)
    failed = [each for each in report["rules"] if each["result"] == "failed"]
    assert (done.exit_code, report["ok"], failed) == (0, True, [])
    assert [each["rule"] for each in report["rules"]] == list(RULES)
    assert project.key not in done.stdout
