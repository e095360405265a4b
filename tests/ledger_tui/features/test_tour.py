"""The tour plays itself in a small and a large terminal, and any key ends it (docs/dashboard.md)."""

import asyncio
import re
import sys
from pathlib import Path
from typing import ClassVar

import pytest
from textual import events
from textual.app import App
from textual.binding import BindingType

from bench.terminal import Terminal
from ledger_tui.app.application import LedgerApp
from ledger_tui.client.session import Session
from ledger_tui.features import tour
from ledger_tui.features.tour import STEPS, Tour, TourStep
from ledger_tui.settings.config import Config, Options
from ledger_tui.settings.own_commands import OwnCommand
from ledger_tui.ui.handlers import KeyOrder
from tests.ledger_tui.cheap_textual import strips_on_screen
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver, until

COMMAND = [sys.executable, "-m", "ledger_tui", "--tour", "--pace", "20"]
# The text on screen after the keys of each step.
RESULTS = ("type:debit", "POST", "/bookkeeping", "Trace", "Flows", "PAST 20")
REPAIRED = re.compile(r"Repaired http\S+/bookkeeping")  # a message, which passes; this receiver always fails


@pytest.mark.process
@pytest.mark.slow
def test_in_a_real_terminal_it_plays_to_its_end_and_leaves_one_in_the_demo(tmp_path: Path) -> None:
    environment = {"LEDGER_TUI_CONFIG": str(tmp_path / "config.toml"), "TMPDIR": str(tmp_path)}
    with Terminal(COMMAND, 80, 24, environment) as terminal:
        for step in STEPS:
            terminal.until(step.caption)
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
@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
async def test_its_steps_lead_to_the_same_on_a_small_and_on_a_large_screen(
    size: tuple[int, int], forked_servers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = LedgerApp(Options(demo=True, tour_pace=20))
    shown: list[str] = []
    messages: list[str] = []
    settle = Tour._settle

    async def settle_and_look(playing: Tour) -> None:
        await settle(playing)
        drawn = asyncio.Event()
        app.screen.call_after_refresh(drawn.set)  # another screen or view is laid out first
        await drawn.wait()
        shown.append("\n".join(strip.text for strip in strips_on_screen(app)))

    async def longer_than(number: int) -> None:
        await until(lambda: len(shown) > number)

    monkeypatch.setattr(Tour, "_settle", settle_and_look)
    monkeypatch.setattr(app, "notify", lambda message, **_named: messages.append(message))
    async with app.run_test(size=size, notifications=True) as pilot:
        driver = Driver(app, pilot)
        for number in range(1 + sum(len(step.keys) for step in STEPS)):
            await longer_than(number)
        at = [next(n for n, text in enumerate(shown) if step.caption in text) for step in STEPS]
        assert at == sorted(at)
        for text in RESULTS:
            assert any(text in each for each in shown), text
        await until(lambda: any(REPAIRED.search(each) for each in messages), "the message about the repair")
        await driver.press("q", "9")  # the first ends the tour, and does nothing else
        await driver.sees("old import")


@pytest.mark.dashboard
async def test_any_key_ends_it_and_does_nothing_else(server: ContractServer) -> None:
    app = LedgerApp(Options(url=server.url, key=server.key, of_demo=True, tour_pace=1.0))
    async with app.run_test(size=(80, 24)) as pilot:
        driver = Driver(app, pilot)
        await driver.sees(STEPS[0].caption, "any key ends the tour")
        await driver.press("q", gone="any key ends the tour")
        assert app.is_running
        await driver.press("2", sees="No transactions here.")


@pytest.mark.dashboard
async def test_it_presses_the_default_keys_whatever_the_config_file_makes_of_them(
    server: ContractServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {"show.transactions": "ctrl+y", "show.invoices": "4", "show.users": "3"}
    config = Config(keys=keys, commands={"end": OwnCommand("end", "2", "false")})
    for key, shown in (("2", "No transactions here."), ("3", "This server has no list of invoices")):
        monkeypatch.setattr(tour, "STEPS", (TourStep(f"it presses {key}", (key,), 60),))
        app = LedgerApp(Options(url=server.url, key=server.key, of_demo=True, tour_pace=100.0, config=config))
        async with app.run_test(size=(80, 24)) as pilot:
            await Driver(app, pilot).sees(f"it presses {key}", shown)


class OneKey(App[None]):
    """An app whose key R is possible once `has_failed` is true."""

    BINDINGS: ClassVar[list[BindingType]] = [("R", "repair", "repair")]
    has_failed = False

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return True if action != "repair" or self.has_failed else None


async def test_it_waits_until_its_next_key_is_possible() -> None:
    app = OneKey()
    dispatched: list[events.Event] = []

    async def dispatch(event: events.Event) -> None:
        dispatched.append(event)

    async with app.run_test() as pilot:
        playing = Tour(app, KeyOrder(app, dispatch), Session(), is_reading=lambda: False, pace=1)
        pressing = asyncio.create_task(playing._press("R"))
        await pilot.pause()
        assert not dispatched
        app.has_failed = True
        await pressing
        assert len(dispatched) == 1


def test_each_caption_fits_the_smallest_screen() -> None:
    assert max(len(step.caption) for step in STEPS) <= 78


def test_it_takes_about_a_minute() -> None:
    assert 50 <= sum(step.seconds + 0.3 * min(len(step.keys), 6) for step in STEPS) <= 70
