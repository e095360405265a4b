"""The application handles the palette, a fault in a worker, and keys without an effect."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.dom import DOMNode
from textual.drivers.headless_driver import HeadlessDriver

from ledger_tui.app.actions import ReconnectRequested
from ledger_tui.app.application import LedgerApp
from ledger_tui.formats.times import TimeStyle
from ledger_tui.settings.config import Config, ListSettings, Options, PaneChoice, config_file
from ledger_tui.ui.dialogs import ShownOnceScreen
from ledger_tui.ui.handlers import asks
from tests.ledger_tui.conftest import Dashboards
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver, key_event, until

pytestmark = pytest.mark.dashboard


@pytest.mark.parametrize("of", ["application", "main screen", "dialog"])
async def test_a_fault_in_a_worker_is_shown_and_the_dashboard_goes_on(
    server: ContractServer, dashboards: Dashboards, of: str
) -> None:
    async def fail(_node: DOMNode) -> None:
        raise RuntimeError("a fault with the key sk_live_0123456789abcdefghijklmnopqrstuv")

    async with dashboards.open() as driver:
        if of == "dialog":
            await driver.press("n")
        owner = driver.app if of == "application" else driver.app.screen
        asks("fault")(fail)(owner)
        await driver.sees("unexpected RuntimeError('a fault with the key sk_live_••••")
        assert "0123456789" not in driver.text()
        if of == "dialog":
            await driver.press("escape")
        await driver.press("2")
        assert driver.view.place.kind == "transactions"


async def test_a_key_that_has_nothing_to_repair_or_to_sign_in_to_does_nothing_and_one_palette_is_enough(
    bare: Driver,
) -> None:
    app = bare.app
    app.action_repair()
    app.action_sign_in()
    assert not [each for each in app.workers if each.group in ("repair", "sign_in") and each.is_running]
    assert len(app.screen_stack) == 1
    app.action_command_palette()
    await bare.sees("tab complete")
    app.action_command_palette()
    assert len(app.screen_stack) == 2


async def test_in_a_browser_another_profile_is_not_connected_to(
    server: ContractServer, dashboards: Dashboards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HeadlessDriver, "is_web", property(lambda _driver: True))
    async with dashboards.open() as driver:
        driver.app.post_message(ReconnectRequested(profile="shop"))
        await driver.sees("This page shows one server: start another --web with that profile.")
        assert driver.app.next_options is None
        assert driver.app.is_running


async def test_a_demo_shows_its_lists_as_they_are_by_default_and_saves_none(server: ContractServer) -> None:
    lists = {"accounts": ListSettings(sort="name")}
    config = Config(lists=lists, panes=PaneChoice(split=False))
    app = LedgerApp(Options(url=server.url, key=server.key, of_demo=True, config=config))
    assert (app.saved.of("accounts"), app.saved.panes) == (ListSettings(), PaneChoice())
    app.saved.use("accounts", ListSettings(sort="-balance"))
    app.saved.panes.split = True
    app.saved.save_panes()
    assert app.saved.save("accounts") == ""
    assert not config_file().exists() or "balance" not in config_file().read_text(encoding="utf-8")
    assert app.saved.in_config(config) == replace(config, times=TimeStyle.UTC)


async def test_ctrl_c_twice_on_a_screen_quits(with_till: Driver) -> None:
    await with_till.press("ctrl+c", sees="Press ctrl+c again to quit; q and ctrl+q quit too.")
    await with_till.press("down", "ctrl+c", sees="Press ctrl+c again to quit")  # another key came between
    assert with_till.app.is_running
    with_till.app.post_message(key_event("ctrl+c"))
    await until(lambda: not with_till.app.is_running)


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        (["slash"], "esc close"),
        (["colon"], "esc close"),
        (["question_mark"], "esc"),
        (["J"], '"name"'),
        (["o"], "esc done"),
        (["ctrl+t"], "Themes"),
        (["ctrl+e", "end"], "Export to CSV or JSONL"),
    ],
)
async def test_ctrl_c_closes_the_filter_and_each_dialog_like_esc(
    with_till: Driver, keys: list[str], shown: str
) -> None:
    app = with_till.app
    await with_till.press(*keys, sees=shown)
    await with_till.press("ctrl+c", gone=shown)
    assert app.screen is app.dashboard
    assert not with_till.view.filter_bar.display
    assert "again to quit" not in with_till.text()
    await with_till.press("ctrl+c", sees="Press ctrl+c again to quit")
    assert app.is_running


async def test_ctrl_c_twice_at_a_question_changes_nothing_and_does_not_quit(
    server: ContractServer, dashboards: Dashboards
) -> None:
    ada = {"name": "Ada", "email": "ada@example.com", "role": "member", "status": "active"}
    server.users.append({"id": server.new_id("usr"), **ada})
    async with dashboards.open() as driver:
        await driver.press("4", sees="ada@example.com")
        await driver.press("X", sees="Deactivate user ")
        await driver.press("ctrl+c", gone="Deactivate user ")
        await driver.press("ctrl+c", sees="Press ctrl+c again to quit")
        assert driver.app.is_running
    assert "DELETE" not in [method for method, *_ in server.requests]


async def test_ctrl_c_copies_the_selected_text_of_a_field_once_and_then_leaves(with_till: Driver) -> None:
    await with_till.press("ctrl+e", sees="Export to CSV or JSONL")
    await with_till.press("ctrl+c", sees="Copied the selected text. Press ctrl+c again to leave.")
    assert with_till.app.clipboard.endswith(".csv")
    await with_till.press("ctrl+c", gone="Export to CSV or JSONL")


async def test_ctrl_c_copies_a_secret_that_is_shown_once(with_till: Driver) -> None:
    with_till.app.push_screen(ShownOnceScreen("The key", "sk_test_1"))
    await with_till.sees("sk_test_1")
    await with_till.press("ctrl+c", "ctrl+c", sees="Copied; it is on your clipboard")
    assert with_till.app.clipboard == "sk_test_1"
    await with_till.press("ctrl+q", sees="Quit the dashboard?")
    await with_till.press("n", sees="sk_test_1")
