"""The examples of docs/testing.md do what they say, as they are printed; those of pytest in test_plugin."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import click
import pytest
import yaml

from ledger_engine.cli.serve import serve
from tests.helped_server import HelpedServer, Owned, own, server
from tests.house.pages import ROOT, blocks

__all__ = ["own", "server"]

PAGE = ROOT / "docs" / "testing.md"


def examples(language: str) -> list[str]:
    return [each.text for each in blocks(PAGE) if each.language == language]


@pytest.mark.process
@pytest.mark.skipif(
    shutil.which("node") is None, reason="needs node; on Debian and Ubuntu: apt install nodejs"
)
def test_the_javascript_example_uses_each_helper(server: HelpedServer, own: Owned) -> None:
    example, *_in_a_container = examples("javascript")
    before = own.api.get("/v1/test_helpers/clock").json()["offset_ms"]
    given = {"LEDGER_TEST_URL": f"http://127.0.0.1:{server.port}", "LEDGER_API_KEY_TEST": own.key}
    ran = subprocess.run(
        ["node", "--input-type=module", "-"],
        input=f"{example}\nconsole.log(event.type);",
        env={**os.environ, **given, "NO_PROXY": "*"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (ran.returncode, ran.stdout) == (0, "invoice.paid\n"), ran.stderr
    assert own.api.get("/v1/test_helpers/clock").json()["offset_ms"] - before >= 29 * 86_400_000
    (fault,) = own.api.get("/v1/test_helpers/faults").json()["data"]
    assert fault["action"]["cut"] == "after_commit"


def test_the_compose_file_builds_what_is_here_and_sets_options_that_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compose, job = map(yaml.safe_load, examples("yaml"))
    service = compose["services"]["ledger"]
    assert (ROOT / service["build"]["dockerfile"]).is_file()
    given = service["environment"]
    assert given.keys() <= {option.envvar for option in serve.params if isinstance(option, click.Option)}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    options = serve.make_context("serve", []).params
    assert options["test_helpers"] is True
    assert options["api_key"] == job["steps"][-1]["env"]["LEDGER_API_KEY_TEST"]
    (line,) = re.findall(r"export LEDGER_API_KEY_TEST=(\S+)", PAGE.read_text(encoding="utf-8"))
    assert line == options["api_key"]
