"""An invoice with lines, entered and edited by keyboard on the smallest screen."""

from textual.widgets import Input

from ledger_tui.server.embedded import Address
from tests.ledger_tui.conftest import dashboard_on
from tests.ledger_tui.driving import until


async def test_lines_are_entered_summed_removed_sent_and_edited(own_project: Address) -> None:
    async with dashboard_on(own_project, (80, 24)) as driver:
        await driver.sees("● online")
        account = await driver.app.api.write("POST", "/v1/accounts", {"name": "Till", "currency": "EUR"}, "a")
        await until(lambda: driver.app.names.search("till"))
        await driver.press("3", "n", sees=("New invoice", "^n adds a line", "Amount *"))
        await driver.type("till", "enter")
        await driver.type("Ada", "enter", "ctrl+n", sees=("unit amount", "sum 0.00 EUR"))
        assert "Amount *" not in driver.text()  # one of them is sent, so one can be typed
        await driver.type("Beans", "tab", "delete")
        await driver.type("2", "tab")
        await driver.type("12.5", sees="sum 25.00 EUR")
        await driver.press("ctrl+n")
        await driver.type("Mug", "tab", "tab")
        await driver.type("7", sees="sum 32.00 EUR")
        await driver.press("ctrl+n")
        await driver.type("Slip", sees=("sum 32.00 EUR + 1 not complete", "Due", "Description", "^s send"))
        await driver.press("ctrl+s", sees="✕ Line 3: A unit amount is required.")
        assert driver.app.focused is [*driver.app.screen.query(".unit-amount").results(Input)][2]
        await driver.press("ctrl+r", gone="Slip")
        await driver.press("ctrl+s", sees=("The invoice for Ada is a draft: 32.00 EUR", "32.00  EUR  Ada"))
        beans = {"description": "Beans", "quantity": 2, "unit_amount": 1250}
        mug = {"description": "Mug", "quantity": 1, "unit_amount": 700}
        record = driver.view.selected or {}
        assert (record["lines"], record["account"]) == ([beans, mug], account.record["id"])

        await driver.press("e", sees=("Edit the draft", "sum 32.00 EUR"))
        await driver.press("tab", "tab", "ctrl+r", "ctrl+s", sees=("is a draft: 7.00 EUR", "7.00  EUR  Ada"))
        assert (driver.view.selected or {})["lines"] == [mug]

        await driver.press("e", "tab", "tab", "ctrl+r", sees="Amount *")
        assert driver.app.focused is driver.app.screen.query_one("#field-amount", Input)
        await driver.type("3", "ctrl+s", sees=("is a draft: 3.00 EUR", "3.00  EUR  Ada"))
        assert (driver.view.selected or {})["lines"] is None


async def test_an_empty_line_is_reported_and_the_focus_is_in_it(own_project: Address) -> None:
    async with dashboard_on(own_project, (80, 24)) as driver:
        await driver.sees("● online")
        await driver.app.api.write("POST", "/v1/accounts", {"name": "Till", "currency": "EUR"}, "a")
        await until(lambda: driver.app.names.search("till"))
        await driver.press("3", "n", sees="New invoice")
        await driver.type("till", "enter")
        await driver.type("Ada", "enter", "ctrl+n", sees="sum 0.00 EUR")
        await driver.press("ctrl+s", sees="✕ Line 1: A description is required.")
        assert driver.app.focused is driver.app.screen.query(".description").results(Input).__next__()
        await driver.type("Beans", "tab", gone="✕ Line 1")


async def test_an_error_counts_the_blank_lines_above_its_line(own_project: Address) -> None:
    async with dashboard_on(own_project, (80, 24)) as driver:
        await driver.sees("● online")
        await driver.app.api.write("POST", "/v1/accounts", {"name": "Till", "currency": "EUR"}, "a")
        await until(lambda: driver.app.names.search("till"))
        await driver.press("3", "n", sees="New invoice")
        await driver.type("till", "enter")
        await driver.type("Ada", "enter", "ctrl+n", "ctrl+n")
        await driver.type("Beans", "ctrl+s", sees="✕ Line 2: A unit amount is required.")
        await driver.type("7", "ctrl+s", sees="The invoice for Ada is a draft: 7.00 EUR")


async def test_an_error_goes_with_the_line_that_it_is_about(own_project: Address) -> None:
    async with dashboard_on(own_project, (80, 30)) as driver:
        await driver.sees("● online")
        await driver.app.api.write("POST", "/v1/accounts", {"name": "Till", "currency": "EUR"}, "a")
        await until(lambda: driver.app.names.search("till"))
        await driver.press("3", "n", sees="New invoice")
        await driver.type("till", "enter")
        await driver.type("Ada", "enter", "ctrl+s", sees="✕ Give amount or lines.")
        await driver.press("ctrl+n", sees="sum 0.00 EUR", gone="Give amount or lines.")
        await driver.press("ctrl+s", sees="✕ Line 1: A description is required.")
        await driver.press("ctrl+r", sees="Amount *", gone="✕")
        await driver.press("ctrl+n", "ctrl+n", sees="sum 0.00 EUR")
        await driver.press("ctrl+s", sees="✕ Line 1: A description is required.")
        await driver.type("Beans", "down")
        await driver.type("Mug", "ctrl+s", sees="✕ Line 1: A unit amount is required.")
        await driver.press("ctrl+r", gone="Beans")
        await driver.sees("✕ Line 1: A unit amount is required.")  # of the line that was the second
        await driver.press("ctrl+r", sees="Amount *", gone="✕")


async def test_the_refusal_of_a_form_goes_when_a_field_changes(own_project: Address) -> None:
    async with dashboard_on(own_project, (80, 30)) as driver:
        await driver.sees("● online")
        till = (
            await driver.app.api.write("POST", "/v1/accounts", {"name": "Till", "currency": "EUR"}, "a")
        ).record
        body = {"account": till["id"], "customer": "Ada", "amount": 1000}
        await driver.app.api.write("POST", "/v1/invoices", body, "i")
        await driver.press("3", sees="○ draft")
        await driver.press("e", sees="Edit the draft")
        await driver.press("ctrl+s", sees="✕ Nothing was changed.")
        await driver.press("tab")
        await driver.sees("✕ Nothing was changed.")
        await driver.type("m", gone="✕ Nothing was changed.")


async def test_enter_stays_in_a_unit_amount_that_is_wrong(own_project: Address) -> None:
    async with dashboard_on(own_project, (80, 30)) as driver:
        await driver.sees("● online")
        await driver.app.api.write("POST", "/v1/accounts", {"name": "Till", "currency": "EUR"}, "a")
        await until(lambda: driver.app.names.search("till"))
        await driver.press("3", "n", sees="New invoice")
        await driver.type("till", "enter")
        await driver.type("Ada", "enter", "ctrl+n", sees="unit amount")
        await driver.type("Mug", "tab", "tab")
        await driver.type("1.2.3", "enter", sees="✕ Line 1: ")
        await driver.press("backspace", "backspace", "enter", sees="sum 1.20 EUR", gone="✕ Line 1: ")
        assert not driver.app.screen.query_one("LinesField").has_focus_within
