"""A delivery is drawn with its attempts in order, the next attempt, and the sent and received texts."""

from datetime import date
from typing import Any

import pytest

from ledger_tui.client.names import AccountNames
from ledger_tui.lists.arranging import selected_by
from ledger_tui.resources.base import Cell, Fact, FilterContext
from ledger_tui.resources.webhooks import DELIVERIES, answer_sections, attempt_facts, sent_sections


def attempt(number: int, **more: Any) -> dict[str, Any]:
    return {"number": number, "attempted_at": "2026-11-20T06:37:26.000Z", "latency_ms": 12, **more}


@pytest.mark.parametrize(
    ("went", "line"),
    [
        ({"status": 200, "error": None}, Cell("06:37:26 ✓ 200  12 ms", "plus")),
        ({"status": None, "error": "refused"}, Cell("06:37:26 ✕ refused  12 ms", "bad")),
        ({"status": 500, "error": "answered 500"}, Cell("06:37:26 ✕ answered 500  12 ms", "bad")),
        ({"status": 302, "error": "redirects"}, Cell("06:37:26 ✕ redirects (302)  12 ms", "bad")),
    ],
)
def test_an_attempt_is_one_line_that_names_the_status_once(went: dict[str, Any], line: Cell) -> None:
    (fact,) = attempt_facts({"status": "succeeded", "attempts": [attempt(1, **went)]})
    assert fact == ("attempt 1", line)


@pytest.mark.parametrize(
    ("status", "error", "failed"),
    [("failed", "refused", True), ("pending", "refused", True), ("succeeded", None, False)],
)
def test_the_deliveries_are_filtered_by_failure(status: str, error: str | None, failed: bool) -> None:
    delivery = {"status": status, "attempts": [attempt(1, status=None, error=error)]}
    for value in ("yes", "no"):
        keep = selected_by(DELIVERIES, {"failed": value}, FilterContext(AccountNames(), date(2026, 11, 20)))
        assert keep is not None
        assert keep(delivery) is (failed == (value == "yes"))


@pytest.mark.parametrize(
    ("params", "fits"),
    [
        ({"status": "pending"}, True),
        ({"status": "failed"}, False),
        ({"answer": "503"}, True),
        ({"answer": "5xx"}, True),
        ({"answer": "200"}, False),
    ],
)
def test_the_deliveries_are_filtered_by_their_state_and_by_the_answers(
    params: dict[str, str], fits: bool
) -> None:
    attempts = [attempt(1, status=None, error="refused"), attempt(2, status=503, error="answered 503")]
    keep = selected_by(DELIVERIES, params, FilterContext(AccountNames(), date(2026, 11, 20)))
    assert keep is not None
    assert keep({"status": "pending", "attempts": attempts}) is fits


@pytest.mark.parametrize(
    ("due", "said"),
    [(None, Cell("now", "dim")), ("2026-11-20T07:00:00.000Z", Cell("2026-11-20 07:00:00"))],
)
def test_a_delivery_that_is_pending_says_when_the_next_attempt_is(due: str | None, said: Cell) -> None:
    facts = attempt_facts({"status": "pending", "next_attempt_at": due, "attempts": "unreadable"})
    assert [(fact.label, fact.value.text) for fact in facts] == [("next", said.text)]


def lines(section: Any) -> list[str]:
    return (
        [] if section.drawing is None else ["".join(cell.text for cell in row) for row in section.drawing(80)]
    )


def test_the_request_is_shown_once_and_the_answers_to_the_newest_three_attempts() -> None:
    sent = {"headers": {"Ledger-Attempt": "4"}, "body": '{"id": "evt_1"}'}
    made = [attempt(n, request=sent, response={"body": f"answer {n}"}) for n in (1, 2, 3)]
    delivery = {"attempts": [*made, attempt(4, request=sent, response=None)]}
    sections = [*answer_sections(delivery), *sent_sections(delivery)]
    assert [section.title for section in sections if section.title] == [
        "answer to attempt 4",
        "answer to attempt 3",
        "answer to attempt 2",
        "sent",
    ]
    assert [lines(section) for section in sections[:-2]] == [[], ["answer 3"], ["answer 2"]]
    assert lines(sections[-2]) == ["{", '  "id": "evt_1"', "}"]
    assert sections[-1].facts == (Fact("1 header", Cell("Ledger-Attempt", "dim")),)


def test_without_an_attempt_there_is_nothing_to_show_of_one() -> None:
    assert answer_sections({"attempts": []}) + sent_sections({"attempts": []}) == []


@pytest.mark.parametrize(
    ("attempts", "shown"),
    [
        ([], Cell("–", "dim")),
        ([attempt(1, status=500, error="answered 500"), attempt(2, status=200)], Cell("200", "dim")),
        ([attempt(1, status=200), attempt(2, status=None, error="refused")], Cell("refused", "bad")),
    ],
)
def test_the_list_shows_what_came_of_the_last_attempt(attempts: list[Any], shown: Cell) -> None:
    assert shown in [column.cell({"attempts": attempts}, AccountNames()) for column in DELIVERIES.columns]


def test_the_detail_says_first_where_the_sent_body_is() -> None:
    attempt = {"number": 1, "status": 503, "error": "answered 503", "request": {"headers": {}, "body": "{}"}}
    row = {"id": "dlv_1", "status": "pending", "attempts": [attempt]}
    for delivery, count in ((row, 1), ({**row, "attempts": []}, 0)):
        detail = DELIVERIES.detail(delivery, AccountNames())
        assert [fact.label for fact in detail.sections[0].facts].count("sent") == count
