"""If several keys come in one read, each acts as if the user had waited for the effect of the previous
key.
"""

import time
from pathlib import Path

import pytest
from textual import events
from textual.widgets import Input

from ledger_tui.forms.form_screen import FormScreen
from tests.ledger_tui.conftest import Dashboards
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver, key_event, until


@pytest.mark.parametrize("opens", ["slash", "n"])
async def test_keys_after_a_key_that_opens_a_line_are_typed_into_it(bare: Driver, opens: str) -> None:
    await bare.burst(opens, *"quite \U0001f469\u200d\U0001f467")
    line = bare.app.focused
    assert isinstance(line, Input)
    assert line.value == "quite \U0001f469\u200d\U0001f467"  # with what joins the emoji


async def test_a_form_is_opened_filled_and_sent_in_one_burst(
    server: ContractServer, dashboards: Dashboards
) -> None:
    async with dashboards.open() as driver:
        await driver.burst("n", *"Beans", "tab", *"eur", "enter", *"8", "backspace", "ctrl+s")
        await driver.sees("Account Beans exists: EUR")
    assert [(a["name"], a["currency"], a["metadata"]) for a in server.accounts] == [("Beans", "EUR", {})]


async def test_an_id_is_jumped_to_in_one_burst(server: ContractServer, dashboards: Dashboards) -> None:
    account = server.add_account()
    server.post(account, 100)
    async with dashboards.open() as driver:
        await driver.press("2", sees="Till")
        await driver.burst("i", "q")  # which closes the choice, and not the dashboard
        await driver.burst("i", "enter")
        await until(lambda: driver.view.place.kind == "accounts" and driver.view.opened)


async def test_text_that_is_pasted_keeps_its_place_among_the_keys(
    server: ContractServer, dashboards: Dashboards
) -> None:
    async with dashboards.open() as driver:
        driver.app.post_message(events.Key("n", "n"))
        driver.app.post_message(events.Paste("Beans"))
        await driver.burst("tab", *"eur", "ctrl+s")
        await driver.sees("Account Beans exists: EUR")
    assert [a["name"] for a in server.accounts] == ["Beans"]


async def test_keys_that_come_while_the_machine_is_busy_wait_for_the_form_that_opens(
    server: ContractServer, dashboards: Dashboards, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.add_account("Card sales")
    server.add_account("Till")
    show = FormScreen._show_amount_or_lines  # part of the opening, before a field takes the focus

    def open_slowly(form: FormScreen) -> None:
        for key in "Card":
            form.app.post_message(key_event(key))
            time.sleep(0.6)  # nothing of the dashboard runs
        show(form)

    monkeypatch.setattr(FormScreen, "_show_amount_or_lines", open_slowly)
    async with dashboards.open() as driver:
        await driver.press("x", sees="To *           Card ")
        await driver.sees("From *         Till ")


async def test_a_part_that_hangs_does_not_lock_the_keyboard(
    server: ContractServer, dashboards: Dashboards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger_tui.ui.handlers._BEATS", 1)
    async with dashboards.open() as driver:
        table = driver.view.table
        monkeypatch.setattr(table, "call_later", lambda *_arguments: True)  # nobody comes back from it
        driver.app.post_message(events.Key("j", "j"))
        driver.app.post_message(events.Key("question_mark", "?"))
        await until(lambda: len(driver.app.screen_stack) == 2)


# ---------------------------------------------------------------------- dialogs


async def live_question(server: ContractServer, driver: Driver) -> str:
    """Open the question before voiding an invoice in live mode; return the amount that is to be typed."""
    await driver.press("3", "slash")
    await driver.type(server.invoices[0]["id"], "enter", sees="v void")
    await driver.press("v", sees="◆ LIVE · Confirm")
    return "1.00"


async def test_enter_twice_in_a_live_question_does_it_once(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.key = "sk_live_0123456789abcdefghijklmnopqrstuv"
    account = server.add_account()
    invoice = {"object": "invoice", "status": "open", "account": account["id"], "customer": "Eve"}
    server.invoices.append({"id": server.new_id("inv"), **invoice, "amount": 100, "currency": "EUR"})
    async with dashboards.open() as driver:
        driver.app.screen.query_one(Input).value = await live_question(server, driver)
        await driver.burst("enter", "enter")
        await driver.sees(" is void")
    assert [method for method, _path, _args in server.requests].count("DELETE") == 1


async def test_enter_three_times_in_a_choice_chooses_once(
    server: ContractServer, dashboards: Dashboards, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LEDGER_TUI_CONFIG", str(tmp_path / "config.toml"))
    async with dashboards.open() as driver:
        await driver.press("ctrl+t", sees="Themes")
        await driver.burst("down", "enter", "enter", "enter")
        assert driver.app.screen is driver.app.dashboard
        assert driver.app.theme == "ledger-light"


async def test_a_dialog_that_is_closed_twice_closes_nothing_else(bare: Driver) -> None:
    await bare.press("n")
    form = bare.app.screen
    await bare.press("ctrl+p")  # over a dialog there is no palette
    assert bare.app.screen is form
    assert isinstance(form, FormScreen)
    form.dismiss(None)
    form.dismiss(None)
    await bare.pilot.pause()
    assert bare.app.screen is bare.app.dashboard


async def test_after_the_question_what_is_typed_goes_on_in_the_form(bare: Driver) -> None:
    await bare.press("n")
    await bare.type("Hello", "escape")
    await bare.burst(*"wonderland")  # `w` and `o` answer nothing, `n` answers no
    form = bare.app.screen
    assert isinstance(form, FormScreen)
    assert form.typed()["name"] == "Helloderland"
    await bare.press("escape", "y", "escape")
    assert bare.app.screen is bare.app.dashboard


async def test_a_yes_that_was_pressed_before_the_question_was_drawn_does_not_count(
    server: ContractServer, dashboards: Dashboards
) -> None:
    account = server.add_account()
    invoice = {"object": "invoice", "status": "open", "account": account["id"], "customer": "Eve"}
    server.invoices.append({"id": server.new_id("inv"), **invoice, "amount": 100, "currency": "EUR"})
    async with dashboards.open() as driver:
        await driver.press("3", "slash")
        await driver.type(server.invoices[0]["id"], "enter", sees="v void")
        await driver.burst("v", "y")
        await driver.sees("Void ", "Press y again: the question had not been shown yet.")
        assert "DELETE" not in [method for method, _path, _args in server.requests]
        await driver.press("y", sees=" is void")


async def test_an_amount_that_was_typed_before_the_question_was_drawn_does_not_confirm_it(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.key = "sk_live_0123456789abcdefghijklmnopqrstuv"
    account = server.add_account()
    invoice = {"object": "invoice", "status": "open", "account": account["id"], "customer": "Eve"}
    server.invoices.append({"id": server.new_id("inv"), **invoice, "amount": 100, "currency": "EUR"})
    async with dashboards.open() as driver:
        await driver.press("3", "slash")
        await driver.type(server.invoices[0]["id"], "enter", sees="v void")
        await driver.burst("v", *"1.00", "enter")
        await driver.sees("to confirm, then press enter", "Type it again: the question had not been shown")
        assert driver.app.screen.query_one(Input).value == ""
        assert "DELETE" not in [method for method, _path, _args in server.requests]
        await driver.type("1.00", "enter", sees=" is void")


def keys_apart(key: str, *seconds: float) -> list[events.Key]:
    """Return presses of one key, one at each of these times in seconds from now."""
    presses = [key_event(key) for _ in seconds]
    for event, moment in zip(presses, seconds, strict=True):
        event.time += moment
    return presses


async def test_a_key_that_repeats_an_answer_does_not_act_on_the_screen_below(with_till: Driver) -> None:
    async def take(*presses: events.Key) -> None:
        for event in presses:
            with_till.app.post_message(event)
        await with_till.burst()

    await with_till.press("n")
    await with_till.type("Safe", "escape", sees="Leave the form?")
    # the user holds the key down, and presses it again later
    *held, later = keys_apart("y", 0.0, 0.9, 1.8, 3.0)
    await take(*held)
    assert with_till.app.screen is with_till.app.dashboard
    assert with_till.app.clipboard == ""
    await take(later)
    await with_till.sees("Copied acc_")

    await with_till.press("n")
    await with_till.type("Safe", "escape", sees="Leave the form?")
    await with_till.burst("n", "n", "b")
    form = with_till.app.screen
    assert isinstance(form, FormScreen)
    assert form.typed()["name"] == "Safeb"
