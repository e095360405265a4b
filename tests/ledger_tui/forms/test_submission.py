"""What is asked before something final names the object as people do, not only by its id."""

from __future__ import annotations

from typing import Any

import pytest

from ledger_tui.client.names import AccountNames
from ledger_tui.client.session import Mode
from ledger_tui.features.bulk import bulk_question
from ledger_tui.forms.submission import (
    FieldErrors,
    body_of,
    changes_of,
    question,
    question_of_form,
    what_moves,
)
from ledger_tui.resources.accounts import ACCOUNTS
from ledger_tui.resources.api_keys import API_KEYS
from ledger_tui.resources.base import Form, Resource
from ledger_tui.resources.directory import ORDERS, USERS
from ledger_tui.resources.invoices import INVOICES, TypedLine, dump_lines, parse_lines
from ledger_tui.resources.transactions import TRANSACTIONS, TRANSFER
from ledger_tui.resources.webhooks import ENDPOINTS


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


POSTING = {"account": "acc_1", "type": "credit", "amount": "12.5"}
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
        "Amount         12.50 EUR",
        "12.50",
    )


def test_a_transfer_names_where_the_money_comes_from_and_where_it_goes() -> None:
    typed = {"account": "acc_1", "destination": "acc_9", "amount": "12.5"}
    text, _ = asked_of_form(TRANSFER, Mode.LIVE, typed, {**typed, "type": "debit", "amount": 1250})
    assert text.splitlines()[2:] == [
        "From           Till",
        "→ To           acc_9",
        "Amount         12.50 EUR",
    ]


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
    transfer = {"account": "acc_1", "amount": "12.5", "destination": "acc_2"}
    assert what_moves(TRANSFER, transfer, names) == "Moves 12.50 EUR from Till to Safe"
    assert what_moves(TRANSFER, transfer | {"destination": "saf"}, names) == ""
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


assert ACCOUNTS.form
assert TRANSACTIONS.form
assert ORDERS.form
ACCOUNT, TRANSACTION, ORDER = ACCOUNTS.form, TRANSACTIONS.form, ORDERS.form

DRAFT = {"id": "inv_1", "status": "draft", "account": "acc_1", "customer": "Ada", "amount": 1250}


def test_a_transaction_is_written_in_the_smallest_unit() -> None:
    typed = {"account": "acc_1", "type": "debit", "amount": "1.5", "description": "  "}
    assert body_of(TRANSACTION, typed, "KWD") == {"account": "acc_1", "type": "debit", "amount": 1500}


def test_every_field_at_fault_is_named() -> None:
    with pytest.raises(FieldErrors) as refused:
        body_of(TRANSACTION, {"type": "credit", "amount": "12.505", "account": "acc_1"}, "EUR")
    assert refused.value.errors == {"amount": "EUR has 2 decimals."}
    with pytest.raises(FieldErrors) as refused:
        body_of(TRANSACTION, {"type": "credit"})
    assert refused.value.errors == {"account": "Account is required.", "amount": "Amount is required."}
    with pytest.raises(FieldErrors) as refused:
        body_of(TRANSACTION, {"type": "credit", "amount": "12.50", "account": "acc_9"}, None)
    assert refused.value.errors == {
        "amount": "Choose an account first: its currency decides how the amount is read."
    }


def test_metadata_are_pairs() -> None:
    typed = {"name": "Till", "currency": "eur", "metadata": "team = north; note=a=b;"}
    expected = {"name": "Till", "currency": "EUR", "metadata": {"team": "north", "note": "a=b"}}
    assert body_of(ACCOUNT, typed) == expected


@pytest.mark.parametrize("typed", ["north", "=x", "a=1; a=2", "; ".join(f"k{n}=1" for n in range(21))])
def test_metadata_that_are_no_pairs_are_refused(typed: str) -> None:
    with pytest.raises(FieldErrors) as refused:
        body_of(ACCOUNT, {"name": "Till", "currency": "EUR", "metadata": typed})
    assert [*refused.value.errors] == ["metadata"]


def edited(changes: dict[str, str], currency: str) -> dict[str, object]:
    """Return what is sent when a draft of 12.50 EUR is changed like this."""
    form = INVOICES.edit({**DRAFT, "currency": "EUR"}, AccountNames())
    assert form
    before = form.prefill(None, {})
    return changes_of(form, {**before, **changes}, before, currency)


def test_an_edit_sends_only_what_was_changed() -> None:
    assert edited({"customer": "Bob"}, "EUR") == {"customer": "Bob"}


def test_an_amount_is_read_anew_when_its_account_is_another() -> None:
    assert edited({"account": "acc_2"}, "KWD") == {"account": "acc_2", "amount": 12500}
    with pytest.raises(FieldErrors) as refused:
        edited({"account": "acc_2"}, "JPY")
    assert refused.value.errors == {"amount": "JPY has no decimals."}


def items(typed: str) -> list[tuple[int, str, int | None]]:
    body = body_of(ORDER, {"user_id": "usr_1", "items": typed})
    return [(item["quantity"], item["name"], item.get("unit_amount")) for item in body["items"]]


def test_a_quantity_may_be_written_as_it_is_drawn() -> None:
    assert items("2 × Beans @ 1250; 3 X Filter @ 100; 2x Mug @ 7; 4×Cup; Tray") == [
        (2, "Beans", 1250),
        (3, "Filter", 100),
        (2, "Mug", 7),
        (4, "Cup", None),
        (1, "Tray", None),
    ]


def test_a_name_that_begins_like_a_quantity_stands_after_one() -> None:
    assert items("1 x 2xl shirt; 3 × 4x4 tyre @ 9; Box 2x2") == [
        (1, "2xl shirt", None),
        (3, "4x4 tyre", 9),
        (1, "Box 2x2", None),
    ]


@pytest.mark.parametrize(
    "typed",
    ["2xMug @ 7", "2xl shirt", "2 xMug", "2,000 x Mug", "1.5 × Rope", "-2 x Mug", "2 * Mug", "2 x  @ 5"],
)
def test_what_may_be_a_quantity_is_refused_and_not_taken_for_a_name(typed: str) -> None:
    with pytest.raises(FieldErrors) as refused:
        items(f"Tray; {typed}")
    assert "Write 2 x Mug" in refused.value.errors["items"]


def test_a_price_with_a_currency_is_read_by_its_decimals() -> None:
    typed = {"user_id": "usr_1", "items": "2 x Beans @ 12.50 EUR; Mug @ 900jpy"}
    assert body_of(ORDER, typed)["items"] == [
        {"name": "Beans", "quantity": 2, "unit_amount": 1250, "currency": "EUR"},
        {"name": "Mug", "quantity": 1, "unit_amount": 900, "currency": "JPY"},
    ]


@pytest.mark.parametrize(
    ("typed", "reason"),
    [
        ("Beans @ 12.50", "A price like 12.50 needs its currency: Beans @ 12.50 EUR."),
        ("Beans @ 9.5 JPY", "JPY has no decimals."),
        ("Beans @ 1 XYZ", "The number of decimals of XYZ is not known."),
    ],
)
def test_a_price_that_no_amount_can_be_made_of_says_why(typed: str, reason: str) -> None:
    with pytest.raises(FieldErrors) as refused:
        items(typed)
    assert refused.value.errors == {"items": reason}


@pytest.mark.parametrize("typed", ["@ 1250", "Beans @ much", "Beans @ 1 @ 2"])
def test_what_is_no_item_is_answered_with_how_one_is_written(typed: str) -> None:
    with pytest.raises(FieldErrors) as refused:
        items(f"Tray; {typed}")
    assert refused.value.errors == {"items": "Write items like 2 x Beans @ 12.50 EUR; Filter."}
