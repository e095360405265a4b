"""`ledger-engine conform`: a line for each rule, and the exit status for CI."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.ledger_engine.cli.conftest import Command, RunJson, only_line
from tests.ledger_tui.contract_server import KEY, ContractServer


@pytest.fixture
def server() -> Iterator[ContractServer]:
    with ContractServer() as running:
        running.add_account("Till")
        yield running


@contextmanager
def another_program() -> Iterator[str]:
    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<p>Hello</p>")

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with HTTPServer(("127.0.0.1", 0), Pages) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.slow
def test_a_server_that_breaks_rules_is_told_each_with_request_and_answer(
    server: ContractServer, command: Command, run_json: RunJson, tmp_path: Path
) -> None:
    file = tmp_path / "report.xml"
    done = command("conform", server.url, "--key", KEY, "--read-only", "--junit", str(file), status=1)
    assert "failed          auth-bearer" not in done.stdout
    assert "failed          sizes-url: the URL; 8 KB" in done.stdout
    assert "passed          get-accounts:" in done.stdout
    assert "    > GET " in done.stdout
    assert "    < " in done.stdout
    assert KEY not in done.stdout
    assert b"<testsuite" in file.read_bytes()
    answer = run_json("conform", server.url + "/v1", "--read-only", LEDGER_API_KEY=KEY, status=1)
    assert answer["ok"] is False
    assert {each["result"] for each in answer["rules"]} == {"passed", "failed", "not applicable"}
    assert all(method == "GET" or path == "/oauth/token" for method, path, _ in server.requests)


def test_a_live_key_is_only_read_with(command: Command) -> None:
    refused = command("conform", "http://127.0.0.1:9", "--key", "sk_live_" + "a" * 32, status=2)
    assert "--read-only" in refused.stderr
    assert "--key" in command("conform", "http://127.0.0.1:9", status=2).stderr


def test_a_server_that_is_not_there_is_told_in_one_line(command: Command) -> None:
    refused = command("conform", "http://127.0.0.1:9", "--key", KEY, status=1)
    assert refused.stderr.count("\n") == 1


def test_a_server_that_is_no_ledger_is_told_in_one_line(command: Command) -> None:
    with another_program() as url:
        refused = command("conform", url, "--key", KEY, status=1)
    assert refused.stdout == ""
    assert only_line(refused.stderr).startswith("ledger-engine: This is not a ledger: ")


def test_a_report_that_cannot_be_written_is_refused_before_anything_is_sent(
    server: ContractServer, command: Command, tmp_path: Path
) -> None:
    file = str(tmp_path / "missing" / "report.xml")
    done = command("conform", server.url, "--key", KEY, "--read-only", "--junit", file, status=2)
    assert "There is no folder" in done.stderr
    assert server.requests == []


def test_a_text_that_is_no_address_of_a_server_is_answered_with_an_example(command: Command) -> None:
    assert "like http://127.0.0.1:8700." in command("conform", "ftp://x", "--key", KEY, status=2).stderr
