"""The screen of flows is live, leads to the postings of each flow, and shows earlier moments."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from ledger_tui.features.flows import FlowsReading, FlowsView
from ledger_tui.server.embedded import Address
from tests.ledger_tui.conftest import dashboard_on
from tests.ledger_tui.driving import Driver, until


async def post(driver: Driver, account: str, kind: str, amount: int, **fields: Any) -> None:
    await asyncio.sleep(0.003)  # in a millisecond of its own
    body = {"account": account, "type": kind, "amount": amount, **fields}
    await driver.app.api.write("POST", "/v1/transactions", body, None)


def flows_of(driver: Driver) -> FlowsView:
    view = driver.app.dashboard.view
    assert isinstance(view, FlowsView)
    return view


async def test_flows_are_live_lead_to_their_postings_and_go_back_in_time(
    own_project: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with dashboard_on(own_project, (120, 30)) as driver:
        await driver.sees("● online")
        ids = []
        for name in ("Till", "Bank"):
            body = {"name": name, "currency": "EUR"}
            ids.append(str((await driver.app.api.write("POST", "/v1/accounts", body, None)).record["id"]))
        till, bank = ids
        await post(driver, till, "credit", 700)
        await post(driver, till, "debit", 500, destination=bank)
        await driver.press("colon")
        await driver.type("flows", "enter")
        await driver.sees("the last day  3 postings", "outside", "7.00 EUR", "5.00 EUR")
        assert len(flows_of(driver)._flows) == 2

        await post(driver, till, "credit", 400)
        flows_of(driver).poll_soon()
        await driver.sees("11.00 EUR")
        await driver.press("minus", sees="the last 6 hours  4 postings")
        view = flows_of(driver)
        with monkeypatch.context() as patch:
            patch.setattr(view, "poll", lambda: float("inf"))
            await until(lambda: not view.reading, "the last reading to arrive")
            assert view._last_reading is not None
            read = view._last_reading
            view._last_reading = FlowsReading(read.rows[:3], False)
            view._compute()
            oldest = str(read.rows[2]["created"])
            await driver.sees(f"the newest 3 postings of the last 6 hours, since {oldest[5:10]} ")
            assert view._since < oldest
            assert view._since > str(read.rows[3]["created"])
            view._last_reading = read
            view._compute()
        await driver.press("j", "enter", sees=("Transactions", "other:", "−5.00"), gone="+7.00")
        await driver.press("escape", sees="Flows")

        await driver.press("comma", sees=("PAST", "3 postings", "7.00 EUR"))
        await driver.press("comma")
        await until(lambda: [flow.amount for flow in flows_of(driver)._flows] == [700], "the first flow")


async def test_esc_leads_from_the_flows_to_where_you_came_from_or_to_the_overview(bare: Driver) -> None:
    await bare.press("2", "colon")
    await bare.type("flows", "enter", sees=("Flows", "esc back"))
    await bare.press("escape", sees="No transactions")
    await bare.press("colon")
    await bare.type("flows", "enter", sees="esc back")
    bare.app.dashboard.context.history.clear()
    await bare.press("escape", gone="Flows")
    assert bare.app.dashboard.view.place.kind == "overview"


async def test_the_others_of_the_list_are_those_of_the_bands_and_a_count_stands_by_itself(
    own_project: Address,
) -> None:
    async with dashboard_on(own_project, (80, 24)) as driver:
        await driver.sees("● online")
        for number in range(9):
            body = {"name": f"Shop {number}", "currency": "EUR"}
            shop = str((await driver.app.api.write("POST", "/v1/accounts", body, None)).record["id"])
            await post(driver, shop, "credit", 1_000_000 + number)
        await driver.press("colon")
        await driver.type("flows", "enter")
        await driver.sees("9 postings", "others")
        view = flows_of(driver)
        bands, listed = driver.text(view._bands), driver.text(view._list)
        others = re.search(r"all other flows +([\d,.]+ EUR) +\d×", listed)
        assert others is not None, listed
        assert others[1] in bands, bands
        assert view._last_reading is not None
        view._last_reading = FlowsReading(
            [row for row in view._last_reading.rows for _copy in range(1_200)], True
        )
        view._compute()
        await driver.sees("EUR 1,200×")
        while view._chosen is None or view._chosen.source != "…":
            await driver.press("down")
        seen = set()
        steps = 0
        while view._chosen is not None and view._chosen.source == "…":
            steps += 1
            before = view._chosen
            seen |= {flow.target for flow in view._listed() if flow.source != "…"}
            await driver.press("enter", sees=("smaller flows", "of 9"))
            shown = [flow for flow in view._listed() if flow.currency == "EUR"]
            assert sum(flow.amount for flow in shown) == before.amount  # the flows that the row summed
            if shown[-1].source == "…":
                await driver.press(*["down"] * (len(shown) - 1))
        assert len(seen | {flow.target for flow in view._listed()}) == 9
        assert flows_of(driver) is view
        for _step in range(steps):
            await driver.press("escape")
            assert flows_of(driver) is view
            assert view._chosen is not None
            assert view._chosen.source == "…"
        await driver.sees_no_more(" of 9")
        await driver.press("escape")
        await until(lambda: driver.app.dashboard.view is not view, "the screen before")


async def test_a_list_that_is_too_low_for_all_currencies_scrolls_to_the_chosen_flow(
    own_project: Address,
) -> None:
    async with dashboard_on(own_project, (80, 24)) as driver:
        await driver.sees("● online")
        for currency in ("EUR", "USD", "GBP", "CHF", "SEK", "NOK"):
            for number in range(3):
                body = {"name": f"Shop {number}", "currency": currency}
                shop = str((await driver.app.api.write("POST", "/v1/accounts", body, None)).record["id"])
                await post(driver, shop, "credit", 1_000_000 + number)
        await driver.press("colon")
        await driver.type("flows", "enter", sees="18 postings")
        view = flows_of(driver)
        count = len(view._listed())
        assert count > view._list.content_size.height
        seen = []
        for _row in range(count):
            assert view._chosen is not None
            seen.append((view._chosen.currency, view._chosen.source))
            (line,) = [line for line in driver.text(view._list).splitlines() if "▸" in line][1:]
            assert view._chosen.currency in line
            await driver.press("down")
        assert len(set(seen)) == count
        assert [source for _currency, source in seen].count("…") == 6
        assert view._chosen is not None
        assert view._chosen.source == "…"
        await driver.sees("⏎ smaller flows")
        await driver.press("up", gone="⏎ smaller flows")
        await driver.press("down", "enter", sees=" of 3")
        await driver.press("escape", *["up"] * count, sees="▸ outside")
        assert view._list._top == 0


async def test_the_bar_of_the_flows_names_esc_and_enter_at_80_columns_now_and_in_the_past(
    own_project: Address,
) -> None:
    async with dashboard_on(own_project, (80, 24)) as driver:
        await driver.sees("● online")
        body = {"name": "Till", "currency": "EUR"}
        till = str((await driver.app.api.write("POST", "/v1/accounts", body, None)).record["id"])
        for amount in (100, 200):
            await post(driver, till, "credit", amount)
        await driver.press("colon")
        await driver.type("flows", "enter", sees=("2 postings", "⏎ open   esc back"))
        await driver.press("comma", sees=("1 postings", "esc now   ⏎ open", "a from here   b to"))
