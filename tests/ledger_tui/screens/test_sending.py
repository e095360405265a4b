"""While a form is being sent, most keys wait; afterwards it reports every outcome."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from textual.events import Paste

from ledger_tui.app.application import LedgerApp
from ledger_tui.forms.fields import FieldChanged
from ledger_tui.forms.form_screen import FormScreen
from ledger_tui.settings.config import Options
from ledger_tui.ui.dialogs import ShownOnceScreen
from tests.ledger_tui.conftest import Dashboards
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver, key_event, until
from tests.ledger_tui.line import Line


@asynccontextmanager
async def account_form(server: ContractServer) -> AsyncIterator[tuple[Driver, Line]]:
    """Open a filled form for an account, on a connection that can hold and lose answers."""
    async with Line(server.port) as line:
        app = LedgerApp(Options(url=line.url, key=server.key))
        async with app.run_test(notifications=True) as pilot:
            driver = Driver(app, pilot)
            await until(lambda: driver.view.model.window.loaded)
            await driver.connects()
            await driver.press("n")
            await driver.type("Till", "tab")
            await driver.type("EUR")
            yield driver, line


def form_of(driver: Driver) -> FormScreen:
    form = driver.app.screen
    assert isinstance(form, FormScreen)
    return form


def posts(server: ContractServer) -> int:
    return [method for method, _path, _args in server.requests].count("POST")


async def test_a_form_on_its_way_is_not_left_without_a_word(server: ContractServer) -> None:
    async with account_form(server) as (driver, line):
        line.hold.clear()
        await driver.press("ctrl+s")
        await until(lambda: posts(server))
        await driver.press("escape", sees="It was sent and may still succeed.")
        await driver.press("x", sees="may still succeed")
        await driver.press("n", gone="may still succeed")
        await driver.press(
            "escape", "y", sees="The change may have been made: check before you send it again."
        )
        assert driver.app.screen is driver.app.dashboard


async def test_the_answer_closes_the_question_whether_to_leave_without_it(server: ContractServer) -> None:
    async with account_form(server) as (driver, line):
        line.hold.clear()
        await driver.press("ctrl+s", "escape", sees="may still succeed")
        line.hold.set()
        await driver.sees("Account Till exists")
        assert driver.app.screen is driver.app.dashboard


async def test_so_does_a_refusal_and_the_form_is_there_to_go_on(server: ContractServer) -> None:
    async with account_form(server) as (driver, line):
        await driver.type("X")
        line.hold.clear()
        await driver.press("ctrl+s", "escape", sees="may still succeed")
        line.hold.set()
        await driver.sees("✕ That is no currency.")
        await driver.press("backspace")
        assert form_of(driver).typed()["currency"] == "EUR"


async def test_a_request_held_back_by_the_rate_limit_is_taken_back(
    server: ContractServer, dashboards: Dashboards
) -> None:
    async with dashboards.open() as driver:
        await driver.press("n")
        await driver.type("Till", "tab")
        await driver.type("EUR")
        await driver.rests()
        driver.app.session.rate_limited(60)
        await driver.press("ctrl+s", sees="Waiting for the rate limit; esc cancels.")
        await driver.press("escape", sees="Nothing was sent.")
        assert form_of(driver).typed()["name"] == "Till"
        await driver.type("O")  # and it goes on where it was
        assert form_of(driver).typed()["currency"] == "EURO"
    assert posts(server) == 0


async def test_nothing_can_be_changed_while_it_is_sent(server: ContractServer) -> None:
    async with account_form(server) as (driver, line):
        await driver.rests()
        driver.view.next_poll_at = float("inf")  # the next to be answered is the form
        server.refuse(400, {"error": {"code": "invalid_value", "message": "Not so.", "param": "currency"}})
        line.hold.clear()
        await driver.press("ctrl+s")
        await driver.type("X", "shift+tab")
        await driver.type("Y", sees="Sending…")
        assert form_of(driver).typed() == {"name": "Till", "currency": "EUR", "metadata": ""}
        line.hold.set()
        await driver.sees("✕ Not so.")
        await driver.press("tab", "end")
        await driver.type("X")
        assert form_of(driver).typed()["currency"] == "EURX"


async def test_a_change_after_a_lost_answer_is_not_reported_as_done(server: ContractServer) -> None:
    async with account_form(server) as (driver, line):
        line.swallows_answers = True
        await driver.press("ctrl+s", sees="Sending again is safe")
        line.swallows_answers = False
        await driver.press("escape", sees="Leave the form? The change may have been made.")
        await driver.press("n", "backspace")
        await driver.type("X", "ctrl+s")
        await driver.sees("Already done. Account Till exists: EUR", "Your later changes were not")
        await driver.press("ctrl+s", "escape")
        assert driver.app.screen is driver.app.dashboard
        await driver.sees("Already done. Account Till exists: EUR")
    assert [account["currency"] for account in server.accounts] == ["EUR"]
    assert posts(server) == 2


async def test_a_secret_in_a_lost_answer_is_reported(driver: Driver) -> None:
    await driver.press("9", "n", sees="New API key")
    form = form_of(driver)
    await driver.app.api.write(
        "POST", "/v1/api_keys", {"role": "admin"}, form.submission.idempotency_key
    )  # as it is with the answer lost
    await driver.press(
        "ctrl+s",
        sees=("Already done. An earlier try succeeded", "Its key cannot be", "roll it to get another"),
    )
    await driver.press("escape")
    assert driver.app.screen is driver.app.dashboard


async def test_of_two_tries_that_differ_it_is_not_claimed_which_was_done(server: ContractServer) -> None:
    async with account_form(server) as (driver, line):
        line.swallows_answers = True
        await driver.press("ctrl+s", sees="Sending again is safe")
        await driver.type("X", "ctrl+s")
        await until(lambda: posts(server) == 2)
        await driver.sees("Sending again is safe")
        line.swallows_answers = False
        await driver.press(
            "ctrl+s", sees=("You changed the form between", "two attempts: check which one took effect.")
        )


async def test_an_answer_that_is_no_ledgers_keeps_the_form(server: ContractServer, bare: Driver) -> None:
    await bare.press("n")
    await bare.type("Till", "tab")
    await bare.type("EUR")
    await bare.rests()
    bare.view.next_poll_at = float("inf")  # the next to be answered is the form
    for body in ({}, {"hello": "world"}, {"id": "acct-1"}):
        server.refuse(200, body)
        await bare.press("ctrl+s", sees=("✕ This is not a ledger's answer.", "Sending again"))
        assert not server.misfortunes
    await bare.press("ctrl+s", sees="Account Till exists: EUR")


async def test_a_fields_error_is_shown_however_fast_the_form_was_sent(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.post(server.add_account("Till", "EUR"), 100)
    async with dashboards.open() as driver:
        await driver.press("2", sees="Till")
        await driver.lists_only(server.accounts[0])
        await driver.press("n", "tab")
        await driver.burst(*"abc", "ctrl+s")
        await driver.sees("✕ Write")
        form_of(driver).post_message(FieldChanged("field-amount"))  # of what was typed before it was sent
        await driver.pilot.pause()
        assert "✕ Write" in driver.text()
        await driver.press("backspace", gone="✕ Write")


async def test_an_unknown_user_is_reported_at_the_field(driver: Driver) -> None:
    await driver.press("5", "n")
    await driver.type("usr_nobody", "tab")
    await driver.type("Beans", "ctrl+s")
    error = form_of(driver).query_one("#error-user_id")
    await until(lambda: error.display)
    await driver.sees("✕ No such user: 'usr_nobody'.")


async def test_ctrl_c_in_a_half_typed_form_asks_like_esc_and_a_second_one_leaves(
    server: ContractServer,
) -> None:
    async with account_form(server) as (driver, _line):
        await driver.press("end", "ctrl+c", sees="Leave the form? What you typed is lost.")
        await driver.press("n", gone="Leave the form?")  # end: with a selection, ctrl+c would copy
        assert form_of(driver).typed()["name"] == "Till"
        await driver.press("ctrl+c", sees="Leave the form?")
        await driver.press("ctrl+c", gone="New account")
        assert driver.app.screen is driver.app.dashboard
        assert driver.app.is_running


async def test_ctrl_q_in_a_half_typed_form_quits_only_after_a_question_that_names_it(
    server: ContractServer,
) -> None:
    async with account_form(server) as (driver, _line):
        question = "Quit the dashboard? What you typed is lost."
        await driver.press("ctrl+q", sees=(question, "y quit   esc stay"))
        await driver.press("escape", gone=question)
        await driver.press("escape", sees="Leave the form?")
        await driver.press("ctrl+q", sees=question, gone="Leave the form?")
        await driver.press("n", gone=question)
        assert form_of(driver).typed()["name"] == "Till"
        await driver.press("ctrl+q", sees=question)
        driver.app.post_message(key_event("ctrl+q"))
        await until(lambda: not driver.app.is_running)


async def test_ctrl_c_cancels_a_question_before_sending(server: ContractServer) -> None:
    server.add_account("Safe")
    async with account_form(server) as (driver, _line):
        driver.turn_live()
        await driver.press("ctrl+s", sees="New account, in LIVE mode?")
        await driver.press("ctrl+c", sees="Nothing was sent.")
        assert form_of(driver).typed()["name"] == "Till"


async def test_ctrl_q_while_a_form_is_sent_asks(server: ContractServer) -> None:
    async with account_form(server) as (driver, line):
        line.hold.clear()
        await driver.press("ctrl+s")
        await until(lambda: posts(server))
        await driver.press("ctrl+q", sees="Quit the dashboard? It was sent and may still succeed.")
        await driver.press("x", sees="Press y to quit, n to stay.")
        await driver.press("n", gone="may still succeed")
        line.hold.set()
        await driver.sees("Account Till exists")


async def test_ctrl_q_asks_before_a_secret_is_gone_that_is_shown_once(server: ContractServer) -> None:
    async with account_form(server) as (driver, _line):
        driver.app.push_screen(ShownOnceScreen("The key", "sk_test_1"))
        await driver.press("ctrl+q", sees="Quit the dashboard? The secret cannot be shown again.")
        await driver.press("n", sees="sk_test_1")


async def test_a_form_that_is_sent_warns_that_it_drops_keys_and_pasted_text(server: ContractServer) -> None:
    async with account_form(server) as (driver, line):
        line.hold.clear()
        await driver.press("ctrl+s")
        await until(lambda: posts(server))
        await driver.press("x", sees="takes no text until you press tab")
        driver.app.clear_notifications()
        await driver.sees_no_more("takes no text until you press tab")
        driver.app.post_message(Paste("Till west"))
        await driver.sees("takes no text until you press tab")
        line.hold.set()
        await driver.sees("Account Till exists")


async def test_of_a_text_typed_during_a_request_that_is_refused_no_letter_is_kept(
    server: ContractServer,
) -> None:
    async with account_form(server) as (driver, line):
        await driver.type("X")
        line.hold.clear()
        await driver.press("ctrl+s")
        await driver.type("ab", sees="takes no text until you press tab")
        line.hold.set()
        await driver.sees("✕ That is no currency.")
        await driver.type("cd", sees="takes no text until you press tab")
        assert form_of(driver).typed() == {"name": "Till", "currency": "EURX", "metadata": ""}
        await driver.press("tab", gone="takes no text until you press tab")
        await driver.press("end", "backspace")
        assert form_of(driver).typed()["currency"] == "EUR"


async def test_a_form_that_takes_no_text_takes_text_again_after_a_question(server: ContractServer) -> None:
    async with account_form(server) as (driver, line):
        await driver.type("X")
        line.hold.clear()
        await driver.press("ctrl+s")
        await driver.type("ab", sees="takes no text until you press tab")
        line.hold.set()
        await driver.sees("✕ That is no currency.")
        await driver.press("escape", sees="Leave the form?", gone="takes no text until you press tab")
        await driver.press("n", "end", "backspace")
        assert form_of(driver).typed()["currency"] == "EUR"


async def test_after_a_transfer_that_is_not_confirmed_the_form_takes_text(server: ContractServer) -> None:
    server.add_account("Safe"), server.add_account("Main till")
    async with Line(server.port) as line:
        app = LedgerApp(Options(url=line.url, key=server.key))
        async with app.run_test(notifications=True) as pilot:
            driver = Driver(app, pilot)
            await until(lambda: driver.view.model.window.loaded)
            await driver.connects()
            await driver.press("x", sees="To *")
            await driver.type("safe" if "Main till · EUR" in driver.text() else "main", "down", "enter")
            await driver.type("5")
            await driver.rests()
            line.hold.clear()  # the form reads the balance before it asks
            await driver.press("ctrl+s")
            await driver.type("ab", sees="takes no text until you press tab")
            line.hold.set()
            await driver.sees("Transfer?")
            await driver.sees_no_more("takes no text until you press tab")
            await driver.press("escape", sees="Nothing was sent.")
            await driver.type("7")
            assert form_of(driver).typed()["amount"] == "57"


async def test_the_warning_of_a_form_goes_with_the_form(server: ContractServer) -> None:
    async with account_form(server) as (driver, line):
        await driver.type("X")
        line.hold.clear()
        await driver.press("ctrl+s")
        await driver.type("ab", sees="takes no text until you press tab")
        line.hold.set()
        await driver.sees("✕ That is no currency.")
        await driver.press("escape", "y", gone="takes no text until you press tab")
        driver.app.notify("The message of the list.", severity="error")
        await driver.press("n", sees="New account", gone="The message of the list.")


async def test_the_warning_to_look_first_stays_after_the_form(server: ContractServer) -> None:
    async with account_form(server) as (driver, line):
        line.hold.clear()
        await driver.press("ctrl+s")
        await until(lambda: posts(server))
        await driver.press("escape", "y", sees="The change may have been made: check before")


async def test_of_several_pasted_lines_a_field_says_that_it_kept_the_first(server: ContractServer) -> None:
    async with account_form(server) as (driver, _line):
        await driver.press("shift+tab", "end")
        driver.app.post_message(Paste(" east\nBank\n"))
        await driver.sees("Only the first of the 2 pasted lines was taken.")
        await until(lambda: form_of(driver).typed()["name"] == "Till east")
        driver.app.clear_notifications()
        await driver.sees_no_more("pasted lines")
        await driver.press("escape", sees="Leave the form?")
        for key in ("y", "n"):
            driver.app.post_message(key_event(key))
        driver.app.post_message(Paste("\n\nSafe\nBank\n"))  # before a field of the new form has the focus
        await driver.sees("Only the first of the 2 pasted lines was taken.")
        await until(lambda: form_of(driver).typed()["name"] == "Safe")


async def test_pasted_text_loses_its_control_sequences_in_a_field_and_in_the_filter(
    with_till: Driver,
) -> None:
    pasted = "\x1b[31mTi\x1b[0mll\x1b\x00\u202e"
    with_till.app.post_message(key_event("slash"))
    with_till.app.post_message(Paste(pasted))
    await with_till.sees("1 of 1 loaded rows match “Till”")
    await with_till.press("escape", "n")
    with_till.app.post_message(Paste(pasted))
    await until(lambda: form_of(with_till).typed()["name"] == "Till")


async def test_pasted_text_that_no_field_takes_is_reported_and_acts_as_no_key(with_till: Driver) -> None:
    ignored = "Nothing was pasted, because no text field has the focus."
    with_till.app.post_message(Paste("y\nn\nq"))
    await with_till.sees(ignored)
    assert with_till.app.screen is with_till.app.dashboard
    assert with_till.app.clipboard == ""
    with_till.app.clear_notifications()
    await with_till.sees_no_more(ignored)
    await with_till.press("n")
    await with_till.type("Safe", "escape", sees="Leave the form?")
    with_till.app.post_message(Paste("y"))
    await with_till.sees(ignored, "Leave the form?")


async def test_a_list_that_loads_warns_that_it_drops_keys_for_its_rows(server: ContractServer) -> None:
    async with account_form(server) as (driver, line):
        await driver.press("escape", "y")
        await until(lambda: driver.app.screen is driver.app.dashboard)
        line.hold.clear()
        await driver.press("3", "enter", sees="The list is still loading: the key was dropped.")
        driver.app.clear_notifications()
        await driver.sees_no_more("still loading")
        for key in ("F", "ctrl+a", "space"):
            driver.app.clear_notifications()
            await driver.sees_no_more("still loading")
            await driver.press(key, sees="The list is still loading: the key was dropped.")
        line.hold.set()
