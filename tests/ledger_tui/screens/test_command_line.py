"""The command line goes to screens, objects, servers and themes; the help is searched."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Input

from ledger_tui.app.application import LedgerApp
from ledger_tui.app.command_line import CommandScreen
from ledger_tui.settings.config import Config, LastPlace, Options, Profile, read_config
from ledger_tui.settings.own_commands import OwnCommand
from ledger_tui.ui.dialogs import KeyScreen
from tests.ledger_tui.conftest import Dashboards
from tests.ledger_tui.contract_server import KEY, ContractServer
from tests.ledger_tui.driving import Driver, key_event, until


@pytest.fixture
def own_config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    file = tmp_path / "config.toml"
    monkeypatch.setenv("LEDGER_TUI_CONFIG", str(file))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    return file


async def command(driver: Driver, line: str) -> None:
    await driver.press("colon")
    await until(lambda: isinstance(driver.app.screen, CommandScreen), "the command line")
    await driver.type(line, "enter")


async def test_a_command_goes_to_a_filtered_list_and_to_an_object(
    server: ContractServer, dashboards: Dashboards
) -> None:
    account = server.add_account("Till")
    server.post(account, 5, description="in")
    server.post(account, 5, "debit", description="out")
    async with dashboards.open() as driver:
        await command(driver, "txn debit")
        await driver.sees("type:debit", "▼ debit")
        await driver.sees_no_more("▲ credit")
        await command(driver, account["id"])
        await driver.sees("→ Its transactions")
        await command(driver, "nothing")
        await driver.sees("There is no command “nothing”")
        await driver.press("tab", "down")  # nothing completes it
        assert driver.app.screen.query_one(Input).value == "nothing"
        await driver.press("escape")
        await command(driver, "key")
        await until(lambda: isinstance(driver.app.screen, KeyScreen), "the question for the key")
        await driver.press("enter", sees="✕ The key is empty or contains an invalid character.")
        await driver.press("escape")
        assert driver.app.screen is driver.app.dashboard
        assert driver.app.next_options is None
        await driver.press("colon")
        await driver.type("order", sees="orders")
        await driver.press("tab")
        await driver.type("op", "down", "enter", sees="status:open")
        await command(driver, "theme ledger-light")
        assert driver.app.theme == "ledger-light"
        await command(driver, "help")
        await driver.sees("Keys")


async def test_another_profile_and_another_key_are_connected_to_next(server: ContractServer) -> None:
    shop = Profile("shop", "https://shop.example", read_only=True)
    config = Config(profiles={"shop": shop})
    for line, key in (("profile shop", None), ("key", "sk_test_another")):
        app = LedgerApp(Options(url=server.url, key=KEY, config=config))
        async with app.run_test() as pilot:
            driver = Driver(app, pilot)
            await driver.sees("● online")
            await driver.press("colon")
            await driver.type(line)
            app.post_message(key_event("enter"))  # it may end the application, which answers no more keys
            if key is not None:
                await until(lambda: isinstance(app.screen, KeyScreen), "the question for the key")  # noqa: B023
                await driver.type(key)
                assert key not in driver.text()
                app.post_message(key_event("enter"))
            await until(lambda: app.next_options is not None)  # noqa: B023
        following = app.next_options
        assert following is not None
        if key is None:
            assert (following.url, following.key, following.profile) == (None, None, shop)
        else:
            assert (following.url, following.key, following.profile) == (server.url, key, None)


async def test_nothing_of_a_demo_its_tour_or_its_place_goes_on_with_another_profile(
    server: ContractServer,
) -> None:
    shop = Profile("shop", "https://shop.example")
    config = Config(profiles={"shop": shop})
    begun = Options(
        url=server.url, key=KEY, config=config, of_demo=True, tour_pace=1.0, resume=LastPlace("accounts")
    )
    app = LedgerApp(begun)
    async with app.run_test() as pilot:
        driver = Driver(app, pilot)
        await driver.sees("any key ends the tour")
        await driver.press("x", "colon")
        await driver.type("profile shop")
        app.post_message(key_event("enter"))  # it ends the application, which answers no more keys
        await until(lambda: app.next_options is not None)
    following = app.next_options
    assert following is not None
    assert following == Options(profile=shop, config=following.config)


async def test_a_tour_presses_no_key_on_a_server_that_is_no_demo(server: ContractServer) -> None:
    app = LedgerApp(Options(url=server.url, key=KEY, tour_pace=100.0))
    async with app.run_test() as pilot:
        driver = Driver(app, pilot)
        await driver.sees("● online")
        assert not [worker for worker in app.workers if worker.group == "tour"]


async def test_the_dashboard_is_left_by_a_command(server: ContractServer) -> None:
    app = LedgerApp(Options(url=server.url, key=KEY))
    async with app.run_test() as pilot:
        driver = Driver(app, pilot)
        await driver.sees("● online")
        await driver.press("colon")
        await driver.type("quit")
        app.post_message(key_event("enter"))  # it ends the application, which answers no more keys
        await until(lambda: not app.is_running, "the end")
    assert (app.return_code, app.next_options) == (0, None)


async def test_the_connection_is_saved_as_a_profile(
    server: ContractServer, bare: Driver, own_config: Path
) -> None:
    await command(bare, "profile shop")
    await bare.sees("✕ No profile is named “shop”. Save this connection with :save shop.")
    assert isinstance(bare.app.screen, CommandScreen)
    bare.app.screen._names_read("profile shop")  # no name was found, so the sentence stays
    await bare.rests()
    await bare.sees("✕ No profile is named “shop”.")
    await bare.press("escape")
    await command(bare, "save shop")
    await bare.sees("Saved as shop")
    assert read_config(own_config).profiles == {"shop": Profile("shop", server.url)}
    secrets = own_config.with_name("secrets.json")
    assert KEY in secrets.read_text(encoding="utf-8")
    assert secrets.stat().st_mode & 0o777 == 0o600
    await command(bare, "save shop")
    await bare.sees("Not saved: ", "already exists")


async def test_a_profile_that_was_just_saved_is_connected_to(
    server: ContractServer, bare: Driver, own_config: Path
) -> None:
    await command(bare, "save shop")
    await bare.sees("Saved as shop")
    await bare.press("colon")
    await bare.type("profile shop")
    bare.app.post_message(key_event("enter"))  # it ends the application, which answers no more keys
    await until(lambda: bare.app.next_options is not None)
    assert bare.app.next_options is not None
    assert bare.app.next_options.profile == read_config(own_config).profiles["shop"]


async def test_the_whole_name_of_an_action_wins_over_another_word_for_a_different_one(
    with_till: Driver,
) -> None:
    await command(with_till, "transfer")
    await with_till.sees("is the only account in EUR, and a transfer needs two")


async def test_a_transfer_begins_on_every_screen(server: ContractServer, dashboards: Dashboards) -> None:
    server.add_account("Till")
    async with dashboards.open() as driver:
        for screen in "03":
            await driver.press(screen, "colon")
            await driver.type("transfer", sees="between two accounts", gone="New account")
            await driver.press("enter", sees="an account of the same currency")
            await driver.press("escape")


async def test_the_help_is_searched(with_till: Driver) -> None:
    await with_till.press("question_mark", "slash")
    await with_till.type("curl", sees="copy as curl", gone="jump to an id")
    await with_till.press("escape")
    assert len(with_till.app.screen_stack) == 1


async def test_an_own_command_gets_the_selected_record_and_asks_where_money_is_live(
    server: ContractServer, tmp_path: Path
) -> None:
    server.add_account("Till")
    out = tmp_path / "out"
    command = OwnCommand("mail", "f6", f"echo $LEDGER_ROW_NAME >> {out}; echo sent", ("accounts",))
    app = LedgerApp(Options(url=server.url, key=KEY, config=Config(commands={"mail": command})))
    async with app.run_test(notifications=True) as pilot:
        driver = Driver(app, pilot)
        await driver.sees("Till")
        await driver.press("f6", sees="mail: done  sent")
        assert out.read_text(encoding="utf-8") == "Till\n"
        driver.turn_live()
        await driver.press("f6", sees="Run mail with account Till?")
        await driver.press("escape", "f6", sees="Run mail with account Till?")
        await driver.press("y")
        await until(lambda: out.read_text(encoding="utf-8") == "Till\nTill\n", "the second")
        await driver.press("2", "f6", sees="mail works on accounts: select one first.")
        assert out.read_text(encoding="utf-8") == "Till\nTill\n"
        await driver.press("question_mark", "slash")
        await driver.type("mail", sees="f6  mail")


async def test_the_empty_line_says_that_enter_opens_the_flows_as_long_as_it_does(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.add_account("Till")
    hint = "⏎ flows, or type: inv paid"
    async with dashboards.open((80, 24)) as driver:
        await driver.sees("Till", ": flows")
        await driver.press("colon", sees=hint)
        await driver.press("down", gone=hint)
        await driver.press("escape", "colon", sees=hint)
        await driver.press("enter", sees="⏎ open   esc back")


async def test_the_flows_open_too_when_the_words_of_the_bottom_line_are_typed(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.add_account("Till")
    async with dashboards.open() as driver:
        await driver.sees("Till", ": flows")
        await driver.burst(*": flows", "enter")
        await driver.sees("Flows", "⏎ open   esc back")
