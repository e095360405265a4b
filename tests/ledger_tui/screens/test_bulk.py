"""Several marked rows are paid, sent again and revoked together, on a real server with a real receiver."""

from __future__ import annotations

import re

import pytest

from ledger_tui.client.records import Record
from ledger_tui.features.bulk import ObjectLines
from ledger_tui.server.embedded import Address
from tests.ledger_tui.conftest import Dashboards, dashboard_on
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver, until
from tests.receivers import receiving


async def made(driver: Driver, path: str, body: Record | None = None, key: str | None = None) -> Record:
    return dict((await driver.app.api.write("POST", path, body, key)).record)


def values(driver: Driver, name: str) -> list[object]:
    return [row[name] for _n, row in driver.view.model.window.at_hand()]


async def test_marked_rows_are_paid_sent_again_and_revoked_together(own_project: Address) -> None:
    async with receiving() as receiver, dashboard_on(own_project, (100, 40)) as driver:
        await driver.sees("● online")
        await made(driver, "/v1/webhook_endpoints", {"url": receiver.url, "events": ["invoice.paid"]}, "h")
        till = await made(driver, "/v1/accounts", {"name": "Till", "currency": "EUR"}, "a")
        for number in range(3):
            body = {"account": till["id"], "customer": f"Customer {number}", "amount": 1000 + number}
            invoice = await made(driver, "/v1/invoices", body, f"i{number}")
            if number:  # the first stays a draft, which cannot be paid
                await made(driver, f"/v1/invoices/{invoice['id']}/finalize")

        await driver.press("3", sees="Customer 0")
        await driver.press("ctrl+a", sees="\n F finalize   p pay   v void   ^e export   esc unmark ")
        await driver.press("p")
        await driver.sees(
            "Pay 2 invoices?", "in all 20.03 EUR", "Customer 2", "1 more marked object is left out: its state"
        )
        await driver.sees("This cannot be undone.", "Type 2 to pay these 2 invoices, then press enter.")
        await driver.press("y", "enter", sees="The number does not match.")
        await driver.press("escape")
        assert sorted(map(str, values(driver, "status"))) == ["draft", "open", "open"]
        await driver.press("p")
        await driver.type("2", "enter", sees=("Paid: 2", "● paid"))
        await driver.press("u", sees="Nothing to undo: the last change cannot be undone (Paid: 2).")
        await until(lambda: values(driver, "status").count("paid") == 2)
        assert driver.view.model.marked == []
        paid = await driver.app.api.read(f"/v1/accounts/{till['id']}")
        assert paid.record["balance"] == 2003

        # Each event is sent again to each endpoint that takes it, and each delivery to its own.
        await receiver.until_received(2)
        await driver.press("7", sees=("invoice.paid", "account.created"))
        await driver.press("slash")
        await driver.type("type:invoice.paid", "enter", gone="account.created")
        await until(lambda: driver.view.table.has_focus)
        await driver.rests()  # a list that loads drops the keys for its rows
        await driver.press("ctrl+a", sees="2 marked")
        await driver.press("s", sees="Resend 2 events?")
        await driver.press("y", sees="Sending again: 2")
        await receiver.until_received(4)
        await driver.press("w", sees=receiver.url)
        await driver.press("h")
        await until(lambda: len(driver.view.model.window) == 2, "the deliveries")
        await driver.press("ctrl+a", "s", sees="Resend 2 deliveries?")
        await driver.sees(
            f"invoice.paid, to {receiver.url}, evt_", "the receiver gets the event a second time"
        )
        await driver.press("y")
        await until(lambda: not driver.view.model.marked)
        await receiver.until_received(6)
        assert {each.event for each in receiver.received[:2]} == {
            each.event for each in receiver.received[4:]
        }

        # The key of the dashboard is revoked last: with it first the others would be refused.
        for name in ("reports", "exports"):
            await made(driver, "/v1/api_keys", {"name": name, "role": "member"}, name)
        await driver.press("9", sees=("reports", "exports"))
        await driver.press("ctrl+a", "L", sees="Roll only one at a time")
        await driver.press("X", sees=("Revoke 3 API keys?", "This dashboard uses one of these keys"))
        await driver.type("3", "enter", sees="Revoked: 3")
        await until(lambda: None not in values(driver, "revoked_at"))


async def test_a_series_stopped_midway_counts_the_objects_not_tried(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.users += [
        {
            "id": f"usr_{n}",
            "name": f"User {n}",
            "email": "a@example.com",
            "role": "member",
            "status": "active",
        }
        for n in range(3)
    ]
    async with dashboards.open((100, 30)) as driver:
        await driver.press("4", sees="User 0")
        await driver.press("ctrl+a", "X", sees="Deactivate 3 users?")
        with server.holding(None):  # the answer to the first
            await driver.press("y", sees="0 of 3; esc stops after the current request.")
            await until(lambda: "DELETE" in [method for method, *_ in server.requests], "the first")
            await driver.press("escape", sees="Stopping after the current request…")
        await driver.sees("Deactivated: 1, not tried: 2")
        await until(lambda: driver.app.screen is driver.app.dashboard, "the end of the dialog")
    assert [user["status"] for user in server.users].count("deactivated") == 1


async def two_drafts(driver: Driver) -> list[Record]:
    till = await made(driver, "/v1/accounts", {"name": "Till", "currency": "EUR"}, "a")
    body = {"account": till["id"], "customer": "Ada", "amount": 1000}
    return [await made(driver, "/v1/invoices", body, f"i{number}") for number in range(2)]


async def test_a_series_that_changes_nothing_leaves_the_change_before_undoable(own_project: Address) -> None:
    async with dashboard_on(own_project, (80, 30)) as driver:
        await driver.sees("● online")
        drafts = await two_drafts(driver)
        await driver.press("2", "n", sees="Post a transaction")
        await driver.type("till", sees="EUR  acc_")
        await driver.press("enter", "tab")
        await driver.type("5", "ctrl+s", sees="Post a transaction?")
        await driver.press("y", sees="Credited Till 5.00 EUR")
        await driver.press("3", sees="○ draft")
        await driver.press("ctrl+a", "F", sees="Finalize 2 invoices?")
        await driver.sees("For each: It gets its number", "This cannot be undone.")
        for draft in drafts:
            await made(driver, f"/v1/invoices/{draft['id']}/finalize")
        await driver.type("2", "enter", sees="Finalized: 0, failed: 2. esc closes.")
        await driver.press("ctrl+c", gone="esc closes.")
        assert len(driver.view.model.marks) == 2  # for another try
        await driver.press("u", sees="Reverse the transaction, +5.00 EUR, Till?")


async def test_marks_of_rows_that_have_left_the_list_go_and_offer_no_action(own_project: Address) -> None:
    async with dashboard_on(own_project, (100, 30)) as driver:
        await driver.sees("● online")
        invoices = await two_drafts(driver)
        for invoice in invoices:
            await made(driver, f"/v1/invoices/{invoice['id']}/finalize")
        await driver.press("3", sees="◐ open")
        await driver.press("slash")
        await driver.type("status:open", "enter", sees=" status:open ")
        await driver.rests()
        await driver.press("ctrl+a", "p", sees="Pay 2 invoices?")
        for invoice in invoices:  # by another person
            await made(driver, f"/v1/invoices/{invoice['id']}/pay")
        await driver.type("2", "enter", sees="Paid: 0, failed: 2. esc closes.")
        await driver.press("escape", sees="Nothing matches this filter", gone="2 marked")
        await driver.sees_no_more("p pay")


@pytest.mark.parametrize("rows", [24, 40])
async def test_every_object_of_a_question_can_be_read_in_it(
    server: ContractServer, dashboards: Dashboards, rows: int
) -> None:
    server.users += [
        {"id": f"usr_{n}", "name": f"User {n}", "email": f"u{n}@a.com", "role": "member", "status": "active"}
        for n in range(40)
    ]
    async with dashboards.open((80, rows)) as driver:
        await driver.press("4", sees="User 39")
        await driver.press("ctrl+a", "X", sees=("Deactivate 40 users?", "1 to ", " of 40 · ↑ ↓ PgUp PgDn"))
        await driver.sees("↓ more objects", "For each: The user can place no orders.")
        lines = driver.app.screen.query_one(ObjectLines)
        listed = re.findall(r"u\d+@a.com", driver.text(lines))
        while " to 40 of 40" not in driver.text():
            await driver.press("pagedown")
            listed += re.findall(r"u\d+@a.com", driver.text(lines))
        assert len(set(listed)) == 40
        await driver.press("up", sees=" to 39 of 40")
        await driver.press("down", sees=" to 40 of 40")
        await driver.press("pageup", gone=" to 40 of 40")
        await driver.press("n", gone="Deactivate 40 users?")


async def test_a_single_marked_invoice_and_a_series_with_a_way_back_are_confirmed_with_y(
    own_project: Address,
) -> None:
    async with dashboard_on(own_project, (80, 30)) as driver:
        await driver.sees("● online")
        drafts = await two_drafts(driver)
        await made(driver, f"/v1/invoices/{drafts[0]['id']}/finalize")
        await driver.press("3", sees=("○ draft", "◐ open"))
        await driver.rests()
        await driver.press("ctrl+a", "p", sees="Pay 1 invoice?")
        await driver.press("y", sees="Paid: 1")
        till = drafts[0]["account"]
        for key in ("t1", "t2"):
            await made(driver, "/v1/transactions", {"account": till, "type": "credit", "amount": 5}, key)
        await driver.press("2", sees="+0.05")
        await driver.rests()
        await driver.press("space", "space", "U", sees="Reverse 2 transactions?")
        await driver.sees("U on the reversal undoes it.")
        await driver.press("y", sees="Reversed: 2")
