"""Forms create one object for each opening, and show errors at their fields."""

import json

import pytest
from textual import events

from ledger_tui.app.application import LedgerApp
from ledger_tui.forms.form_screen import FormScreen
from ledger_tui.settings.config import Options
from tests.ledger_tui.conftest import Dashboards
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver, until
from tests.ledger_tui.line import Line


async def test_an_account_is_created_from_the_keyboard(
    server: ContractServer, dashboards: Dashboards
) -> None:
    async with dashboards.open() as driver:
        await driver.press("n", sees=("New account", "test mode"))
        await driver.type("Beans", "enter")
        await driver.type("eur", "enter")
        await driver.type("team=north", "enter", sees=("Account Beans exists: EUR", "0.00  EUR"))
    assert [(a["name"], a["currency"], a["metadata"]) for a in server.accounts] == [
        ("Beans", "EUR", {"team": "north"})
    ]
    assert len(server.idempotency_keys) == 1


async def test_enter_stays_in_a_field_with_an_error_and_tab_leaves_it(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.add_account("Bank")
    async with dashboards.open() as driver:
        await driver.press("2", "n", sees="Post a transaction")
        await driver.press("enter", sees="✕ Account is required.")
        await driver.type("bank", "enter", "tab", gone="✕ Account")
        await driver.type("1.2.3", "enter", sees="✕ ")
        await driver.press("enter")
        amount = driver.app.screen.query_one("#field-amount")
        assert driver.app.focused is amount
        await driver.type("4", "enter", sees="1.2.34")
        assert driver.app.focused is amount
        await driver.press("tab")
        assert driver.app.focused is not amount


async def test_a_list_of_matches_says_how_many_more_there_are(
    server: ContractServer, dashboards: Dashboards
) -> None:
    for number in range(7):
        server.add_account(f"Till {number}")
    async with dashboards.open() as driver:
        await driver.press("x", sees=("Transfer", "To *"))
        assert "→ To" not in driver.text()
        await driver.press("shift+tab", "ctrl+u")
        await driver.type("till", sees="and 2 more")
        await driver.press("up", "enter", gone="and 2 more")
        assert driver.app.screen.query_one("#field-account Input").value.startswith("Till ")


async def test_a_created_object_stays_selected_when_somebody_else_creates_more(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.add_account("Bank")
    async with dashboards.open() as driver:
        await driver.press("n")
        await driver.type("Beans", "tab")
        await driver.type("eur", "ctrl+s", sees="Account Beans exists: EUR")
        assert (driver.view.selected or {})["name"] == "Beans"  # also before the list has it
        await until(lambda: driver.view.model.window.index_of(server.accounts[-1]["id"]) == 0)
        server.add_account("Foreign")
        await driver.sees("▲ 1 new")
        assert driver.view.model.pinned is None
        assert (driver.view.selected or {})["name"] == "Beans"
        await driver.press("f", sees=("Foreign", "● following"))


async def test_a_key_that_moves_the_cursor_leaves_what_was_created_and_is_not_listed_yet(
    server: ContractServer, dashboards: Dashboards, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.add_account("Bank"), server.add_account("Safe")
    async with dashboards.open() as driver:
        await driver.press("n")
        await driver.type("Beans", "tab")
        monkeypatch.setattr(driver.view.record_list, "poll", lambda: None)
        await driver.type("eur", "ctrl+s", sees="Account Beans exists: EUR")
        assert (driver.view.selected or {})["name"] == "Beans"
        await driver.press("down")
        assert (driver.view.selected or {})["name"] == "Bank"


async def test_a_transaction_is_posted_to_an_account_found_by_its_name(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.add_account("Beans, Berlin", "EUR")
    server.add_account("Kuwait branch", "KWD")
    async with dashboards.open() as driver:
        await until(lambda: driver.app.names.search("kuwait"))
        await driver.press("2", "n")
        await driver.type("kuw", sees="Kuwait branch            KWD")
        await driver.press("enter", sees="Kuwait branch · KWD")
        await driver.press("right", "tab")
        await driver.type("12.5", sees="Debits Kuwait branch 12.500 KWD")
        await driver.press(
            "ctrl+s", sees=("Debits Kuwait branch 12.500 KWD", "Kuwait branch is left with −12.500 KWD")
        )
        await driver.type("y", "enter", sees="✕ The amount does not match.")  # it overdraws the account
        await driver.press("backspace")
        await driver.type("12.500", "enter", sees=("Debited Kuwait branch 12.500 KWD", "−12.500  KWD"))
    assert [(t["amount"], t["type"], t["account"]) for t in server.transactions] == [
        (12500, "debit", server.accounts[1]["id"])
    ]


async def test_n_in_an_open_account_posts_to_it_and_in_the_list_creates_an_account(
    server: ContractServer, dashboards: Dashboards
) -> None:
    till, bank = server.add_account("Main till"), server.add_account("Bank")
    async with dashboards.open((120, 40)) as driver:
        await driver.press("n", sees="New account")
        await driver.press("escape", "down", "enter", sees="n post to this account")
        await driver.press("n", sees=("Post a transaction", "Main till · EUR"))
        await driver.press("tab")
        await driver.type("12.50", "ctrl+s", sees="Credits Main till 12.50 EUR")
        await driver.press("y", sees="Credited Main till 12.50 EUR")
        await driver.press("colon", *"new account", "enter", sees="New account")
        await driver.press("escape", "up", "colon", *"post to", "enter", sees="Bank · EUR")
        await driver.press("tab")
        await driver.type("1", "ctrl+s", sees="Credits Bank 1.00 EUR")
        await driver.press("y", sees="Credited Bank 1.00 EUR")
    posted = [(each["amount"], each["account"]) for each in server.transactions]
    assert posted == [(1250, till["id"]), (100, bank["id"])]


async def test_a_transfer_goes_the_way_that_its_form_says(
    server: ContractServer, dashboards: Dashboards
) -> None:
    till, bank = server.add_account("Main till"), server.add_account("Bank")
    server.post(till, 1250)
    async with dashboards.open() as driver:
        await driver.sees("Main till")
        await driver.press("down", "x")  # on an account: from it
        await driver.sees("Transfer · test mode", "Main till · EUR")
        await driver.type("bank", "enter")
        await driver.type(
            "5", sees=("Moves 5.00 EUR from Main till to Bank", "Main till is left with 7.50 EUR")
        )
        await driver.press("ctrl+s", sees="Transfer?")
        await driver.press("enter", sees="Press y to confirm, n to cancel.")
        await driver.press("y", sees="✕ There is no field destination.")
        sent = next(json.loads(each.body) for each in driver.app.traffic if each.body)
    assert sent == {"account": till["id"], "destination": bank["id"], "amount": 500, "type": "debit"}


async def test_a_transfer_to_an_unknown_account_is_refused_before_the_question(
    server: ContractServer, dashboards: Dashboards
) -> None:
    till = server.add_account("Main till")
    server.add_account("Bank")
    server.post(till, 1250)
    async with dashboards.open() as driver:
        await driver.sees("Main till")
        await driver.press("down", "x", sees="Main till · EUR")
        await driver.type("nobody", "tab", sees="✕ There is no such account.")
        await driver.type("5", "ctrl+s", sees="✕ There is no such account.")
        await driver.press("escape", sees="Leave the form?", gone="Transfer?")
        assert not any(each.body for each in driver.app.traffic)


async def test_a_transfer_to_an_account_of_another_currency_is_refused_with_their_names(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.add_account("Safe"), server.add_account("Main till"), server.add_account("Kuwait branch", "KWD")
    async with dashboards.open() as driver:
        await driver.sees("Main till", "Kuwait branch")
        await driver.press("down", "x", sees="Main till · EUR")
        await driver.type("kuw", "enter", sees="✕ Kuwait branch is in KWD, but Main till is in EUR.")
        await driver.press("backspace", gone="✕ Kuwait")  # the focus has stayed in the field
        await driver.press("tab")
        await driver.type("5", "ctrl+s", sees="✕ Kuwait branch is in KWD, but Main till is in EUR.")


async def test_a_transfer_to_its_own_account_is_refused_in_the_field_before_the_question(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.add_account("Safe"), server.add_account("Operating account"), server.add_account("Safe 2")
    async with dashboards.open() as driver:
        await driver.sees("Operating account")
        await driver.press("down", "x", sees="Operating account · EUR")
        await driver.type("oper", "enter", sees="✕ To must be another account.")
        await driver.press("tab")
        await driver.type("25", "ctrl+s", sees="✕ To must be another account.")
        await driver.rests()
        assert "Moves 25.00" not in driver.text()
        assert driver.app.screen.focused.parent.id == "field-destination"  # type: ignore[union-attr]
    assert not [path for method, path, *_ in server.requests if method == "POST"]


async def test_the_note_of_the_destination_follows_the_account_that_the_money_leaves(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.add_account("Yen box", "JPY"), server.add_account("Yen safe", "JPY"), server.add_account("Till")
    server.add_account("Safe")
    async with dashboards.open() as driver:
        await driver.sees("Till")
        await driver.press("x", sees="Safe · EUR")
        await driver.type(
            "yen", "enter", sees=("No other account in EUR", "✕ To must be another account in EUR.")
        )
        await driver.press("shift+tab", "ctrl+u")
        await driver.type("yen s", "enter", sees="Yen safe · JPY", gone="account in EUR")


async def test_esc_closes_the_list_of_suggestions_before_it_leaves_the_form(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.add_account("Coins in Kiel"), server.add_account("Coins in Berlin"), server.add_account("Till")
    async with dashboards.open() as driver:
        await driver.sees("Till")
        await driver.press("x", sees="Till · EUR")
        await driver.type("coins", sees=("Coins in Kiel            EUR", "esc close the list"))
        await driver.press("escape", gone="Coins in Kiel            EUR")
        await driver.sees("esc cancel", "To *", "coins")
        await driver.press("enter", sees="✕ Several accounts match: choose one.")
        await driver.press("down", sees="Coins in Kiel            EUR")
        await driver.press("escape", "escape", sees="Leave the form?")
        await driver.press("n")
        await driver.press("ctrl+u")
        await driver.type("coi", sees="Coins in Kiel            EUR")
        await driver.press("ctrl+c", sees="Leave the form?")


async def test_enter_stays_in_a_field_whose_name_the_server_does_not_know(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.add_account("Till"), server.add_account("Safe")
    async with dashboards.open() as driver:
        await driver.sees("Till")
        await driver.press("x", sees="Safe · EUR")
        await driver.type("zzz", "enter", sees="✕ There is no such account.")
        assert driver.app.screen.focused.parent.id == "field-destination"  # type: ignore[union-attr]


async def test_a_transfer_offers_only_other_accounts_in_the_currency_of_the_first(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.add_account("Coins in Kuwait", "KWD"), server.add_account("Coins in Kiel")
    server.add_account("Coins in Berlin")
    async with dashboards.open() as driver:
        await driver.sees("Coins in Kiel", "Coins in Kuwait")
        await driver.press("x", sees="Coins in Berlin · EUR")
        await driver.press("down", sees=("Coins in Kiel            EUR", "⏎ choose"))
        await driver.press("enter", sees="Coins in Kiel · EUR")
        await driver.press("shift+tab", "ctrl+u")
        await driver.type("coins", sees="Coins in Kiel            EUR")
        offers = driver.text(driver.app.screen.query_one("#field-destination Offers"))
        assert "Kuwait" not in offers
        assert "Berlin" not in offers
        await driver.type(" in kuw", sees="No other account in EUR has this in its name.")


async def test_without_a_second_account_of_its_currency_an_account_has_no_transfer(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.add_account("Till"), server.add_account("Yen box", "JPY")
    async with dashboards.open() as driver:
        await driver.sees("Yen box")
        await driver.rests()
        assert "x transfer" not in driver.text()
        told = (
            "Yen box is the only account in JPY, and a transfer needs two. Create another first: 1, then n."
        )
        await driver.press("x")
        await until(lambda: told in [each.message for each in driver.app._notifications])
        assert driver.app.screen is driver.app.dashboard
        await driver.press("question_mark", sees=("Not now. Yen box is the only account", "x  transfer"))
        await driver.press("escape")
        server.add_account("Yen safe", "JPY")
        await driver.sees("Yen safe")
        await driver.press("down", sees="x transfer")
        await driver.press("x", sees="Yen box · JPY")


async def test_of_a_long_name_the_notification_has_the_beginning(dashboards: Dashboards) -> None:
    async with dashboards.open() as driver:
        await driver.press("n")
        await driver.type("Beans " * 20, "tab")
        await driver.type("eur", "ctrl+s", sees="Account Beans")
        [shown] = [each.message for each in driver.app._notifications if "exists" in each.message]
    assert "Beans B… exists: EUR" in shown
    assert len(shown) < 90


async def test_a_created_account_that_the_text_leaves_out_is_said_to_be_hidden(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.add_account("Main till")
    async with dashboards.open() as driver:
        await driver.sees("Main till")
        await driver.press("slash")
        await driver.type("till", "enter", sees="“till”")
        await driver.press("n")
        await driver.type("Beans", "tab")
        await driver.type("eur", "ctrl+s", sees="Account Beans exists: EUR · hidden by the filter")


async def test_keys_that_come_in_one_bunch_each_reach_their_field(
    server: ContractServer, dashboards: Dashboards
) -> None:
    async with dashboards.open() as driver:
        await driver.press("n", sees="New account")
        for key in [
            "B",
            "e",
            "a",
            "n",
            "s",
            "tab",
            "e",
            "u",
            "r",
            "enter",
            "a",
            "equals_sign",
            "1",
            "ctrl+s",
        ]:
            character = {"equals_sign": "="}.get(key, key if len(key) == 1 else None)
            driver.app.post_message(events.Key(key, character))
        await driver.sees("Account Beans exists: EUR")
    assert [(a["name"], a["currency"], a["metadata"]) for a in server.accounts] == [
        ("Beans", "EUR", {"a": "1"})
    ]


async def test_a_missing_value_is_reported_at_its_field_and_nothing_is_sent(
    server: ContractServer, dashboards: Dashboards
) -> None:
    async with dashboards.open() as driver:
        await driver.press("n", "ctrl+s", sees=("✕ Name is required.", "✕ Currency is required."))
    assert "POST" not in [method for method, _path, _args in server.requests]


async def test_an_empty_required_field_is_marked_when_you_pass_it_and_tab_leaves_it(bare: Driver) -> None:
    await bare.press("n", "tab", sees="✕ Name is required.")
    assert bare.app.focused is bare.app.screen.query_one("#field-currency")
    await bare.press("shift+tab")
    await bare.type("Beans", gone="✕ Name is required.")
    assert "✕" not in bare.text()  # whoever goes back is not told about the field left
    await bare.press("escape", "y", "2", "n", "tab", sees="✕ Account is required.")


async def test_each_value_is_checked_when_you_leave_its_field(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.add_account("Till east"), server.add_account("Till west"), server.add_account("Yen box", "JPY")
    async with dashboards.open() as driver:
        await until(lambda: driver.app.names.search("west"))
        await driver.press("3", "n")
        await driver.type("till", "tab", sees="✕ Several accounts match: choose one.")
        await driver.press("shift+tab")
        await driver.type("east", "enter", gone="✕")
        await driver.type("Ada", "tab")
        await driver.type("25.555", "tab", sees="✕ EUR has 2 decimals: write an amount like 12.50.")
        await driver.type("31.12.2026", "tab", sees="✕ Write a date like 2026-12-31.")
        assert driver.app.focused is driver.app.screen.query_one("#field-description")
        await driver.press("shift+tab", "home", "shift+end")
        await driver.type("2026-02-30", "tab", sees="✕ There is no day 2026-02-30.")
        await driver.press("shift+tab", "shift+tab", "home", "shift+end")
        await driver.type("25,50", "shift+tab", sees="✕ Write 25.50: a decimal point, not a comma.")
        await driver.press("shift+tab")
        await driver.type("yen", "enter", sees="✕ Write an amount like 1250")
    assert "POST" not in [method for method, _path, _args in server.requests]


async def test_a_refusal_that_begins_with_a_name_of_the_interface_shows_the_label(
    server: ContractServer, bare: Driver
) -> None:
    await bare.press("n")
    await bare.type("Beans", "tab")
    await bare.type("eur")
    await bare.rests()
    bare.view.next_poll_at = float("inf")  # the next to be answered is the form
    error = {"code": "invalid_value", "message": "metadata must be small.", "param": "metadata"}
    server.refuse(400, {"error": error})
    await bare.press("ctrl+s", sees="✕ Metadata must be small.")


async def test_the_hint_of_the_amount_follows_the_currency_of_the_account(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.add_account("Tokyo shop", "JPY"), server.add_account("Kuwait branch", "KWD")
    async with dashboards.open() as driver:
        await until(lambda: driver.app.names.search("kuwait"))
        await driver.press("2", "n", sees="in the currency of the account")
        await driver.type("tok", "enter", sees="1250, in JPY")
        await driver.press("shift+tab")
        await driver.type("kuw", "enter", sees="12.500, in KWD")


async def test_a_refusal_is_shown_at_the_field_that_the_server_names(bare: Driver) -> None:
    await bare.press("n")
    await bare.type("Beans", "tab")
    await bare.type("xxy", "ctrl+s", sees="✕ That is no currency.")
    assert bare.app.focused is bare.app.screen.query_one("#field-currency")
    # The refused try took no key: the same form goes through once it is right.
    await bare.press("home", "shift+end")
    await bare.type("eur", "ctrl+s", sees="Account Beans exists: EUR")


async def test_an_amount_the_currency_cannot_hold_is_refused_before_sending(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.post(server.add_account("Tokyo shop", "JPY"), 100)
    async with dashboards.open() as driver:
        await driver.press("2", sees="Tokyo shop")
        await driver.lists_only(server.accounts[0])
        await driver.press("n", sees="Tokyo shop · JPY")
        await driver.press("tab")
        await driver.type("12.50", "ctrl+s", sees="✕ JPY has no decimals: write an amount like 1250.")
    assert len(server.transactions) == 1


async def test_an_unknown_account_is_reported_at_its_field(
    server: ContractServer, dashboards: Dashboards
) -> None:
    async with dashboards.open() as driver:
        await driver.press("2", "n")
        await driver.type("acc_nobody", "tab", "tab")
        await driver.type("5", "ctrl+s", sees="✕ There is no such account.")
    assert not server.transactions


async def test_a_form_marks_every_wrong_field_when_it_is_sent(
    server: ContractServer, dashboards: Dashboards
) -> None:
    source, _target = server.add_account("Source"), server.add_account("Target")
    server.post(source, 100)
    async with dashboards.open() as driver:
        await driver.press("2", sees="Source")
        await driver.lists_only(source)
        await driver.press("x", sees="Transfer")
        await driver.type("25.50", "tab", sees="✕ There is no such account. Type part of its name.")
        await driver.type("test", "ctrl+s")
        form = driver.app.screen
        assert isinstance(form, FormScreen)
        await until(lambda: not form.working and driver.text().count("✕") == 2, "both errors")
        await driver.sees("✕ Write an amount like", "✕ There is no such account. Type part of its name.")
        await driver.press("shift+home", "backspace", gone="There is no such account")
        await driver.sees("✕ Write an amount like")
        await driver.press("ctrl+s", sees="✕ To is required.")
        await driver.sees("✕ Write an amount like")
    assert len(server.transactions) == 1


async def test_a_part_this_server_lacks_is_reported_at_its_field(
    server: ContractServer, dashboards: Dashboards
) -> None:
    source, target = server.add_account("Source"), server.add_account("Target")
    server.post(source, 1000)
    async with dashboards.open() as driver:
        await driver.press("2", sees="Source")
        await driver.lists_only(source)
        await driver.press("x")
        await driver.type(str(target["id"]), "tab")
        await driver.type("5", "ctrl+s", sees="Transfer?")
        await driver.press("y", sees="✕ There is no field destination.")
    assert len(server.transactions) == 1


async def test_a_lost_answer_and_a_second_try_post_once(server: ContractServer) -> None:
    account = server.add_account("Till", "EUR")
    async with Line(server.port) as line:
        app = LedgerApp(Options(url=line.url, key=server.key))
        async with app.run_test(notifications=True) as pilot:
            driver = Driver(app, pilot)
            await until(lambda: app.names.get(account["id"]))
            await driver.press("2", "n")
            await driver.type("till", "enter", "tab")
            await driver.type("7.50")
            line.swallows_answers = True
            await driver.press("ctrl+s", sees="Post a transaction?")
            await driver.press("y", sees="Sending again is safe")
            line.swallows_answers = False
            await driver.press("ctrl+s", sees=("Post a transaction?", "Credits Till 7.50 EUR"))
            assert "then holds" not in driver.text()  # the first try may have changed the balance
            await driver.press("y", sees=("Already done. An earlier try succeeded", "+7.50  EUR"))
    assert [t["amount"] for t in server.transactions] == [750]


async def test_sending_twice_at_once_sends_once(server: ContractServer) -> None:
    async with Line(server.port) as line:
        app = LedgerApp(Options(url=line.url, key=server.key))
        async with app.run_test(notifications=True) as pilot:
            driver = Driver(app, pilot)
            await until(lambda: driver.view.model.window.loaded)
            await driver.press("n")
            await driver.type("Till", "tab")
            await driver.type("EUR")
            line.hold.clear()
            await driver.press("ctrl+s", "ctrl+s", "ctrl+s")
            line.hold.set()
            await driver.sees("Account Till exists: EUR")
    assert [method for method, _path, _args in server.requests].count("POST") == 1


async def test_each_opening_of_a_form_has_a_key_of_its_own(bare: Driver) -> None:
    keys = set()
    for _ in range(2):
        await bare.press("n")
        form = bare.app.screen
        assert isinstance(form, FormScreen)
        keys.add(form.submission.idempotency_key)
        await bare.press("escape")
    assert len(keys) == 2


async def test_nothing_can_be_created_when_only_reading(
    server: ContractServer, dashboards: Dashboards
) -> None:
    async with dashboards.open(read_only=True) as driver:
        await driver.sees("read-only")
        await driver.press("n")
        assert not isinstance(driver.app.screen, FormScreen)


async def test_live_mode_shows_on_the_form(server: ContractServer, dashboards: Dashboards) -> None:
    server.key = "sk_live_0123456789abcdefghijklmnopqrstuv"
    async with dashboards.open() as driver:
        await driver.press("n", sees="◆ LIVE · New account")


async def test_with_the_account_known_the_direction_is_asked_first_and_has_letters(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.post(server.add_account("Till", "EUR"), 1000)
    async with dashboards.open() as driver:
        await driver.press("2", sees="Till")
        await driver.press("n")
        await driver.sees("part of a name, or an id")  # not the account that the cursor happens to be on
        await driver.press("escape")
        await driver.lists_only(server.accounts[0])
        await driver.press("n", sees="● ▲ credit    ○ ▼ debit    c d or ← →")
        await driver.press("d", sees="○ ▲ credit    ● ▼ debit")
        await driver.press("c", "down", sees="○ ▲ credit    ● ▼ debit")
        await driver.press("c", "d", "enter")
        await driver.type("4", "ctrl+s", sees="Post a transaction?")
        await driver.press("y", sees="Debited Till 4.00 EUR")
    assert [(t["amount"], t["type"]) for t in server.transactions] == [(1000, "credit"), (400, "debit")]


async def test_typed_text_is_thrown_away_only_after_a_yes(bare: Driver) -> None:
    await bare.press("n")
    await bare.type("Beans", "escape", sees=("Leave the form? What you typed is lost.", "y leave   esc stay"))
    for stray in ("x", "enter", "down"):
        await bare.press(stray, sees=("Leave the form?", "Press y to leave, n to stay."))
        await bare.press("n", gone="Leave the form?")
        await bare.press("escape", sees="Leave the form?")
    for stay in ("n", "escape"):
        await bare.press(stay, gone="Leave the form?")
        form = bare.app.screen
        assert isinstance(form, FormScreen)
        assert form.typed()["name"] == "Beans"
        await bare.press("escape", sees="Leave the form?")
    await bare.press("y")
    assert bare.app.screen is bare.app.dashboard
    await bare.press("n", "escape")  # nothing was typed: nothing is asked
    assert bare.app.screen is bare.app.dashboard


async def test_a_fields_error_goes_as_soon_as_the_field_changes(bare: Driver) -> None:
    await bare.press("2", "n", "ctrl+s", sees=("✕ Account is required.", "✕ Amount is required."))
    await bare.type("t", gone="✕ Account is required.")
    await bare.sees("✕ Amount is required.")
    await bare.press("tab", "tab")
    await bare.type("1", gone="✕ Amount is required.")
    await bare.press("shift+tab", "shift+tab", sees="✕ There is no such account.")
    await bare.press("ctrl+u", gone="✕ There is no such account.")  # also if it was sent empty before


async def test_enter_says_what_it_does_and_in_the_last_field_it_sends(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.add_account("Till", "EUR")
    async with dashboards.open() as driver:
        await until(lambda: driver.app.names.search("till"))
        await driver.press("2", "n", sees="⏎ next")
        await driver.type("til", sees="⏎ choose")
        await driver.press("enter", "tab")
        await driver.type("4", "enter", sees="⏎ send")
        assert not server.transactions
        await driver.press("shift+tab", sees="⏎ next")


async def test_an_order_is_placed_for_a_user_who_was_chosen_by_name(
    server: ContractServer, dashboards: Dashboards
) -> None:
    async with dashboards.open() as driver:
        write = driver.app.api.write
        ada, bob = [
            (
                await write(
                    "POST", "/api/users", {"name": name, "email": f"{name}@x.org", "role": "member"}, None
                )
            ).record
            for name in ("Ada", "Bob")
        ]
        await write("POST", "/api/orders", {"user_id": bob["id"], "items": [{}]}, None)
        await driver.press("5", sees="○ open")
        await driver.press("n", sees="Place an order")
        form = driver.app.screen
        assert isinstance(form, FormScreen)
        assert form.typed()["user_id"] == ""  # not that of the order under the cursor
        await until(lambda: driver.app.names.users.search("ada"))
        await driver.type("ada@", sees="⏎ choose")
        await driver.press("enter", sees=f"Ada · {ada['email']}")
        await driver.type("Beans", sees="⏎ send")
        await driver.press("enter", sees="The order of Ada is ")
    assert [order["user_id"] for order in server.orders] == [bob["id"], ada["id"]]


async def test_in_live_mode_posting_asks_for_the_amount_and_names_the_account(
    server: ContractServer, dashboards: Dashboards
) -> None:
    server.key = "sk_live_0123456789abcdefghijklmnopqrstuv"
    server.add_account("Till", "EUR")
    async with dashboards.open() as driver:
        await until(lambda: driver.app.names.search("till"))
        await driver.press("2", "n")
        await driver.type("till", "enter", "d", "tab")
        await driver.type("1250", "ctrl+s")
        await driver.sees(
            "◆ LIVE · Confirm", "Post a transaction, in LIVE mode?", "Till", "▼ debit", "1,250.00 EUR"
        )
        await driver.sees("Type 1250.00 to confirm")
        await driver.type("125", "enter", sees="✕ The amount does not match.")
        await driver.press("escape", sees=("Nothing was sent.", "◆ LIVE · Post a transaction"))
        assert not server.transactions
        await driver.press("ctrl+s", sees="Type 1250.00 to confirm")
        await driver.type("1250.00", "enter", sees="Debited Till 1,250.00 EUR")
        assert [(t["amount"], t["type"]) for t in server.transactions] == [(125000, "debit")]
        # What moves no money is asked for as well, and y will do.
        await driver.press("1", "n")
        await driver.type("Beans", "tab")
        await driver.type("EUR", "ctrl+s", sees=("New account, in LIVE mode?", "Beans"))
        await driver.press("y", sees="Account Beans exists: EUR")
