"""List and detail side by side: one pane has the focus, it looks so, and the key bar names its keys."""

import pytest
from textual.widgets import OptionList

from ledger_tui.lists.detail_pane import DetailPane
from ledger_tui.server.embedded import Address
from ledger_tui.ui.key_bar import KeyBar
from tests.ledger_tui.conftest import Dashboards, dashboard_on
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver, until

IN_LIST, IN_DETAIL = "⏎ open", "esc list   ↑↓ link   ⏎ follow"


def bar(driver: Driver) -> str:
    return driver.text(driver.app.screen.query_one(KeyBar)).strip()


def add_two_accounts(server: ContractServer) -> None:
    server.add_account("Beans")
    server.add_account("Cups")


@pytest.mark.parametrize("size", [(80, 24), (120, 30)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_tab_goes_to_the_detail_and_back_and_the_key_bar_follows_at_once(
    server: ContractServer, dashboards: Dashboards, size: tuple[int, int]
) -> None:
    add_two_accounts(server)
    async with dashboards.open(size) as driver:
        await driver.sees("Cups", IN_LIST)
        for there, back in (("tab", "tab"), ("tab", "escape"), ("enter", "tab")):
            await driver.press(there)
            assert bar(driver).startswith(IN_DETAIL), there
            await driver.press(back)
            assert bar(driver).startswith(IN_LIST), back
        await driver.press("tab", "enter", sees=("Transactions", "Nothing matches this filter."))


async def test_a_click_on_a_pane_gives_it_the_keys(server: ContractServer, dashboards: Dashboards) -> None:
    add_two_accounts(server)
    async with dashboards.open((120, 30)) as driver:
        await driver.sees("Cups", IN_LIST)
        await driver.pilot.click(DetailPane, offset=(5, 2))
        await until(lambda: bar(driver).startswith(IN_DETAIL), "the keys of the detail")
        assert driver.app.focused is driver.view.query_one("#links", OptionList)
        await driver.pilot.click(driver.view.table, offset=(5, 1))
        await until(lambda: bar(driver).startswith(IN_LIST), "the keys of the list")
        assert (driver.view.selected or {})["name"] == "Beans"


async def test_tab_and_a_click_leave_the_keys_with_an_empty_list(
    server: ContractServer, dashboards: Dashboards
) -> None:
    async with dashboards.open((120, 30)) as driver:
        await driver.sees("No accounts yet.")
        await driver.press("tab")
        await driver.pilot.click(DetailPane, offset=(5, 2))
        await until(lambda: driver.app.focused is driver.view.table, "the focus of the list")
        assert not driver.view.opened


async def test_an_edge_shows_the_focused_pane_without_colours(
    server: ContractServer, dashboards: Dashboards
) -> None:
    add_two_accounts(server)
    async with dashboards.open((120, 30)) as driver:
        await driver.sees("→ Its transactions")
        table, pane = driver.view.table, driver.view.detail

        def edges() -> tuple[str, str]:
            line = driver.text().split("\n")[table.region.y]
            return line[table.region.x], line[pane.region.x]

        assert edges() == ("▌", " ")
        await driver.press("enter")
        assert edges() == ("│", "▌")
        await driver.press("escape")
        assert edges() == ("▌", " ")


async def test_in_a_detail_reached_by_a_link_esc_leads_back(
    server: ContractServer, dashboards: Dashboards
) -> None:
    add_two_accounts(server)
    server.post(server.accounts[0], 100, "credit", "sale")
    async with dashboards.open((120, 30)) as driver:
        await driver.sees("Cups", IN_LIST)
        await driver.press("2", sees="sale")
        await driver.press("enter", sees=IN_DETAIL)
        await driver.press("enter", sees="esc back   ↑↓ link   ⏎ follow")


async def test_the_arrow_keys_of_a_detail_without_links_scroll(own_project: Address) -> None:
    async with dashboard_on(own_project) as driver:
        await driver.sees("● online")
        await driver.press("9", sees="L roll")
        await driver.press("enter", sees="esc list   ↑↓ scroll")


async def test_the_smallest_key_bar_of_a_list_names_the_flows_and_of_marked_accounts_the_comparison(
    own_project: Address,
) -> None:
    async with dashboard_on(own_project, (80, 24)) as driver:
        await driver.sees("● online")
        for name in ("Beans", "Cups"):
            body = {"name": name, "currency": "EUR"}
            await driver.app.api.write("POST", "/v1/accounts", body, f"k-{name}")
        await driver.sees("Cups", "x transfer   h statement   : flows   ? keys")
        await driver.press("space", "space", sees="d compare accounts")
