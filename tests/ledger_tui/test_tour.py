"""The tour plays itself in a real terminal, a small and a large one, and any key ends it."""

import sys
from pathlib import Path

import pytest

from bench.terminal import Terminal
from ledger_tui.app import LedgerApp
from ledger_tui.options import Options
from ledger_tui.tour import STEPS
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver

COMMAND = [sys.executable, "-m", "ledger_tui", "--tour", "--pace", "20"]


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (160, 45)])  # the overview's tiles differ
def test_in_a_real_terminal_it_plays_to_its_end_and_leaves_one_in_the_demo(
    tmp_path: Path, columns: int, rows: int
) -> None:
    environment = {"LEDGER_TUI_CONFIG": str(tmp_path / "config.toml"), "TMPDIR": str(tmp_path)}
    with Terminal(COMMAND, columns, rows, environment) as terminal:
        for step in STEPS:
            terminal.until(step.caption)
        shown = terminal.seen.decode(errors="replace")
        at = [shown.index(step.caption) for step in STEPS]
        assert at == sorted(at)
        # What the keys of the steps lead to was on the screen.
        for text in (
            "status:open",
            "type:debit",
            "Opening balance",
            "POST",
            "/bookkeeping",
            "Trace",
            "Repaired http",
        ):
            assert text in shown
        terminal.press("q")  # ends the tour, and does nothing else
        terminal.settle()
        terminal.forget()
        terminal.press("9")
        terminal.until("old import")
        terminal.press("q")
        while terminal.process.poll() is None:
            terminal.read(0.1)
        assert terminal.process.returncode == 0
        assert b"Traceback" not in terminal.seen


@pytest.mark.dashboard
async def test_any_key_ends_it_and_does_nothing_else(server: ContractServer) -> None:
    app = LedgerApp(Options(url=server.url, key=server.key, of_demo=True, tour_pace=1.0))
    async with app.run_test(size=(80, 24)) as pilot:
        driver = Driver(app, pilot)
        await driver.sees(STEPS[0].caption, "any key ends the tour")
        await driver.press("q")
        await driver.sees_no_more("any key ends the tour")
        assert app.is_running
        await driver.press("2")
        await driver.sees("No transactions here.")


def test_each_caption_fits_the_smallest_screen() -> None:
    assert max(len(step.caption) for step in STEPS) <= 78


def test_it_takes_about_a_minute() -> None:
    assert 50 <= sum(step.seconds + 0.3 * min(len(step.keys), 6) for step in STEPS) <= 70
