"""Esc leads back to the place at which a link was followed, and the keys work there; a jump to a missing
object leads nowhere.
"""

from collections.abc import AsyncIterator

import pytest
from textual.widgets import OptionList

from ledger_tui.lists.resource_view import ResourceView
from tests.ledger_tui.conftest import Dashboards
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver, until


def fill(server: ContractServer, transactions: int = 6) -> None:
    for name in ("Beans, Berlin", "Tokyo shop"):
        server.add_account(name)
    for number in range(transactions):
        kind = "debit" if number % 2 else "credit"
        server.post(server.accounts[number % 2], 100 + number, kind, f"sale {number}")


@pytest.fixture
async def filled(server: ContractServer, dashboards: Dashboards) -> AsyncIterator[Driver]:
    fill(server)
    async with dashboards.open() as opened:
        yield opened


async def test_the_keys_are_in_hand_again_after_a_statement(driver: Driver) -> None:
    await driver.press("h", sees="Opening balance")
    await driver.press("escape", sees=("Accounts", "⏎ open", "/ filter"))
    await driver.press("enter", sees="→ Its transactions")


async def test_the_keys_are_in_hand_again_after_a_statement_that_is_not_offered(filled: Driver) -> None:
    await filled.press("h", sees="This server has no statements")
    await filled.press("escape", sees=("Tokyo shop", "⏎ open"))
    await filled.press("j", "enter", sees=("→ Its transactions", "Beans, Berlin"))


async def test_the_keys_are_in_hand_again_in_the_detail_a_link_was_followed_from(filled: Driver) -> None:
    await filled.press("enter", sees="→ Its transactions")
    await filled.press("enter", sees="sale 5")
    await filled.press("escape", sees=("→ Its transactions", "Tokyo shop", "esc list"))
    await filled.press("enter", sees="sale 5")
    await filled.press("escape", "escape", "j")
    await filled.sees("Beans, Berlin", "2 of 2" if filled.view.opened else "1–2 of 2")
    assert filled.view.model.window.cursor == 1


async def test_the_keys_are_in_hand_again_when_the_line_over_a_detail_is_closed(filled: Driver) -> None:
    await filled.press("enter", "slash", "escape")
    await filled.press("enter", sees=("Transactions", "sale 5"))


async def test_from_all_of_an_account_esc_leads_to_the_detail_and_to_its_list_as_it_was_filtered(
    filled: Driver,
) -> None:
    await filled.press("2", "slash")
    await filled.type("type:debit", "enter", gone="sale 4")
    await filled.sees("sale 5", "sale 3")  # a list that is being read has no row to go down to
    await filled.press("down", "enter", sees=("description   sale 3", "→ All of this account"))
    await filled.press("down", "enter", sees=("account:", "sale 5", "sale 1"))
    await filled.press("escape", sees=("description   sale 3", "type:debit"))
    await filled.press("escape", sees=("type:debit", "sale 5", "sale 1"))
    await filled.press("escape", sees="sale 4")


async def test_a_number_key_ends_the_way_back_and_esc_only_closes_the_detail(filled: Driver) -> None:
    await filled.press("2", sees=("sale 5", "Tokyo shop"))
    await filled.press("enter", sees="→ Its account")
    await filled.press("enter", sees="→ Its transactions")
    await filled.press("2", "1", sees="→ Its transactions")
    await filled.press("escape", sees=("Accounts", "Tokyo shop", "1–2 of 2"))
    assert filled.view.place.kind == "accounts"
    assert filled.view.model.window.loaded


async def test_a_way_of_several_links_is_gone_back_link_by_link(filled: Driver) -> None:
    await filled.press("2", sees="sale 5")
    await filled.press("enter", sees="description   sale 5")
    await filled.press("enter", sees="→ Its transactions")
    await filled.press("enter", sees=('account:"Tokyo shop"', "sale 1"))
    await filled.sees("online   Transaction sale 5 › Account Tokyo shop ›")  # the way back
    await filled.press("escape", sees=("→ Its transactions", "online   Transaction sale 5 ›"))
    await filled.press("escape", sees="description   sale 5")
    await filled.press("escape", sees=("sale 4", "sale 0"))


async def test_the_first_link_of_another_object_is_highlighted(filled: Driver) -> None:
    await filled.press("2", sees="sale 5")
    await filled.press("enter", "down")
    links = filled.view.query_one("#links", OptionList)
    assert links.highlighted == 1
    await filled.press("escape", "down", "down", "enter")  # of the same account: its links are the same
    await filled.sees("description   sale 3")
    assert links.highlighted == 0


async def test_a_jump_to_what_is_not_there_leaves_one_where_one_was(filled: Driver) -> None:
    await filled.press("2", sees="sale 5")
    await filled.press("enter", "ctrl+p")
    await filled.type("acc_00000000000000000000000099", sees="Open account")
    await filled.press("enter", sees=("There is no such account.", "description   sale 5"))
    assert filled.view.place.kind == "transactions"
    await filled.press("escape", sees="sale 4")


async def test_a_link_to_what_is_not_there_leaves_one_where_one_was(
    server: ContractServer, filled: Driver
) -> None:
    await filled.press("2", sees=("sale 5", "Tokyo shop"))
    await filled.press("enter")
    filled.app.dashboard.query_one("#accounts", ResourceView).model.window.reset()
    server.accounts.clear()
    await filled.press("enter", sees=("There is no such account.", "description   sale 5"))
    await until(lambda: filled.view.opened)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_an_object_that_was_jumped_to_stays_open_when_its_list_comes(
    server: ContractServer, dashboards: Dashboards, size: tuple[int, int]
) -> None:
    fill(server)
    first, *_others = (
        {"id": server.new_id("usr"), "name": name, "email": f"{name}@example.com", "role": "admin"}
        for name in ("ada", "ben", "cyd")
    )
    server.users += [first, *_others]
    async with dashboards.open(size) as driver:
        await driver.press("ctrl+p")
        await driver.type(str(first["id"]), sees="Open user")
        await driver.press("enter")
        await until(lambda: driver.app.dashboard.view.place.kind == "users")
        await until(lambda: driver.view.model.window.loaded)
        await driver.rests()
        assert (driver.view.selected or {}).get("id") == first["id"]
        await driver.sees("ada@example.com")
        await driver.press("escape", sees="cyd")
