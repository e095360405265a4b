"""Ways about the dashboard: history, ids, raw JSON, the palette, the middle of a list, themes, keys."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ledger_tui.app.application import LedgerApp
from ledger_tui.features.raw import JsonText, RawScreen
from ledger_tui.server.embedded import Address
from ledger_tui.settings.config import Config, Options, read_config
from ledger_tui.ui.styles import ABOUT, THEMES
from ledger_tui.ui.view import View
from tests.ledger_tui.conftest import Dashboards, dashboard_on
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver, until


@pytest.fixture(autouse=True)
def own_config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    file = tmp_path / "config.toml"
    monkeypatch.setenv("LEDGER_TUI_CONFIG", str(file))
    return file


def fill(server: ContractServer, transactions: int = 6) -> None:
    for name in ("Beans, Berlin", "Tokyo shop"):
        server.add_account(name)
    for number in range(transactions):
        server.post(server.accounts[number % 2], 100 + number, description=f"sale {number}")


@pytest.fixture
async def filled(server: ContractServer, dashboards: Dashboards) -> AsyncIterator[Driver]:
    fill(server)
    async with dashboards.open() as opened:
        yield opened


async def test_from_an_id_to_its_object_and_back_and_forward(filled: Driver) -> None:
    await filled.press("2", sees="sale 5")
    await filled.press("down", "i", sees=("Jump to", "account  acc_"))
    await filled.press("enter", sees=("→ Its transactions", "Beans, Berlin"))
    await filled.press("left_square_bracket", sees="sale 5")
    assert filled.view.place.kind == "transactions"
    await filled.press("right_square_bracket", sees=("→ Its transactions", "Beans, Berlin"))


async def test_a_message_about_a_key_ends_when_the_screen_changes_and_a_result_stays(filled: Driver) -> None:
    await filled.press("1", "F", sees="F works on another screen: finalize (3 Invoices).")
    await filled.press("3", sees="Invoices", gone="F works on another screen")
    await filled.press("c", sees="Copied as curl")
    await filled.press("1", sees="Accounts")
    assert "Copied as curl" in filled.text()


async def test_back_leads_through_filters_and_open_objects(filled: Driver) -> None:
    await filled.sees("Tokyo shop")
    await filled.press("enter", sees="→ Its transactions")
    await filled.press("enter", sees="sale 5", gone="sale 4")
    await filled.press("2", "4", "left_square_bracket", "left_square_bracket")
    await filled.sees("→ Its transactions", "Tokyo shop")


async def test_raw_json_is_literal_masked_scrolls_and_is_copied(
    server: ContractServer, dashboards: Dashboards
) -> None:
    account = server.add_account("\x1b]52;c;aGk=\x07 [bold]")
    account["metadata"] = {f"key {number}": "x" * 100 for number in range(60)}
    account["metadata"]["key 0"] = "sk_live_0123456789abcdefghijklmnopqrstuv"
    async with dashboards.open() as driver:
        await driver.press("J", sees=(f'"id": "{account["id"]}"', "sk_live_••••"))
        assert '"object"' not in driver.text()
        await driver.press("end", sees=('"name": "\\u001b]52;c;aGk=\\u0007 [bold]"', '"object": "account"'))
        await driver.press("y")
        copied = json.loads(driver.app.clipboard)
        assert copied["id"] == account["id"]
        assert "0123456789" not in driver.app.clipboard
        await driver.press("escape", gone='"object"')


async def test_of_a_record_of_a_million_characters_and_many_lines_what_is_seen_is_drawn(
    filled: Driver,
) -> None:
    filled.app.push_screen(RawScreen("JSON", {"a": "x" * 1_000_000, "b": [*range(20_000)]}))
    await filled.sees('"a": "xxx')
    await filled.press("end", sees="19999")
    text = filled.app.screen.query_one(JsonText)
    assert text.virtual_size.width > 1_000_000
    assert len(text._render_line_cache) < 200


async def test_the_palette_finds_what_was_looked_at_and_any_id(
    server: ContractServer, filled: Driver
) -> None:
    await filled.sees("Tokyo shop")
    await filled.press("enter", "escape", "2", "ctrl+p")
    await filled.type("tokyo", sees=("Account Tokyo shop", str(server.accounts[1]["id"])))
    await filled.rests()
    assert filled.text().count("Account Tokyo shop") == 1  # known by name and opened lately
    await filled.press("enter", sees=("→ Its transactions", "Tokyo shop"))
    await filled.press("ctrl+p")
    await filled.type(str(server.accounts[0]["id"]), sees="Open account")
    await filled.press("enter", sees=("→ Its transactions", "Beans, Berlin"))


async def test_an_object_is_shown_in_its_list_on_a_server_that_only_goes_down(
    server: ContractServer, dashboards: Dashboards
) -> None:
    fill(server, 500)
    middle = server.transactions[250]
    async with dashboards.open() as driver:
        await driver.press("2")
        view = driver.view
        view.show_record({**middle})
        await driver.sees("sale 250", "locate in the list")
        await driver.press("l", sees=("This server cannot load newer rows", "sale 249", "in the middle"))
        assert view.model.window.current == middle
        await driver.press("f", sees=("sale 499", "following"))


async def test_on_a_server_that_goes_up_the_list_grows_both_ways_around_the_object(
    own_project: Address,
) -> None:
    async with dashboard_on(own_project, (100, 24)) as driver:
        await driver.sees("● online")
        made = await driver.app.api.write("POST", "/v1/accounts", {"name": "Till", "currency": "EUR"}, "a")
        posts = [
            {
                "account": made.record["id"],
                "amount": number + 1,
                "type": "credit",
                "description": f"sale {number}",
            }
            for number in range(400)
        ]
        answer = await driver.app.api.write("POST", "/v1/transactions/batch", {"transactions": posts}, "b")
        middle = answer.record["data"][200]["id"]
        await driver.press("2", "slash")
        await driver.type(middle, "enter", sees="description   sale 200")
        await driver.press("l", sees=("sale 201", "sale 199", "in the middle"))
        assert (driver.view.selected or {})["id"] == middle
        await driver.press("home", "home", "home", "home")
        while driver.view.model.window.newer is not None:
            await driver.press("home")
        await driver.press("home", sees=("sale 399", "following"))


@pytest.mark.parametrize("theme", [theme.name for theme in THEMES])
async def test_every_theme_can_be_drawn_with(
    server: ContractServer, theme: str, dashboards: Dashboards
) -> None:
    fill(server)
    app = LedgerApp(Options(url=server.url, key=server.key, config=Config(theme=theme)))
    async with app.run_test() as pilot:
        driver = Driver(app, pilot)
        for keys in (
            ["1"],
            ["2"],
            ["enter"],
            ["escape", "n"],
            ["escape", "question_mark"],
            ["escape", "ctrl+p"],
        ):
            await driver.press(*keys)
        assert app.theme == theme
        assert theme in ABOUT


async def test_a_theme_is_previewed_put_back_by_esc_and_kept_by_enter(
    filled: Driver, own_config: Path
) -> None:
    before = filled.app.theme
    await filled.press("ctrl+t", "down")
    await until(lambda: filled.app.theme != before)
    await filled.press("escape")
    assert filled.app.theme == before
    assert not own_config.exists()
    await filled.press("ctrl+t", "down", "enter")
    await until(own_config.exists)
    assert read_config(own_config).theme == filled.app.theme != before


async def test_a_key_can_be_another_and_the_old_one_is_free(server: ContractServer) -> None:
    fill(server)
    config = Config(keys={"show.transactions": "f2", "help": "f1", "raw": "ctrl+j,W"})
    app = LedgerApp(Options(url=server.url, key=server.key, config=config))
    async with app.run_test(size=(80, 60)) as pilot:
        driver = Driver(app, pilot)
        await driver.sees("Tokyo shop")
        await driver.press("2", "J")
        assert app.dashboard.view.place.kind == "accounts"
        await driver.press("f2", sees="sale 5")
        await driver.press("f1")
        await driver.sees("f2  Transactions", "f1  keys", "W  raw JSON", "filter", "copy as curl")
        await driver.press("escape", "W")
        await driver.sees('"object"' if "object" in server.transactions[-1] else '"amount"')


async def test_a_small_terminal_and_a_large_one_show_every_dialog(
    server: ContractServer, dashboards: Dashboards
) -> None:
    fill(server)
    for size in ((80, 24), (250, 70)):
        async with dashboards.open(size) as driver:
            await driver.press("2", sees="sale 5")
            for key, text in (
                ("J", "esc close"),
                ("i", "↑↓ choose   ⏎ jump   esc close"),
                ("ctrl+e", "Export to CSV"),
                ("ctrl+t", "↑↓ choose   ⏎ use   esc close"),
                ("question_mark", "esc close"),
            ):
                await driver.press(key, sees=text)
                await driver.press("escape", gone=text)


async def test_a_new_view_is_hidden_until_it_takes_the_place_of_the_former_view(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    navigation = driver.app.dashboard.navigation
    mount, shown = navigation.mount, list[list[str | None]]()

    async def mount_and_look(view: View) -> None:
        await mount(view)
        shown.append([each.id for each in navigation.children if each.display])

    monkeypatch.setattr(navigation, "mount", mount_and_look)
    for key in ("3", "0", "7"):
        await driver.press(key)
    assert shown == [["accounts"], ["invoices"], ["overview"]]
    assert [each.id for each in navigation.children if each.display] == ["events"]
