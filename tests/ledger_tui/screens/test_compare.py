"""Marked accounts are compared, and a list's rows are summed; both are exported as seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_tui.server.embedded import Address
from tests.ledger_tui.conftest import dashboard_on
from tests.ledger_tui.driving import until


async def test_marked_accounts_are_compared_and_rows_are_summed(
    own_project: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with dashboard_on(own_project, (120, 40)) as driver:
        write = driver.app.api.write
        await driver.sees("● online")
        for name, amount in (("Till", 700), ("Bank", 5_000)):
            account = await write("POST", "/v1/accounts", {"name": name, "currency": "EUR"}, None)
            body = {"account": account.record["id"], "amount": amount, "type": "credit"}
            await write("POST", "/v1/transactions", body, None)
        driver.view.poll_soon()
        await driver.sees("Till", "50.00")
        await driver.press("home", "c", sees="Copied as curl")
        await driver.press("ctrl+a", sees="● 2 marked")
        await driver.press("d")
        await driver.sees("Compare", "2 accounts, the last 30 days, by day", "0.00 → 50.00", "+7.00 EUR")
        await driver.press("g", "minus", sees="the last week, by week")
        await driver.press("ctrl+e", sees="Export to CSV")
        await driver.press("enter")
        await until((tmp_path / "comparison.csv").exists, "the file")
        head = (tmp_path / "comparison.csv").read_text().splitlines()[0]
        assert head == 'id,period,Bank,"Bank, change",Till,"Till, change"'
        await driver.press("enter", sees=("Transactions", "after:", "1 of 1"))
        await driver.press("g")
        await driver.sees(
            "by type", "the loaded 1" if not driver.view.model.window.complete else "all 1", "+50.00"
        )
        await driver.press("g", sees="by day")
        await driver.press("ctrl+e", sees="Export to CSV")
        await driver.press("enter")
        await until((tmp_path / "transactions-by-day.csv").exists, "the file")
        await driver.press("escape", "escape", sees="Compare")
