"""How an invoice is drawn: its way through the states, with the times it came to each."""

import pytest

from ledger_tui.client.names import AccountNames
from ledger_tui.resources.invoices import INVOICES

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
