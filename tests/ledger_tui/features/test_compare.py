"""Courses of balances are computed from transactions, and shown in a plot and a table for one period."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from rich.cells import cell_len

from ledger_tui.client.past import moment_text
from ledger_tui.features.compare import Course, course_of, draw, periods, table


def ms(day: int, hour: int = 0, month: int = 11) -> int:
    return round(datetime(2026, month, day, hour, tzinfo=UTC).timestamp() * 1000)


def posting(amount: int, kind: str, at: int) -> dict[str, Any]:
    return {"amount": amount, "type": kind, "created": moment_text(at)}


TILL = {"id": "acc_1", "name": "Till", "currency": "EUR", "balance": 700}
POSTED = [posting(500, "credit", ms(20, 12)), posting(100, "debit", ms(19, 8))]


def till() -> Course:
    return course_of(TILL, POSTED, ms(18), ms(21))


def test_a_course_begins_with_the_balance_before_the_period() -> None:
    course = till()
    assert course.balances == (300, 200, 700)
    assert course.times == (ms(18), ms(19, 8), ms(20, 12))
    assert [course.at(at) for at in (ms(18), ms(19, 7), ms(19, 8), ms(20, 12), ms(21))] == [
        300,
        300,
        200,
        700,
        700,
    ]


def test_a_posting_between_the_reads_of_account_and_list_changes_no_balance_of_the_course() -> None:
    rows = [POSTED[0] | {"balance_after": 700}, POSTED[1] | {"balance_after": 200}]
    assert course_of(TILL | {"balance": 999}, rows, ms(18), ms(21)).balances == (300, 200, 700)


def test_an_account_without_postings_stays_where_it_is() -> None:
    assert course_of(TILL, [], ms(18), ms(21)).balances == (700,)


@pytest.mark.parametrize(
    ("unit", "names"),
    [
        ("day", ["2026-11-02", "2026-11-01", "2026-10-31"]),
        ("week", ["2026-W45", "2026-W44"]),
        ("month", ["2026-11", "2026-10"]),
    ],
)
def test_a_period_is_divided_into_days_weeks_and_months(unit: str, names: list[str]) -> None:
    found = periods(ms(31, month=10), ms(2, 5), unit)
    assert [name for name, _last in found] == names
    assert found[0][1] == ms(2, 5)


def test_the_table_has_the_balance_at_the_end_of_each_day_and_its_change() -> None:
    rows = table([till()], "day")
    assert [(row["period"], row["Till"], row["Till, change"]) for row in rows] == [
        ("2026-11-21", 700, 0),
        ("2026-11-20", 700, 500),
        ("2026-11-19", 200, -100),
        ("2026-11-18", 300, 0),
    ]


def test_courses_of_one_currency_have_one_scale_and_a_tone_each() -> None:
    low = course_of({**TILL, "id": "acc_2", "name": "Low", "balance": 0}, [], ms(18), ms(21))
    drawn = draw([till(), low], 60, 8)
    assert len(drawn) == 8
    assert {sum(cell_len(cell.text) for cell in line) for line in drawn} == {60}
    assert drawn[0][0].text.strip(" ┤") == "7.00"
    assert drawn[-1][0].text.strip(" ┤") == "0.00"
    tones = [{cell.tone for cell in line[1:] if cell.text.strip()} for line in drawn]
    assert tones[0] == {"accent"}
    assert tones[-1] == {"plus"}


def test_several_currencies_have_no_common_scale_and_no_labels() -> None:
    yen = course_of({**TILL, "id": "acc_2", "name": "Yen", "currency": "JPY"}, [], ms(18), ms(21))
    drawn = draw([till(), yen], 40, 5)
    assert {line[0].text for line in drawn} == {" ┤"}
