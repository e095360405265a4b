"""Actions on an object work on a server with every part."""

import asyncio
from typing import Any

import pytest

from ledger_tui.app.application import LedgerApp
from ledger_tui.client.api import ApiResponse
from ledger_tui.client.session import Mode
from ledger_tui.lists import arrivals
from ledger_tui.server.embedded import Address
from ledger_tui.settings.config import Options
from ledger_tui.ui.dialogs import ConfirmScreen
from tests.ledger_tui.conftest import Dashboards, dashboard_on
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver, until
from tests.ledger_tui.line import Line


async def draft_an_invoice(driver: Driver) -> None:
    """Draft one and show it in the list."""
    await until(lambda: driver.app.names.search("till"))
    (account,) = driver.app.names.search("till")
    body = {"account": account.id, "customer": "Ada", "amount": 1250}
    await driver.app.api.write("POST", "/v1/invoices", body, "i")
    await driver.press("3", sees=("○ draft", "12.50  EUR  Ada"))


async def test_an_invoice_goes_from_draft_over_open_to_paid_and_its_account_is_credited(
    driver: Driver,
) -> None:
    await until(lambda: driver.app.names.search("till"))
    await driver.press("3", "n")
    await driver.type("till", "enter")
    await driver.type("Ada", "tab")
    await driver.type(
        "12.50", "ctrl+s", sees=("The invoice for Ada is a draft: 12.50 EUR", "○ draft", "12.50  EUR  Ada")
    )
    await driver.press("p", sees="Still a draft: F finalizes it first.")
    await driver.press("F", sees="This cannot be undone.")
    await driver.press("y", sees=("INV-000001 is open: 12.50 EUR", "◐ open"))
    await driver.press("p", sees=("the invoice stays paid.", "This cannot be undone."))
    await driver.press("y", sees=("INV-000001 is paid: 12.50 EUR", "● paid"))
    for key, effect in {
        "v": "v voids an open invoice: it keeps its number, and",
        "F": "F finalizes a draft: it gets its number and can be paid.",
        "p": "p pays an open invoice: the account is credited at once",
        "e": "e edits a draft.",
    }.items():
        driver.app.clear_notifications()
        await driver.press(key, sees=(effect, "INV-000001 is paid."))
    await driver.press("colon")
    await driver.type("fina", sees="Finalize   ")
    await driver.sees("INV-000001 is paid.")
    await driver.press("tab", sees="Finalize")
    driver.app.clear_notifications()
    await driver.press("enter", sees=("F finalizes a draft: it gets its number", "INV-000001 is paid."))
    await driver.press("enter", sees=(" ○ draft ─────▶ ◐ open ──────▶[● paid]", "→ Its payment"))
    await driver.press("escape", "1", sees="12.50  EUR")


async def test_an_action_asks_for_a_second_press_on_a_row_that_just_arrived_but_not_on_a_created_one(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "_NEW_SECONDS", 3600)
    await until(lambda: driver.app.names.search("till"))
    await driver.press("3", "n")
    await driver.type("till", "enter")
    await driver.type("Ada", "tab")
    await driver.type("12.50", "ctrl+s", sees="12.50  EUR  Ada")
    await until(lambda: driver.view.model.pinned is None, "the row of the created draft")
    await driver.press("F", sees="Finalize the draft")
    await driver.press("escape", "f")
    account = driver.app.names.search("till")[0].id
    body = {"account": account, "customer": "Bob", "amount": 900}
    await driver.app.api.write("POST", "/v1/invoices", body, "b")
    await driver.sees("9.00  EUR  Bob")
    await driver.press("F", sees="A newer row came under the cursor. Press again to finalize")
    await driver.press("F", sees="Finalize the draft, 9.00 EUR from Bob to Till?")


async def test_a_late_answer_to_an_action_does_not_replace_a_newer_state(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await draft_an_invoice(driver)
    api, view, answered = driver.app.api, driver.view, asyncio.Event()
    write = api.write

    async def write_slowly(*arguments: Any, **keywords: Any) -> ApiResponse:
        answer = await write(*arguments, **keywords)
        await answered.wait()
        return answer

    monkeypatch.setattr(api, "write", write_slowly)
    await driver.press("F", "y", sees="◐ open")
    await write("POST", f"/v1/invoices/{(view.selected or {})['id']}/pay", None, "p")
    await driver.sees("● paid")
    monkeypatch.setattr(view, "poll", lambda: 60.0)  # no poll mends the row
    states: list[str] = []
    monkeypatch.setattr(view.table, "repaint", lambda *_: states.append((view.selected or {})["status"]))
    answered.set()
    await driver.sees("INV-000001 is open")
    await driver.rests()
    assert states
    assert set(states) == {"paid"}


@pytest.mark.parametrize("moves_on", [False, True])
async def test_a_late_answer_to_a_read_does_not_replace_a_newer_state(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, moves_on: bool
) -> None:
    await draft_an_invoice(driver)
    api, view, answered = driver.app.api, driver.view, asyncio.Event()
    record_id = (view.selected or {})["id"]
    read = api.read

    async def read_slowly(path: str, *arguments: Any, **keywords: Any) -> ApiResponse:
        answer = await read(path, *arguments, **keywords)
        if path.endswith(record_id):
            await answered.wait()
        return answer

    monkeypatch.setattr(api, "read", read_slowly)
    await driver.press("enter")
    path = f"/v1/invoices/{record_id}"
    await until(lambda: any(each.url.endswith(path) for each in driver.app.traffic), "the read")
    if moves_on:
        await driver.press("escape")
    await api.write("POST", f"{path}/finalize", None, "f")
    await until(lambda: (view.selected or {})["status"] == "open")
    monkeypatch.setattr(view, "poll", lambda: 60.0)
    answered.set()
    await driver.rests()
    assert (view.selected or {})["status"] == "open"


@pytest.mark.parametrize("key", ["enter", "T", "J", "e", "i", "y"])
async def test_a_key_opens_the_row_that_was_under_the_cursor_before_another_row_arrived(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setattr(arrivals, "_REACTION_SECONDS", 3600)
    await draft_an_invoice(driver)
    await until(lambda: driver.view.model.window.following, "the list that follows")
    account = driver.app.names.search("till")[0].id
    body = {"account": account, "customer": "Bob", "amount": 900}
    await driver.app.api.write("POST", "/v1/invoices", body, "b")
    await driver.sees("9.00  EUR  Bob")
    invoices = driver.view
    await driver.press(key, sees=("A newer row had just come", "f goes to the new row."))
    await driver.rests()
    assert (invoices.selected or {})["customer"] == "Ada"
    if key == "T":
        assert driver.app.dashboard.view.selected == invoices.selected
    driver.app.clear_notifications()
    await driver.press("escape", "home")
    assert (invoices.selected or {})["customer"] == "Bob"
    await driver.press("enter")
    assert "A newer row" not in driver.text()
    assert (invoices.selected or {})["customer"] == "Bob"


async def test_an_action_that_the_state_forbids_is_greyed_and_does_nothing(driver: Driver) -> None:
    await draft_an_invoice(driver)
    assert driver.view.check_action("act", ("finalize",)) is True
    assert driver.view.check_action("act", ("pay",)) is None
    assert driver.view.check_action("act", ("ship",)) is False


async def test_voiding_an_invoice_asks_first(driver: Driver) -> None:
    await draft_an_invoice(driver)
    await driver.press("F", "y", sees="◐ open")
    await driver.press("v", sees="Void INV-000001, 12.50 EUR from Ada to Till?")
    await driver.press("escape", sees="◐ open")
    await driver.press("v", "y", sees=("INV-000001 is void: 12.50 EUR", "✕ void"))


async def test_a_user_is_created_deactivated_and_restored(driver: Driver) -> None:
    await driver.press("4", "n")
    await driver.type("Ada", "tab")
    await driver.type(
        "ada@example.com",
        "ctrl+s",
        sees=("User Ada is active: member, ada@example.com", "ada@example.com", "● active"),
    )
    await driver.press("X", "y", sees=("✕ deactivated", "u restores it"))
    await driver.press("u", sees=("User Ada is active", "● active"))


async def test_an_email_that_is_taken_is_reported_in_the_form(driver: Driver) -> None:
    body = {"name": "Ada", "email": "ada@example.com", "role": "member"}
    await driver.app.api.write("POST", "/api/users", body, None)
    await driver.press("4", "n")
    await driver.type("Ada", "tab")
    await driver.type("ADA@example.com", "ctrl+s", sees=("✕ ", "email"))
    assert len(driver.app.screen_stack) == 2


async def test_an_order_is_placed_paid_and_shipped(driver: Driver) -> None:
    body = {"name": "Ada", "email": "ada@example.com", "role": "member"}
    user = (await driver.app.api.write("POST", "/api/users", body, None)).record
    await driver.press("5", "n")
    await driver.type(user["id"], "tab")
    await driver.type(
        "2 x Beans @ 1250; Filter", "ctrl+s", sees=("The order of Ada is open: 2,500, 2 items", "○ open")
    )
    await driver.press("p", sees=("Pay the order, ", "2 items"))
    await driver.press("y", sees="◐ paid")
    await driver.press("s", sees="Ship the order, ")
    await driver.press("y", sees=("The order of Ada is shipped: 2,500, 2 items", "● shipped"))
    await driver.press("enter", sees="2 × 1,250     Beans")


async def test_an_action_the_server_refuses_is_reported(driver: Driver) -> None:
    await draft_an_invoice(driver)
    invoice = driver.view.selected
    assert invoice is not None
    await driver.app.api.write("POST", f"/v1/invoices/{invoice['id']}/finalize", None, None)
    await until(lambda: (driver.view.selected or {})["status"] == "open", "the event")
    await driver.rests()
    driver.view.show_changed(invoice)  # as if the screen still held the draft
    await driver.press("F", "y", sees="Could not finalize: ")


@pytest.mark.parametrize("filters", [{}, {"status": "open"}])
async def test_after_a_refusal_row_detail_and_keys_show_the_present_state(
    own_project: Address, monkeypatch: pytest.MonkeyPatch, filters: dict[str, str]
) -> None:
    async with dashboard_on(own_project, (160, 30)) as driver:
        await driver.sees("● online")
        await driver.app.api.write("POST", "/v1/accounts", {"name": "Till", "currency": "EUR"}, "a")
        await driver.sees("Till")
        await draft_an_invoice(driver)
        await driver.press("F", "y", sees=("◐ open", "p pay   v void"))
        invoice = dict(driver.view.selected or {})
        driver.view.set_filters(filters)
        await driver.sees("◐ open")
        await driver.rests()
        # the row as if no event and no poll had come since another person paid the invoice
        monkeypatch.setattr(driver.view, "may_poll", lambda: False)
        monkeypatch.setattr(driver.view.model, "push", lambda _records: None)
        await driver.app.api.write("POST", f"/v1/invoices/{invoice['id']}/pay", None, "other")
        await driver.rests()
        driver.view.show_changed(invoice)
        await driver.press("p", "y", sees=("Could not pay: ", "● paid", "[● paid]"), gone="p pay   v void")
        assert (driver.view.selected or {})["status"] == "paid"


async def test_after_a_refusal_the_row_of_an_object_without_a_path_of_its_own_is_read_again(
    driver: Driver,
) -> None:
    key = (
        await driver.app.api.write("POST", "/v1/api_keys", {"name": "reports", "role": "member"}, "k")
    ).record
    await driver.press("9", sees="reports")
    await driver.rests()
    await driver.press("home", "L", sees="Roll API key reports")
    await driver.app.api.write("DELETE", f"/v1/api_keys/{key['id']}", None, None)
    driver.view.next_poll_at = float("inf")
    await driver.press("y", sees=("Could not roll: ", "✕ revoked"))
    assert driver.view.check_action("act", ("roll",)) is None


@pytest.mark.parametrize(
    ("key", "question"), [("F", "Finalize the draft"), ("p", "Pay INV-000001"), ("v", "Void INV-000001")]
)
async def test_an_action_that_cannot_be_taken_back_asks_first_and_names_its_object(
    driver: Driver, key: str, question: str
) -> None:
    await draft_an_invoice(driver)
    if key != "F":
        await driver.press("F", "y", sees="INV-000001 is open: 12.50 EUR")
    status = (driver.view.selected or {})["status"]
    await driver.press(key, sees=f"{question}, 12.50 EUR from Ada to Till?")
    await driver.press("escape")
    assert (driver.view.selected or {})["status"] == status


async def test_in_live_mode_paying_asks_for_the_number(driver: Driver) -> None:
    await draft_an_invoice(driver)
    await driver.press("F", "y", sees="INV-000001 is open: 12.50 EUR")
    driver.turn_live()
    await driver.press("p", sees=("◆ LIVE · Confirm", "Type INV-000001 to"))
    await driver.press("y")
    assert isinstance(driver.app.screen, ConfirmScreen)


async def test_the_smallest_key_bar_has_what_can_be_done_with_an_open_invoice(own_project: Address) -> None:
    async with dashboard_on(own_project, (80, 24)) as driver:
        await driver.sees("● online")
        await driver.app.api.write("POST", "/v1/accounts", {"name": "Till", "currency": "EUR"}, "a")
        await driver.sees("Till")
        await draft_an_invoice(driver)
        await driver.sees("F finalize")
        await driver.press("F", "y", sees="INV-000001 is open: 12.50 EUR")
        driver.app.clear_notifications()
        await driver.sees("p pay   v void", "? keys")
        await driver.press("enter", sees=("esc list", "p pay   v void", "? keys"))


async def test_in_live_mode_a_destructive_action_asks_for_the_number(driver: Driver) -> None:
    await draft_an_invoice(driver)
    await driver.press("F", "y", sees="◐ open")
    driver.turn_live()
    assert driver.app.session.mode is Mode.LIVE
    invoice = driver.view.selected
    assert invoice is not None
    await driver.press("v", sees=("◆ LIVE · Confirm", "Type INV-000001 to"))
    await driver.type("yes", "enter", sees="✕ The number does not match.")
    assert isinstance(driver.app.screen, ConfirmScreen)
    await driver.press("home", "shift+end")
    await driver.type("INV-000001", "enter", sees="✕ void")


async def test_a_server_without_a_list_of_invoices_says_so(
    server: ContractServer, dashboards: Dashboards
) -> None:
    async with dashboards.open() as contract_driver:
        await contract_driver.press("3", sees="This server has no list of invoices; / opens one by its id.")


async def test_a_draft_is_edited_and_only_what_was_changed_is_sent(driver: Driver) -> None:
    await draft_an_invoice(driver)
    await driver.press("e", sees=("Edit the draft", "12.50", "Ada"))
    await driver.press("tab", "tab")
    await driver.press("home", "shift+end")
    await driver.type("20", "ctrl+s", sees=("The invoice for Ada is a draft: 20.00 EUR", "20.00  EUR  Ada"))
    sent = [exchange for exchange in driver.app.traffic if exchange.method == "PATCH"]
    assert [exchange.body for exchange in sent] == ['{"amount": 2000}']


async def test_a_draft_given_to_an_account_of_another_currency_has_its_amount_read_anew(
    driver: Driver,
) -> None:
    await draft_an_invoice(driver)
    await driver.app.api.write("POST", "/v1/accounts", {"name": "Yen box", "currency": "JPY"}, "y")
    await driver.press("1", sees="Yen box")
    await driver.press("3", "e", sees=("Edit the draft", "12.50"))
    await driver.press("home", "shift+end")
    await driver.type("yen", "enter", "ctrl+s", sees="✕ JPY has no decimals: write an amount like 1250.")
    assert not [exchange for exchange in driver.app.traffic if exchange.method == "PATCH"]


async def test_an_edit_that_changes_nothing_says_so_and_sends_nothing(driver: Driver) -> None:
    await draft_an_invoice(driver)
    await driver.press("e", sees="Edit the draft")
    await driver.press("ctrl+s", sees="✕ Nothing was changed.")
    assert not [exchange for exchange in driver.app.traffic if exchange.method == "PATCH"]


async def test_an_invoice_that_is_no_longer_a_draft_is_not_edited(driver: Driver) -> None:
    await draft_an_invoice(driver)
    assert driver.view.check_action("edit", ()) is True
    await driver.press("F", "y", sees="◐ open")
    assert driver.view.check_action("edit", ()) is None
    await driver.press("e")
    assert len(driver.app.screen_stack) == 1


async def test_a_voided_invoice_is_drawn_on_its_way_to_void(driver: Driver) -> None:
    await draft_an_invoice(driver)
    await driver.press("F", "y", sees="INV-000001 is open: 12.50 EUR")
    await driver.press("v", "y", sees="INV-000001 is void: 12.50 EUR")
    await driver.press("enter", sees=(" ○ draft ─────▶ ◐ open ──────▶ ● paid", "└───────────▶[✕ void]"))


async def test_a_transaction_is_reversed_once_after_asking(driver: Driver) -> None:
    account = driver.app.names.search("till")[0].id
    body = {"account": account, "amount": 1250, "type": "credit", "description": "by mistake"}
    await driver.app.api.write("POST", "/v1/transactions", body, "t")
    await driver.press("2", sees="by mistake")
    await driver.press("U", sees="Reverse the transaction, ")
    await driver.press(
        "y", sees=("The transaction on Till is reversed: −12.50 EUR", "↩ debit", "−12.50  EUR")
    )
    assert " · u undoes the reversal" in " ".join(driver.text().split())
    await driver.press("down", "U", sees="Type 12.50 to confirm")
    await driver.type("12.5", "enter", sees="Could not reverse: ")


async def test_in_test_mode_the_user_types_the_amount_of_a_reversal_that_overdraws_an_account(
    driver: Driver,
) -> None:
    till = driver.app.names.search("till")[0].id
    body: dict[str, object] = {"account": till, "amount": 1250, "type": "credit", "description": "in"}
    await driver.app.api.write("POST", "/v1/transactions", body, "t1")
    await driver.app.api.write("POST", "/v1/transactions", body | {"amount": 300, "type": "debit"}, "t2")
    await driver.press("2", sees="+12.50")
    await driver.press("down", "U", sees=("Till is left with −3.00 EUR, overdrawn", "Type 12.50 to confirm"))
    await driver.press("y", "enter", sees="The amount does not match.")
    await driver.press("escape", gone="Reverse the transaction")
    await driver.press("home", "U", sees="Reverse the transaction, −3.00 EUR")  # a credit overdraws nothing
    await driver.press("y", sees="The transaction on Till is reversed: +3.00 EUR")
    await driver.press("down", "down")
    await driver.press("U", "y")  # the y comes before the balance
    await driver.sees("The transaction on Till is reversed: −12.50 EUR")


async def test_u_takes_a_posting_back_from_any_screen_after_asking(driver: Driver) -> None:
    await driver.app.api.write("POST", "/v1/accounts", {"name": "Safe", "currency": "EUR"}, "s")
    await driver.sees("Safe")
    await driver.press("down", "x", sees="Till · EUR")
    await driver.type("safe", "enter")
    await driver.type("5", "ctrl+s", sees="Transfer?")
    await driver.type("5.00", "enter", sees="Moved 5.00 EUR from Till to Safe")
    assert " · u reverses it" in " ".join(driver.text().split())
    await driver.press("u", sees=("Reverse the transfer: moves 5.00 EUR from Safe to Till?", "is deleted."))
    await driver.press("y", sees="The transaction on Till is reversed: ")
    await driver.press("2", sees=("↩ credit", "+5.00  EUR  Till"))
    driver.app.clear_notifications()
    await driver.press("0", "u", sees="Undo the reversal, +5.00 EUR, Till?")
    await driver.sees(
        "This undoes the undo: it moves 5.00 EUR from Till to Safe again.", "Type 5.00 to confirm"
    )
    await driver.type("5.00", "enter", sees="The transaction on Till is reversed: ")
    rows = (await driver.app.api.read("/v1/transactions")).record["data"]
    assert sum(row["reverses"] is not None for row in rows) == 4  # a reversal is reversed too
    driver.app.clear_notifications()
    await driver.press("u", sees="This undoes the undo: it moves 5.00 EUR from Safe to Till again.")


async def test_u_undoes_the_last_change_whatever_object_is_chosen(driver: Driver) -> None:
    write = driver.app.api.write
    await write("POST", "/v1/accounts", {"name": "Safe", "currency": "EUR"}, "s")
    await write("POST", "/v1/webhook_endpoints", {"url": "http://127.0.0.1:9/hooks"}, None)
    endpoint = (await driver.app.api.read("/v1/webhook_endpoints")).record["data"][0]
    await write("POST", f"/v1/webhook_endpoints/{endpoint['id']}/disable", None, None)
    account = driver.app.names.search("till")[0].id
    body = {"account": account, "amount": 725, "type": "credit", "description": "of another"}
    await driver.sees("Safe")
    await driver.press("down", "x", sees="Till · EUR")
    await driver.type("safe", "enter")
    await driver.type("5", "ctrl+s", sees="Transfer?")
    await driver.type("5.00", "enter", sees="u reverses it")
    await write("POST", "/v1/transactions", body, "t")
    await driver.press("2", sees="of another")
    await driver.press("home", "u", sees="Reverse the transfer: moves 5.00 EUR from Safe to Till?")
    await driver.press("n")
    await driver.press(
        "U", sees=("Reverse the transaction, +7.25 EUR, of another, Till?", "Type 7.25 to confirm")
    )
    await driver.press("escape", "7", "w", sees="✕ disabled")
    await driver.press("u", sees="Reverse the transfer: moves 5.00 EUR from Safe to Till?")
    await driver.press("n", "U", sees="● enabled")


async def test_without_a_change_u_names_the_key_that_reverses_the_chosen_object(driver: Driver) -> None:
    account = driver.app.names.search("till")[0].id
    body = {"account": account, "amount": 725, "type": "credit"}
    await driver.app.api.write("POST", "/v1/transactions", body, "t")
    await driver.press("2", sees="+7.25")
    nothing = "Nothing to undo: you have changed nothing yet. U reverses a transaction: the opposite"
    await driver.press("u")
    await until(lambda: nothing in " ".join(driver.text().split()))
    await driver.press("question_mark", sees=("u  undo the last change", "U  reverse"))


async def test_u_says_why_there_is_nothing_to_undo(driver: Driver) -> None:
    await driver.press("u", sees="Nothing to undo: you have changed nothing yet.")
    await draft_an_invoice(driver)
    await driver.press("F", "y", sees="INV-000001 is open: 12.50 EUR")
    reason = "the last change cannot be undone (INV-000001 is open: 12.50 EUR)."
    await driver.press("u", sees=f"Nothing to undo: {reason}")
    assert "u undo" not in driver.text()


async def test_u_restores_a_deleted_endpoint_and_a_user_and_enables_an_endpoint(driver: Driver) -> None:
    await driver.app.api.write("POST", "/v1/webhook_endpoints", {"url": "http://127.0.0.1:9/hooks"}, None)
    await driver.press("7", "w", sees="127.0.0.1:9/hooks")
    await driver.press("X", sees="It receives no events until it is enabled.")
    await driver.press("y", sees="u enables it")
    await driver.press("u", sees="is enabled")
    await driver.press("D", sees="For 30 days it can be restored")
    await driver.press("y", sees="u restores it")
    await driver.press("0", "u", sees=("is restored", "whsec_"))
    restored = (await driver.app.api.read("/v1/webhook_endpoints")).record["data"]
    assert [each["status"] for each in restored] == ["enabled"]


async def test_an_action_without_an_answer_is_not_said_to_have_failed(server: ContractServer) -> None:
    ada = {"name": "Ada", "email": "ada@example.com", "role": "member", "status": "active"}
    server.users.append({"id": server.new_id("usr"), **ada})
    async with Line(server.port) as line:
        app = LedgerApp(Options(url=line.url, key=server.key))
        async with app.run_test(size=(100, 30), notifications=True) as pilot:
            driver = Driver(app, pilot)
            await driver.press("4", sees="ada@example.com")
            await driver.press("X", sees="Deactivate user ")
            line.swallows_answers = True
            await driver.press("y")
            told = "; the change may still have been made. Check before you try again."
            await until(lambda: told in " ".join(driver.text().split()))
            assert "Could not" not in driver.text()
    assert "DELETE" in [method for method, _path, _params in server.requests]


async def test_in_live_mode_what_can_be_taken_back_asks_for_a_yes(driver: Driver) -> None:
    body = {"name": "Ada", "email": "ada@example.com", "role": "member"}
    user = (await driver.app.api.write("POST", "/api/users", body, None)).record
    await driver.app.api.write("DELETE", f"/api/users/{user['id']}", None, None)
    await driver.press("4", sees="✕ deactivated")
    await driver.rests()
    driver.view.next_poll_at = float("inf")  # the next page would say that this is test mode
    driver.app.session.saw_livemode(True)
    await driver.press("U", sees=("◆ LIVE · Confirm", "Restore user Ada, ada@example.com?"))
    await driver.press("y", sees="User Ada is active")


async def test_the_payment_of_an_invoice_leads_back_to_it(driver: Driver) -> None:
    await draft_an_invoice(driver)
    await driver.press("F", "y", sees="INV-000001 is open: 12.50 EUR")
    await driver.press("p", "y", sees="INV-000001 is paid: 12.50 EUR")
    await driver.goes_to("2")
    await driver.press("enter", sees=("pays invoice  INV-000001  Ada", "→ The invoice it pays"))
    await driver.press(*["down"] * 4, "enter", sees=("[● paid]", "→ Its payment"))


async def test_a_user_leads_to_the_orders_of_the_user_and_an_order_is_read_by_its_id(driver: Driver) -> None:
    write = driver.app.api.write
    bodies = [{"name": name, "email": f"{name}@x.org", "role": "member"} for name in ("Ada", "Bob")]
    ada, bob = [(await write("POST", "/api/users", body, None)).record for body in bodies]
    for user in (ada, bob):
        order = {"user_id": user["id"], "items": [{"name": user["name"], "unit_amount": 700}]}
        await write("POST", "/api/orders", order, None)
    await driver.goes_to("4")
    await driver.press("down", sees="Bob")
    await driver.press("enter", sees=("orders        1", "→ Order of "))
    await driver.press("down", "down", "enter", sees=("user          Ada", "→ Its user"))


async def test_a_transfer_is_one_form_and_then_the_cursor_is_on_what_the_message_names(
    driver: Driver,
) -> None:
    await driver.app.api.write("POST", "/v1/accounts", {"name": "Safe", "currency": "EUR"}, "s")
    await driver.sees("Safe")
    await driver.press("2", "x")
    await driver.type("till", "enter")
    await driver.type("safe", "enter")
    await driver.type("5", sees=("Moves 5.00 EUR from Till to Safe", "Till is left with −5.00 EUR"))
    await driver.press("ctrl+s", sees=("Transfer?", "Moves 5.00 EUR from Till to Safe"))
    await driver.type("5.00", "enter", sees="Moved 5.00 EUR from Till to Safe; Till is left")
    await driver.sees("2 of 2", "−5.00  EUR  Till", "+5.00  EUR  Safe")
    named = driver.view.selected or {}
    assert named["account"] == driver.app.names.search("till")[0].id


async def test_a_transfer_from_an_account_leaves_the_cursor_there(driver: Driver) -> None:
    await driver.app.api.write("POST", "/v1/accounts", {"name": "Safe", "currency": "EUR"}, "s")
    await driver.sees("Safe")
    await driver.press("down", "x", sees="Till · EUR")
    await driver.type("safe", "enter")
    await driver.type("5", "ctrl+s", sees="Transfer?")
    await driver.type("5.00", "enter", sees=("Moved 5.00 EUR from Till to Safe", "−5.00  EUR", "5.00  EUR"))
    assert (driver.view.selected or {})["name"] == "Till"


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        (["P"], "There is no account here to show."),
        (["space"], "There is no account here to mark."),
        (["less_than_sign"], "The list and the detail are not side by side"),
        (["6", "L"], "There is no refresh token"),
        (["6", "U"], "The API key is in use already."),
        (["1", "F"], "F works on another screen: finalize (3 Invoices)."),
        (["6", "v"], "v works on another screen: void (3 Invoices)."),
    ],
)
async def test_a_greyed_key_says_why(
    server: ContractServer, dashboards: Dashboards, keys: list[str], reason: str
) -> None:
    async with dashboards.open(size=(80, 24)) as driver:
        await driver.press(*keys, sees=reason)


async def test_a_question_names_its_keys_also_after_a_capital_letter(driver: Driver) -> None:
    await draft_an_invoice(driver)
    await driver.press("F", sees="Finalize ")
    await driver.press("N", sees="Press y to confirm, n to cancel.")
    await driver.press("n")
    driver.turn_live()
    await driver.press("F", sees=("Type 12.5", "⏎ confirm", "esc no"))


async def test_a_question_removes_the_messages_above_it(driver: Driver) -> None:
    await draft_an_invoice(driver)
    driver.app.notify("A newer row came under the cursor.")
    await driver.sees("A newer row")
    await driver.press("F", sees="Finalize ", gone="A newer row")


async def test_the_bar_of_a_form_names_the_key_that_goes_back(driver: Driver) -> None:
    await driver.press("1", "n", sees="shift+tab previous field")
