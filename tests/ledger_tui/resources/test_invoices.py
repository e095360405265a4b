"""An invoice is drawn with its way through the states, and the time of each state."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from ledger_tui.client.names import AccountNames
from ledger_tui.forms.submission import FieldErrors, body_of, changes_of
from ledger_tui.lists.arranging import selected_by
from ledger_tui.resources.base import FilterContext
from ledger_tui.resources.filtering import parse_filters
from ledger_tui.resources.invoices import INVOICES, TypedLine, dump_lines, parse_lines, sum_as_typed

INVOICE = {
    "id": "inv_1",
    "account": "acc_1",
    "amount": 1250,
    "created": "2026-11-20T09:20:00.000Z",
    "opened_at": "2026-11-20T09:22:00.000Z",
}
ENDS = {"paid": "paid_at", "void": "voided_at"}
TIMES = ("11-20 09:20", "11-20 09:22", "11-20 09:25")


def drawn(record: dict[str, object], width: int) -> list[str]:
    drawing = INVOICES.detail(record, AccountNames()).sections[0].drawing
    assert drawing is not None
    return ["".join(cell.text for cell in line) for line in drawing(width)]


@pytest.mark.parametrize("width", [24, 44, 45, 78])
@pytest.mark.parametrize("status", ENDS)
def test_the_times_of_a_life_touch_nothing(status: str, width: int) -> None:
    record = {**INVOICE, "status": status, ENDS[status]: "2026-11-20T09:25:00.000Z"}
    lines = drawn(record, width)
    assert max(map(len, lines)) <= width
    for time in TIMES:
        (line,) = [line for line in lines if time in line]
        before, _, after = line.partition(time)
        assert before[-1:] in ("", " ")
        assert after[:1] in ("", " ")


def test_where_it_is_narrow_each_state_has_a_line() -> None:
    assert drawn({**INVOICE, "status": "open"}, 30) == [
        " ○ draft   11-20 09:20",
        "[◐ open]   11-20 09:22",
        " ● paid    ",
        " ✕ void    ",
    ]


def test_the_amount_of_a_draft_without_lines_is_edited_in_its_accounts_currency() -> None:
    names = AccountNames()
    draft = {**INVOICE, "status": "draft"}
    unknown = INVOICES.edit(draft, names)
    assert unknown is not None
    assert "amount" not in [field.name for field in unknown.fields]
    names.learn([{"id": "acc_1", "name": "Till", "currency": "EUR"}])
    known = INVOICES.edit(draft, names)
    assert known is not None
    assert "amount" in [field.name for field in known.fields]
    assert known.prefill(draft, {})["amount"] == "12.50"
    with_lines = INVOICES.edit({**draft, "lines": [{}]}, names)
    assert with_lines is not None
    assert "amount" not in [field.name for field in with_lines.fields]


def test_a_line_in_a_form_that_is_not_known_is_passed_over() -> None:
    lines = [5, {"description": "Beans", "quantity": 2, "unit_amount": 1250}, None]
    detail = INVOICES.detail({**INVOICE, "status": "open", "currency": "EUR", "lines": lines}, AccountNames())
    (section,) = [each for each in detail.sections if each.title == "lines"]
    assert [(fact.label, fact.value.text) for fact in section.facts] == [("2 × 12.50", "Beans")]


assert INVOICES.form
FORM = INVOICES.form
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
        (TypedLine("Tray", "1", "5.005"), "Line 2: EUR has 2 decimals: write an amount like 12.50."),
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
        body_of(FORM, typed, "EUR")
    assert refused.value.errors == {"amount": "Give amount or lines."}
    assert body_of(FORM, {**typed, "lines": dump_lines([BEANS, MUG])}, "EUR")["lines"] == SENT


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


def test_an_invoice_is_overdue_only_while_it_is_open_and_past_its_due_date() -> None:
    today = date(2026, 11, 20)
    late, soon = "2026-11-19", "2026-11-20"
    invoices = [
        {"status": status, "due_date": due} for status in ("open", "paid") for due in (late, soon, None)
    ]
    names = AccountNames()
    for line, chosen in (
        ("overdue:yes", invoices[:1]),
        ("overdue", invoices[:1]),
        ("overdue:no", invoices[1:]),
    ):
        filters = parse_filters(line, INVOICES.filters, names)
        is_kept = selected_by(INVOICES, filters, FilterContext(names, today))
        assert is_kept
        assert [*filter(is_kept, invoices)] == chosen
