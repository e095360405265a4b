"""Which of the two programs `ledger.pyz` runs."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator

import pytest

import ledger_engine.cli
import ledger_tui.cli
from ledger_engine import __version__, archive


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Leave the handler of Ctrl-C as it was."""
    handler = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, handler)


@pytest.mark.parametrize(
    ("words", "program"),
    [
        ([], "dashboard"),
        (["--demo"], "dashboard"),
        (["profiles"], "dashboard"),
        (["serve"], "engine"),
        (["verify", "--database", "x"], "engine"),
    ],
)
def test_a_first_word_that_is_a_command_of_the_engine_runs_it_and_any_other_the_dashboard(
    monkeypatch: pytest.MonkeyPatch, words: list[str], program: str
) -> None:
    ran: list[str] = []

    class Engine:
        commands = ledger_engine.cli.main.commands

        def __call__(self) -> None:
            ran.append("engine")

    monkeypatch.setattr(ledger_engine.cli, "main", Engine())
    monkeypatch.setattr(ledger_tui.cli, "main", lambda: ran.append("dashboard"))
    monkeypatch.setattr(sys, "argv", ["ledger.pyz", *words])
    archive.main()
    assert ran == [program]


def test_its_help_is_the_dashboards_and_names_the_words_of_the_engine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["ledger.pyz", "--help"])
    archive.main()
    help, _, engine = capsys.readouterr().out.partition(
        "These words, as the first argument, run ledger-engine: "
    )
    assert "--demo" in help
    assert "\n  keys " not in help, "which is ledger-engine's"
    assert "keys" in engine
    assert "completion" not in engine


def test_its_version_is_that_of_both_programs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["ledger.pyz", "--version"])
    archive.main()
    assert capsys.readouterr().out == f"ledger {__version__}\n"
