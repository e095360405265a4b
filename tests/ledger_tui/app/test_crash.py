"""A crash report names the place in the code, and shows no data and no secret."""

import sys
from pathlib import Path

import pytest

from ledger_tui.app.application import crash_report
from tests.ledger_tui.contract_server import KEY, ContractServer
from tests.ledger_tui.test_cli import Terminal, terminal

__all__ = ["terminal"]

pytestmark = pytest.mark.process

# A fault on purpose, in a frame that holds the key, the server's text and the key again in its message.
FAULTY = """
import sys
from ledger_tui.app.dashboard import Dashboard
from ledger_tui.cli import main

def fail(self):
    held = self.app.connection.token_manager.key
    described = [record["name"] for record in self.view.model.window.rows_between(0, 5)]
    raise RuntimeError(f"no way with {held} and {described}")

Dashboard.action_help = fail
main()
"""


def test_a_crash_in_a_terminal_shows_no_local_and_no_secret(
    server: ContractServer, terminal: Terminal, tmp_path: Path
) -> None:
    server.add_account("Kuwait branch \x1b]52;c;aGk=\x07")
    (tmp_path / "faulty.py").write_text(FAULTY, encoding="utf-8")
    terminal.start(
        [sys.executable, str(tmp_path / "faulty.py"), "--url", server.url],
        LEDGER_API_KEY=KEY,
        LEDGER_TUI_CONFIG=str(tmp_path / "config.toml"),
    )
    terminal.sees("Kuwait branch")
    terminal.press("?")
    assert terminal.exit_code() == 1
    report = terminal.whole_text()
    assert "ledger-tui failed and ended." in report
    assert "RuntimeError: no way with" in report
    assert "in fail" in report
    for secret in (KEY, KEY.removeprefix("sk_test_"), "locals", "held =", "\x1b", "self = "):
        assert secret not in report


def test_a_report_is_literal_short_and_without_secrets() -> None:
    assert len(crash_report(ValueError("x" * 5000), [])) < 2000
    error = KeyError("hunter2 sk_live_0123456789abcdefghijklmnopqrstuv rt_abcdefgh \x1b]52;c;a\x07")
    report = crash_report(error, ["hunter2"])
    assert "KeyError" in report
    for secret in ("hunter2", "0123456789", "abcdefgh", "\x1b", "\x07"):
        assert secret not in report
