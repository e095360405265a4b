"""The question before a final action names the object by its usual name, not only by its id."""

from __future__ import annotations

import pytest

from ledger_tui.client.names import AccountNames
from ledger_tui.forms.submission import (
    FieldErrors,
    body_of,
    changes_of,
)
from ledger_tui.resources.accounts import ACCOUNTS
from ledger_tui.resources.directory import ORDERS
from ledger_tui.resources.invoices import INVOICES
from ledger_tui.resources.transactions import TRANSACTIONS

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
    assert refused.value.errors == {"amount": "EUR has 2 decimals: write an amount like 12.50."}
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
    assert refused.value.errors == {"amount": "JPY has no decimals: write an amount like 1250."}


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
def test_a_text_that_may_be_a_quantity_is_refused_and_not_taken_for_a_name(typed: str) -> None:
    with pytest.raises(FieldErrors) as refused:
        items(f"Tray; {typed}")
    assert "Then write 2 x Mug" in refused.value.errors["items"]


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
        ("Beans @ 9.5 JPY", "JPY has no decimals: write an amount like 1250."),
        ("Beans @ 1 XYZ", "The number of decimals of XYZ is not known."),
    ],
)
def test_a_price_that_no_amount_can_be_made_of_says_why(typed: str, reason: str) -> None:
    with pytest.raises(FieldErrors) as refused:
        items(typed)
    assert refused.value.errors == {"items": reason}


@pytest.mark.parametrize("typed", ["@ 1250", "Beans @ much", "Beans @ 1 @ 2"])
def test_a_text_that_is_no_item_is_answered_with_an_example(typed: str) -> None:
    with pytest.raises(FieldErrors) as refused:
        items(f"Tray; {typed}")
    assert refused.value.errors == {"items": "Write items like 2 x Beans @ 12.50 EUR; Filter."}
