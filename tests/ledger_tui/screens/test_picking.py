"""Accounts and users are chosen by part of their name, also those that were not read yet."""

from ledger_tui.forms.fields import PickerField
from tests.ledger_tui.conftest import Dashboards
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import until


async def test_the_only_account_of_a_name_is_taken_by_sending(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.add_account("Dollars, New York", "USD")
    server.add_account("Till", "EUR")
    async with dashboards.open() as driver:
        await until(lambda: driver.app.names.search("dollar"))
        await driver.press("2", "n")
        await driver.type("dollar", sees="Dollars, New York")
        await driver.press("tab", "tab")
        await driver.type("5", "ctrl+s", sees=("Check the name", "Dollars, New York · USD"))
        assert not server.transactions
        await driver.press("ctrl+s", sees="Credits Dollars, New York 5.00 USD")
        await driver.press("y", sees=("Credited Dollars, New York 5.00 USD", "+5.00  USD"))
    assert [t["account"] for t in server.transactions] == [server.accounts[0]["id"]]


async def test_of_several_accounts_none_is_guessed(server: ContractServer, dashboards: Dashboards) -> None:
    for name in ("Dollars, New York", "Dollars, Boston"):
        server.add_account(name, "USD")
    async with dashboards.open() as driver:
        await until(lambda: len(driver.app.names.search("dollar")) == 2)
        await driver.press("2", "n")
        await driver.type("dollar", "tab", "tab")
        await driver.type("5", "ctrl+s", sees="✕ Several accounts match: choose one.")
    assert not server.transactions


async def test_a_choice_in_a_refused_form_moves_on_to_the_next_field(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.add_account("Till", "EUR")
    async with dashboards.open() as driver:
        await until(lambda: driver.app.names.search("till"))
        await driver.press("3", "n", sees="↓ or part of a name; credited when it is paid")
        await driver.press("ctrl+s", sees="✕ Account is required")
        await driver.press("down", "enter", gone="✕ Account is required")
        assert driver.app.focused is driver.app.screen.query_one("#field-customer")


async def test_an_account_that_was_not_read_yet_is_found_by_typing_its_name(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.add_account("Operating, Kuwait", "KWD")
    for number in range(120):  # more than the page that is read at the start
        server.add_account(f"Shop {number}")
    async with dashboards.open() as driver:
        await until(lambda: driver.app.names.search("shop"))
        await driver.press("2", "n")
        await driver.type("kuwait", sees="Operating, Kuwait        KWD")
        await driver.press("down", "enter", sees="Operating, Kuwait · KWD · acc_")
        picker = driver.app.screen.query_one("#field-account", PickerField)
        assert picker.value == server.accounts[0]["id"]
        await driver.press("shift+tab", "end", "x")  # another text is no longer that account
        assert picker.value == "Operating, Kuwaitx"
        await driver.press("escape", "y", "ctrl+p")
        await driver.type("shop 7", sees="Account Shop 7")


async def test_the_palette_finds_accounts_that_were_not_read_yet(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.add_account("Operating, Kuwait", "KWD")
    for number in range(120):
        server.add_account(f"Shop {number}")
    async with dashboards.open() as driver:
        await until(lambda: driver.app.names.search("shop"))
        await driver.press("ctrl+p")
        await driver.type("kuwait", sees="Account Operating, Kuwait")


async def test_on_a_small_screen_the_focused_field_stays_in_view(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.post(server.add_account("Till at the harbour"), 1000)
    server.add_account("Safe in the office")

    def is_in_view() -> bool:
        focused, fields = driver.app.focused, driver.app.screen.query_one("#fields")
        return focused is not None and fields.region.contains_region(focused.region)

    async with dashboards.open((40, 10)) as driver:
        await driver.press("down", "x")
        for key in (*["tab"] * 4, *["shift+tab"] * 4):
            await driver.press(key)
            await until(is_in_view)
        for width, height in ((40, 8), (80, 24), (32, 9), (40, 10)):
            await driver.pilot.resize_terminal(width, height)
            await until(is_in_view, f"at {width} × {height}")
        await driver.press("ctrl+s")  # with errors below several fields
        await until(is_in_view)
        await driver.type("safe", "enter")
        await driver.type("5", sees=("Moves 5.00 EUR from Till", "Till at the"))  # a note below the fields
        await until(is_in_view)
