"""In a detail longer than the screen every scroll key works, and a followed link is visible."""

import pytest
from textual.widgets import OptionList

from ledger_tui.lists.detail_pane import DetailPane
from ledger_tui.server.embedded import Address
from tests.ledger_tui.conftest import Dashboards, dashboard_on
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver, until


async def open_long_account(driver: Driver) -> DetailPane:
    await driver.press("enter", sees=("none yet", "key 0 "))
    pane = driver.view.query_one(DetailPane)
    await driver.rests()
    assert pane.max_scroll_y > 20
    return pane


def add_long_account(server: ContractServer) -> None:
    account = server.add_account("Till")
    account["metadata"] = {f"key {number}": f"value {number}" for number in range(60)}


async def test_g_sums_the_list_also_while_a_row_is_open(driver: Driver) -> None:
    account = driver.view.selected or {}
    body = {"account": account["id"], "amount": 700, "type": "credit"}
    await driver.app.api.write("POST", "/v1/transactions", body, "t")
    await driver.press("2", sees="+7.00")
    await driver.press("enter", "g", sees="Sums")


async def test_a_line_of_the_sums_is_one_line_on_80_columns(own_project: Address) -> None:
    async with dashboard_on(own_project, (80, 24)) as driver:
        await driver.sees("● online")
        account = await driver.app.api.write("POST", "/v1/accounts", {"name": "Till", "currency": "EUR"}, "a")
        body = {"account": account.record["id"], "amount": 700, "type": "credit"}
        await driver.app.api.write("POST", "/v1/transactions", body, "t")
        await driver.press("2", sees="+7.00")
        await driver.press("g", sees="Sums")
        line = next(line for line in driver.text().splitlines() if "│  credit" in line)
        assert "+7.00 EUR" in line


async def test_pages_ends_and_lines_of_a_detail_are_scrolled_to(
    server: ContractServer, dashboards: Dashboards
) -> None:
    add_long_account(server)
    async with dashboards.open() as driver:
        pane = await open_long_account(driver)
        assert pane.scroll_y == 0
        links = pane.query_one("#links", OptionList)
        up, down = ("pageup", "up", "k", "home"), ("pagedown", "space", "down", "j", "end")
        # Lines are scrolled by where no other link is in the direction: above the first, below the last.
        for at, keys in ((links.option_count - 1, down), (0, up)):
            links.highlighted = at
            for key in keys:
                before = pane.scroll_y
                await driver.press(key)
                assert (pane.scroll_y > before) if key in down else (pane.scroll_y < before), key
        assert pane.scroll_y == 0
        await driver.press("end", sees=("value 59", "→ Its transactions"))


async def test_a_link_out_of_sight_is_shown_before_it_is_followed(
    server: ContractServer, dashboards: Dashboards
) -> None:
    add_long_account(server)
    async with dashboards.open() as driver:
        await open_long_account(driver)
        assert "→ Its transactions" not in driver.text()
        await driver.press("enter", sees="→ Its transactions")
        assert driver.view.place.kind == "accounts"
        await driver.press("enter", sees=("Transactions", "Nothing matches this filter."))


@pytest.mark.parametrize("key", ["down", "j"])
async def test_the_link_that_is_walked_to_comes_into_view_and_stays_when_more_comes_above_it(
    server: ContractServer, dashboards: Dashboards, key: str
) -> None:
    words = " ".join(f"word{n}" for n in range(400))
    posted = server.post(server.add_account("Till"), 100, description=words)
    async with dashboards.open() as driver:
        await driver.press("2", sees="word0")
        await driver.press("enter")
        pane = driver.view.query_one(DetailPane)
        await until(lambda: pane.max_scroll_y > 5)
        assert "→ All of this account" not in driver.text()
        await driver.press(key, sees="→ All of this account")
        below = pane.max_scroll_y
        posted["description"] = words + words
        driver.view.poll_soon()
        await until(lambda: pane.max_scroll_y > below + 5)
        await driver.sees("→ All of this account")
        await driver.press("home")
        posted["description"] = words
        driver.view.poll_soon()
        await until(lambda: pane.max_scroll_y < below + 5)
        assert pane.scroll_y == 0


async def test_another_object_is_shown_from_its_beginning(
    server: ContractServer, dashboards: Dashboards
) -> None:
    add_long_account(server)
    add_long_account(server)
    async with dashboards.open() as driver:
        pane = await open_long_account(driver)
        await driver.press("end")
        assert pane.scroll_y > 0
        await driver.press("escape", "down", "enter")
        await until(lambda: pane.scroll_y == 0)


async def test_the_body_of_an_event_is_scrolled(driver: Driver) -> None:
    metadata = {f"key {number}": f"value {number}" for number in range(20)}
    body = {"name": "Safe", "currency": "EUR", "metadata": metadata}
    await driver.app.api.write("POST", "/v1/accounts", body, "safe")
    await driver.press("7", sees="Safe")
    await driver.press("enter", sees=("account.created", "signature"))
    assert "→ The account" not in driver.text()
    await driver.press("space", gone="signature")
    await driver.press("end", sees="→ The account")
    await driver.press("home", sees="signature")


async def test_beside_a_list_that_a_filter_empties_the_reason_is_the_filter(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.post(server.add_account("Till"), 100)
    async with dashboards.open((120, 30)) as driver:
        await driver.press("2", "slash")
        await driver.type("type:debit", "enter")
        await until(lambda: "Nothing matches this filter." in driver.text(driver.view.detail))
