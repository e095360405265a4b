"""The key bar and the headings react to the mouse; own themes can be chosen, and choices are readable."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.geometry import Offset

from ledger_tui.app.application import LedgerApp
from ledger_tui.forms.form_screen import FormScreen
from ledger_tui.lists.paged_table import TableHeader
from ledger_tui.settings.config import Config, Options, read_config
from ledger_tui.ui.key_bar import KeyBar
from tests.ledger_tui.conftest import Dashboards
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver, until


async def click(driver: Driver, widget: KeyBar | TableHeader, text: str) -> None:
    """Click on a text in a widget of one line."""
    line = driver.text().split("\n")[widget.region.y]
    at = line.index(text) - widget.region.x
    await driver.pilot.click(widget, offset=Offset(at, 0))


async def test_a_click_on_a_key_of_the_bar_presses_it(server: ContractServer, dashboards: Dashboards) -> None:
    server.add_account("Beans")
    async with dashboards.open() as driver:
        await driver.sees("n new")
        await click(driver, driver.app.screen.query_one(KeyBar), "new")
        await until(lambda: isinstance(driver.app.screen, FormScreen), "the form")
        await click(driver, driver.app.screen.query_one(KeyBar), "esc")
        await until(lambda: len(driver.app.screen_stack) == 1, "the end of the form")


async def test_clicks_on_a_heading_sort_by_it_and_back_and_not_at_all(
    server: ContractServer, dashboards: Dashboards, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "config.toml"
    monkeypatch.setenv("LEDGER_TUI_CONFIG", str(file))
    for name in ("Beans", "Apples", "Cups"):
        server.add_account(name)
    async with dashboards.open() as driver:
        window, header = driver.view.model.window, driver.view.query_one(TableHeader)
        await driver.sees("Cups")

        def names() -> list[object]:
            return [record["name"] for _n, record in window.at_hand()]

        await click(driver, header, "name")
        await until(lambda: names() == ["Apples", "Beans", "Cups"], "ascending")
        await driver.sees("name ▲")
        await click(driver, header, "name")
        await until(lambda: names() == ["Cups", "Beans", "Apples"], "descending")
        assert read_config(file).lists["accounts"].sort == "-name"
        await click(driver, header, "name")
        await until(lambda: names() == ["Cups", "Apples", "Beans"], "as the server lists them")


async def test_a_theme_of_the_config_file_is_used_and_offered(server: ContractServer) -> None:
    config = Config(theme="mine", themes={"mine": {"base": "ledger-light", "accent": "#123456"}})
    app = LedgerApp(Options(url=server.url, key=server.key, config=config))
    async with app.run_test() as pilot:
        driver = Driver(app, pilot)
        assert app.theme == "mine"
        assert app.get_css_variables()["accent"].lower() == "#123456"
        assert not app.current_theme.dark
        await driver.press("ctrl+t", sees=("mine ", "your own, from the config file", "ledger-contrast"))
