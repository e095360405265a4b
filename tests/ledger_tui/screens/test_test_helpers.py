"""The test helpers: the clock, snapshots, faults, events and the reset, by command."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger_tui.app.command_line import CommandScreen
from ledger_tui.features.test_helpers import READY_FAULTS, parse_helper
from ledger_tui.server.embedded import Address
from tests.helped_server import HelpedServer
from tests.ledger_tui.conftest import dashboard_on
from tests.ledger_tui.driving import Driver, until


@pytest.fixture
def helped(tmp_path: Path) -> Iterator[HelpedServer]:
    with HelpedServer(tmp_path / "ledger.db") as server:
        yield server


async def goes_on(driver: Driver, text: str) -> None:
    """Type the rest of a line that a key has begun."""
    await until(lambda: isinstance(driver.app.screen, CommandScreen), "the command line")
    await driver.type(text, "enter")


async def test_a_tester_moves_the_clock_breaks_requests_and_rewinds_the_ledger(helped: HelpedServer) -> None:
    owned = helped.owned()
    async with dashboard_on(Address(str(owned.api.base_url), owned.key)) as driver:
        await driver.press("1")
        owned.made("/v1/accounts", name="Till", currency="EUR")
        await driver.sees("Till")
        await driver.press("H", sees=("▶ runs", "No snapshots", "No faults"))
        await driver.press("enter", sees="No snapshot or fault is chosen; tab goes to them.")

        await driver.press("colon", sees="⏎ run   tab complete")
        await driver.type("helper", sees=("clock ", "test_helpers "))
        await driver.press("escape", "n")
        await goes_on(driver, "empty till")
        await driver.sees("One name, without spaces")
        await driver.press(*["backspace"] * 5, "enter", sees=("Took the snapshot empty.", "MB"))
        await driver.press("colon")
        await goes_on(driver, "clock +1d2h")
        await driver.sees("1 d 2 h ahead of the machine's clock")
        assert driver.app.session.server_time > time.time() + 86_400  # by which the overview counts
        await driver.press("colon")
        await goes_on(driver, "clock freeze")
        await driver.sees("❚❚ stopped")

        await driver.press("colon")
        await goes_on(driver, "fault unavailable")
        await driver.sees("503 to POST", "0 hits")
        assert owned.api.post("/v1/accounts", json={"name": "Safe", "currency": "EUR"}).status_code == 503
        await driver.sees("1 hits")
        await driver.press("colon")
        await goes_on(driver, "trigger invoice.paid")
        await driver.sees("invoice.paid happened, with account, invoice, ")
        assert [each["status"] for each in owned.api.get("/v1/invoices").json()["data"]] == ["paid"]

        # The fault ends at once; the snapshot is gone back to only after the question.
        await driver.press("shift+tab", "enter", sees="drop flt_")
        await driver.press("enter", sees=("Ended: 503 to POST", "No faults"))
        await driver.press("1", sees=("Till", "Test account"))
        await driver.press("H", "shift+tab", "enter", sees="restore empty")
        await driver.press("enter", sees='Go back to the snapshot "empty"?')
        await driver.press("n")
        assert len(owned.api.get("/v1/accounts").json()["data"]) == 2
        await driver.press(
            "enter", "enter", "y", sees=('The ledger is back at the snapshot "empty".', "▶ runs")
        )
        await driver.goes_to("1")
        assert [row["name"] for _n, row in driver.view.model.window.at_hand()] == ["Till"]

        await driver.press("colon")
        await goes_on(driver, "reset")
        await driver.sees("Empty this project in test mode?")
        await driver.press("y", sees=("This project is empty.", "No accounts yet."))
        await driver.press("H", "colon")
        await goes_on(driver, "drop empty")
        await driver.sees('Delete the snapshot "empty"?')
        await driver.press("y", sees=("No snapshots", ": clock, fault, trigger, drop, reset"))


def test_the_server_takes_each_ready_fault(helped: HelpedServer) -> None:
    owned = helped.owned()
    for name in READY_FAULTS:
        answer = owned.api.post("/v1/test_helpers/faults", json=parse_helper("fault", name).body)
        assert answer.status_code == 201, (name, answer.text)


async def test_a_server_without_test_helpers_says_so_and_is_not_asked_for_them_again(
    with_till: Driver,
) -> None:
    await with_till.press("colon")
    await goes_on(with_till, "clock +1d")
    await with_till.sees("This server has no test helpers for this key")
    for screen in ("0", "2", "6"):
        await with_till.press(screen, "H", sees="they need `ledger-engine serve")
        with_till.app.clear_notifications()
    await with_till.press("question_mark", "slash")
    await with_till.type("helper", sees="No key is described by “helper”")
    await with_till.press("escape", "colon")
    await with_till.type("helper", sees="Nothing found")
    await with_till.press("escape")
    await with_till.press("colon")
    await goes_on(with_till, "clock")
    await with_till.sees("Test helpers", "they need `ledger-engine serve")
    await with_till.press("colon")
    await with_till.type("cl")
    assert "freeze" not in with_till.text()


async def test_a_clock_that_was_moved_is_shown_on_every_screen(helped: HelpedServer) -> None:
    owned = helped.owned()
    moved = owned.api.post("/v1/test_helpers/clock", json={"advance": 93_600})
    assert moved.status_code == 200, moved.text
    async with dashboard_on(Address(str(owned.api.base_url), owned.key)) as driver:
        await driver.sees("clock +1 d 2 h")
        await driver.press("2", sees=("No transactions", "clock +1 d 2 h"))
