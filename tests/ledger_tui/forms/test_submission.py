"""What is asked before something final names the object as people do, not only by its id."""

from typing import Any

import pytest

from ledger_tui.client.names import AccountNames
from ledger_tui.client.session import Mode
from ledger_tui.features.bulk import bulk_question
from ledger_tui.forms.submission import question, question_of_form, what_moves
from ledger_tui.resources.accounts import ACCOUNTS
from ledger_tui.resources.api_keys import API_KEYS
from ledger_tui.resources.base import Form, Resource
from ledger_tui.resources.endpoints import ENDPOINTS
from ledger_tui.resources.invoices import INVOICES, TypedLine, dump_lines, parse_lines
from ledger_tui.resources.orders import ORDERS
from ledger_tui.resources.transactions import TRANSACTIONS
from ledger_tui.resources.users import USERS


def question_for(resource: Resource, action: str, record: dict[str, object]) -> str:
    names = AccountNames()
    names.learn([{"id": "acc_1", "name": "Till", "currency": "EUR"}])
    names.learn_users([{"id": "usr_1", "name": "Ada"}])
    (found,) = [each for each in resource.actions if each.name == action]
    return question(resource, found, record, names)


def test_a_key_is_named_by_its_name_and_its_last_characters() -> None:
    record: dict[str, object] = {"id": "key_1", "name": "reports", "last4": "x9yz"}
    assert question_for(API_KEYS, "roll", record) == "Roll API key key_1?\n\nreports · …x9yz"


def test_a_user_is_named_by_name_and_address() -> None:
    record: dict[str, object] = {"id": "usr_1", "name": "Ada", "email": "ada@example.com"}
    assert question_for(USERS, "deactivate", record) == "Deactivate user usr_1?\n\nAda · ada@example.com"


def test_money_is_named_with_its_currency_and_its_account() -> None:
    record: dict[str, object] = {"id": "txn_1", "amount": 1250, "type": "debit", "account": "acc_1"}
    assert question_for(TRANSACTIONS, "reverse", record) == "Reverse transaction txn_1?\n\n−12.50 EUR · Till"


def test_an_order_is_named_by_its_total_and_who_ordered() -> None:
    record: dict[str, object] = {"id": "ord_1", "total": 2500, "items": [{}], "user_id": "usr_1"}
    assert question_for(ORDERS, "ship", record) == "Ship order ord_1?\n\n2,500 · 1 item · Ada"


def test_an_endpoint_is_named_by_its_address() -> None:
    record: dict[str, object] = {"id": "whe_1", "url": "https://example.com/hook"}
    assert question_for(ENDPOINTS, "roll_secret", record).endswith("whe_1?\n\nhttps://example.com/hook")


def test_where_nothing_is_known_the_id_is_all() -> None:
    assert question_for(USERS, "deactivate", {"id": "usr_9"}) == "Deactivate user usr_9?"


def asked_of_form(form: Form | None, mode: Mode, typed: dict[str, str], body: dict[str, object]) -> Any:
    assert form is not None
    names = AccountNames()
    names.learn([{"id": "acc_1", "name": "Till", "currency": "EUR"}])
    names.learn_users([{"id": "usr_1", "name": "Ada"}])
    return question_of_form(form, typed, body, "EUR", names, mode)


POSTING = {"account": "acc_1", "type": "credit", "amount": "12.5", "destination": "acc_9"}
POSTED = {**POSTING, "amount": 1250}


def test_in_test_mode_a_form_is_sent_without_a_question() -> None:
    assert asked_of_form(TRANSACTIONS.form, Mode.TEST, POSTING, POSTED) is None


@pytest.mark.parametrize(
    ("mode", "where"),
    [
        (Mode.LIVE, "in LIVE mode"),
        (Mode.UNKNOWN, "in an unknown mode (the server does not say which)"),
    ],
)
def test_what_moves_money_is_named_as_it_was_chosen_and_its_amount_typed_again(
    mode: Mode, where: str
) -> None:
    assert asked_of_form(TRANSACTIONS.form, mode, POSTING, POSTED) == (
        f"Post a transaction, {where}?\n\n"
        "Account        Till\n"
        "Type           ▲ credit\n"
        "Amount         12.50 EUR\n"
        "From account   acc_9",
        "12.50",
    )


@pytest.mark.parametrize(("kind", "label"), [("credit", "From account"), ("debit", "To account")])
def test_the_other_account_of_a_transfer_is_named_by_the_way_the_money_goes(kind: str, label: str) -> None:
    text, _ = asked_of_form(TRANSACTIONS.form, Mode.LIVE, POSTING | {"type": kind}, POSTED | {"type": kind})
    assert text.splitlines()[-1] == f"{label:15}acc_9"


def test_a_form_that_moves_nothing_asks_without_an_amount() -> None:
    text, typed_again = asked_of_form(ACCOUNTS.form, Mode.LIVE, {"name": " Till "}, {"name": "Till"})
    assert text.splitlines()[2:] == ["Name           Till"]
    assert typed_again is None
    _, typed_again = asked_of_form(INVOICES.form, Mode.LIVE, {"amount": "12.50"}, {"amount": 1250})
    assert typed_again is None


def test_an_order_names_its_user_and_an_invoice_the_sum_of_its_lines() -> None:
    text, _ = asked_of_form(ORDERS.form, Mode.LIVE, {"user_id": "usr_1"}, {"user_id": "usr_1"})
    assert text.splitlines()[2].endswith(" Ada")
    lines = dump_lines([TypedLine("Beans", "2", "12.50"), TypedLine("Mug", "1", "0")])
    body = {"lines": parse_lines(lines, "EUR")}
    text, _ = asked_of_form(INVOICES.form, Mode.LIVE, {"lines": lines}, body)
    assert "2, " in text.splitlines()[2]
    assert "25.00" in text.splitlines()[2]


def test_a_posting_is_named_while_it_is_typed_once_it_is_complete() -> None:
    names = AccountNames()
    names.learn(
        {"id": f"acc_{number}", "name": name, "currency": "EUR"}
        for number, name in ((1, "Till"), (2, "Safe"))
    )
    form = TRANSACTIONS.form
    assert form is not None
    typed = {"account": "acc_1", "type": "credit", "amount": "12.5"}
    assert what_moves(form, typed, names) == "Credits Till 12.50 EUR"
    assert what_moves(form, typed | {"type": "debit", "destination": "acc_2"}, names) == (
        "Debits Till 12.50 EUR, credits Safe"
    )
    assert what_moves(form, typed | {"amount": "1.234"}, names) == ""
    assert what_moves(form, typed | {"account": "Till"}, names) == ""


def test_of_many_objects_their_sums_are_asked_about_and_five_are_named() -> None:
    names = AccountNames()
    (void,) = [each for each in INVOICES.actions if each.name == "void"]
    invoices: list[dict[str, Any]] = [
        {"id": f"inv_{n}", "customer": f"Customer {n}", "amount": 100 * n, "currency": "EUR"}
        for n in range(1, 8)
    ]
    lines = bulk_question(INVOICES, void, invoices, 0, names).splitlines()
    assert lines[:2] == ["Void 7 invoices?", "in all 28.00 EUR"]
    assert lines[3:] == [f"{n}.00 EUR · Customer {n}" for n in range(1, 6)] + ["and 2 more"]
    assert "more" not in bulk_question(INVOICES, void, invoices[:5], 0, names)
