"""Invoice lines: from rows of text to what is sent, and back for an edit."""

from typing import Any

import pytest

from ledger_tui.client.names import AccountNames
from ledger_tui.resources.forms import FieldErrors, body_of, changes_of
from ledger_tui.resources.invoice_lines import TypedLine, dump_lines, parse_lines, sum_as_typed
from ledger_tui.resources.invoices import INVOICES

assert INVOICES.form
INVOICE = INVOICES.form
BEANS, MUG = TypedLine("Beans", "2", "12.50"), TypedLine("Mug", "1", "0")
SENT = [
    {"description": "Beans", "quantity": 2, "unit_amount": 1250},
    {"description": "Mug", "quantity": 1, "unit_amount": 0},
]
DRAFT = {"id": "inv_1", "status": "draft", "account": "acc_1", "customer": "Ada", "currency": "EUR"}


def test_rows_are_sent_in_the_smallest_unit_and_blank_ones_left_out() -> None:
    assert parse_lines(dump_lines([BEANS, TypedLine(), MUG]), "EUR") == SENT


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (TypedLine("", "1", "5"), "Line 2: A description is required."),
        (TypedLine("Tray", "", "5"), "Line 2: The quantity must be a whole number, at least 1."),
        (TypedLine("Tray", "1.5", "5"), "Line 2: The quantity must be a whole number, at least 1."),
        (TypedLine("Tray", "0", "5"), "Line 2: The quantity must be a whole number, at least 1."),
        (TypedLine("Tray", "9" * 40, "5"), "Line 2: The quantity must be a whole number, at least 1."),
        (TypedLine("Tray", "1", ""), "Line 2: A unit amount is required."),
        (TypedLine("Tray", "1", "5.005"), "Line 2: EUR has 2 decimals."),
        (TypedLine("Tray", "9007199254740991", "1"), "The largest sum is 90,071,992,547,409.91."),
    ],
)
def test_the_row_at_fault_is_named(row: TypedLine, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence.replace(".", r"\.")):
        parse_lines(dump_lines([BEANS, row]), "EUR")


def test_lines_that_come_to_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="more than zero"):
        parse_lines(dump_lines([MUG]), "EUR")


def test_more_lines_than_an_invoice_can_have_are_refused() -> None:
    assert len(parse_lines(dump_lines([BEANS] * 100), "EUR")) == 100
    with pytest.raises(ValueError, match="at most 100 lines"):
        parse_lines(dump_lines([BEANS] * 101), "EUR")


def test_the_sum_counts_what_is_complete_while_it_is_typed() -> None:
    half = TypedLine("Tray", "3", "")
    assert sum_as_typed([BEANS, half, TypedLine()], "EUR") == "sum 25.00 EUR + 1 not complete"
    assert sum_as_typed([BEANS], "JPY") == "sum 0 JPY + 1 not complete"
    most = TypedLine("Gold", "2", "90071992547409.91")  # each can be sent, the sum cannot
    assert "more than the largest amount, 90,071,992,547,409.91 EUR" in sum_as_typed([most], "EUR")
    assert "choose an account first" in sum_as_typed([BEANS], None)


def test_exactly_one_of_amount_and_lines_is_needed() -> None:
    typed = {"account": "acc_1", "customer": "Ada"}
    with pytest.raises(FieldErrors) as refused:
        body_of(INVOICE, typed, "EUR")
    assert refused.value.errors == {"amount": "Give amount or lines."}
    assert body_of(INVOICE, {**typed, "lines": dump_lines([BEANS, MUG])}, "EUR")["lines"] == SENT


def edited(draft: dict[str, Any], changes: dict[str, str], currency: str = "EUR") -> dict[str, Any]:
    form = INVOICES.edit({**DRAFT, **draft}, AccountNames())
    assert form
    before = form.prefill(None, {})
    return changes_of(form, {**before, **changes}, before, currency)


def test_a_drafts_lines_are_edited_and_may_be_another_amount_or_become_one() -> None:
    with_lines = {"amount": 2500, "lines": SENT}
    assert edited(with_lines, {"lines": dump_lines([BEANS])}) == {"lines": SENT[:1]}
    assert edited(with_lines, {"lines": "", "amount": "3"}) == {"amount": 300}
    assert edited({"amount": 300}, {"amount": "", "lines": dump_lines([BEANS])}) == {"lines": SENT[:1]}
    # The same figures in another currency are other amounts.
    yen = [{**line, "unit_amount": line["unit_amount"] // 100} for line in SENT]
    moved = {"account": "acc_2", "lines": dump_lines([TypedLine("Beans", "2", "12"), MUG])}
    assert edited(with_lines, moved, "JPY") == {"account": "acc_2", "lines": yen}


@pytest.mark.parametrize("lines", ["two", [5], [{"description": "Beans"}], [{**SENT[0], "quantity": "2"}]])
def test_lines_in_a_form_that_is_not_known_are_not_offered_for_an_edit(lines: object) -> None:
    names = AccountNames()
    form = INVOICES.edit({**DRAFT, "amount": 2500, "lines": lines}, names)
    assert form
    assert not {"amount", "lines"} & {field.name for field in form.fields}
    known = INVOICES.edit({**DRAFT, "amount": 2500, "lines": SENT}, names)
    assert known
    assert {"amount", "lines"} <= {field.name for field in known.fields}
