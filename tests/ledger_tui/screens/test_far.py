"""Far rows are reached: the oldest row of a long list, a date in it; and a search for an unknown name
ends.
"""

from __future__ import annotations

import pytest

from tests.ledger_tui.driving import Driver

pytestmark = pytest.mark.dashboard


async def test_the_oldest_row_and_a_date_are_gone_to_in_a_list_that_was_not_read_so_far(
    driver: Driver,
) -> None:
    till = driver.app.names.search("Till")[0].id
    items = [
        {"account": till, "amount": n + 1, "type": "credit", "description": f"sale {n}"} for n in range(700)
    ]
    await driver.app.api.write("POST", "/v1/transactions", items[0], "b")
    await driver.app.api.write("POST", "/v1/transactions/batch", {"transactions": items[1:]}, "c")
    await driver.press("2", sees="sale 699")
    await driver.press("G", "G", sees=("sale 0 ", "in the middle"))
    await driver.press("f", sees="sale 699")
    await driver.press("colon", *"date 2000-01-01", "enter", sees="There is no row at or before 2000-01-01.")
    await driver.press("colon", *"date 2999", "enter", sees="✕ Write a date like 2026-11-20")
    only = "Only transactions and requests have dates to go to: press 2 or 8 first."
    await driver.press("escape", "1", "colon", *"date 2026-11-20", "enter", sees=only)
    await driver.press("0", "colon", *"2026-11-20", sees="date 2026-11-20  ")
    await driver.press("enter", sees=only)
    await driver.press("2", "colon", *"2000-01-01", "enter", sees="There is no row at or before 2000-01-01.")
    await driver.press("colon", *"txn before:2000-01-01", "enter")
    await driver.sees("before:2000-01-01", "Nothing matches this filter.")


async def test_an_account_that_there_is_not_is_refused_when_its_field_is_left(driver: Driver) -> None:
    await driver.app.api.write("POST", "/v1/accounts", {"name": "Bank", "currency": "EUR"}, "b")
    await driver.press("r", sees="Bank")
    await driver.press("x")
    await driver.type("Nobody", "tab", sees="✕ There is no such account. Type part of its name.")
    await driver.press("shift+tab")
    await driver.type("x", gone="There is no such account")
