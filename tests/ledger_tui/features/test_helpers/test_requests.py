"""What lines ask of the test helpers, and how a fault is described."""

from __future__ import annotations

from typing import Any

import pytest

from ledger_tui.app.command_line import BadCommand, Choices, completions, parse_command
from ledger_tui.client.names import AccountNames
from ledger_tui.features.test_helpers.requests import BadHelper, described, hits_of, outcome_of, parse_helper


@pytest.mark.parametrize(
    ("line", "body"),
    [
        ("+1d", {"advance": 86_400}),
        ("2h 30m", {"advance": 9_000}),
        ("+45", {"advance": 45}),
        ("2026-12-01", {"now": "2026-12-01"}),
        ("2026-12-01 07:18", {"now": "2026-12-01T07:18"}),
        ("freeze", {"frozen": True}),
        ("run", {"frozen": False}),
    ],
)
def test_the_clock_is_moved_by_a_span_or_to_a_time(line: str, body: dict[str, Any]) -> None:
    assert parse_helper("clock", line).body == body


@pytest.mark.parametrize("line", ["", "-1d", "+", "tomorrow", "1 fortnight"])
def test_what_is_no_time_is_refused(line: str) -> None:
    with pytest.raises(BadHelper, match="Forward by"):
        parse_helper("clock", line)


@pytest.mark.parametrize(
    ("line", "match", "action", "text"),
    [
        (
            "503 post /v1/orders* times:3",
            {"method": "post", "path": "/v1/orders*"},
            {"status": 503},
            "503 to post /v1/orders*",
        ),
        ("cut:after_commit", {}, {"cut": "after_commit"}, "cut after the commit to all requests"),
        (
            "delay:500 jitter:100",
            {},
            {"delay_ms": 500, "jitter_ms": 100},
            "500 ms ± 100 ms more for all requests",
        ),
        (
            'status:409 header:"X-Test: 1"',
            {"header": "X-Test: 1"},
            {"status": 409},
            "409 to X-Test: 1",
        ),
        (
            "webhook:drop type:invoice.paid",
            {"type": "invoice.paid"},
            {"webhook": "drop"},
            "drop webhooks invoice.paid",
        ),
    ],
)
def test_a_fault_is_typed_in_words_and_described(
    line: str, match: dict[str, Any], action: dict[str, Any], text: str
) -> None:
    body = parse_helper("fault", line).body
    assert body is not None
    assert (body["match"], body["action"]) == (match, action)
    assert described({"match": match, "action": action, "probability": 1}) == text


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("/v1/orders", "What is to happen?"),
        ("503 404", "status is given twice"),
        ("503 times:many", "times needs a number"),
        ("503 until:noon", "“until:noon” is not one of"),
        ('503 header:"X', "A quote is not closed"),
    ],
)
def test_a_line_that_is_no_fault_says_why(line: str, problem: str) -> None:
    with pytest.raises(BadHelper, match=problem):
        parse_helper("fault", line)


def test_hits_are_counted_against_how_often_a_fault_may_happen() -> None:
    assert hits_of({"hits": 2, "times": None}).text == "2"
    assert (hits_of({"hits": 1, "times": 3}), hits_of({"hits": 3, "times": 3})) == (
        ("1 of 3", "warn"),
        ("3 of 3", "dim"),
    )


def test_what_is_lost_is_asked_for_first() -> None:
    assert "Go back to the snapshot" in parse_helper("restore", "before").question
    assert "Empty this project" in parse_helper("reset", "").question
    assert not parse_helper("snapshot", "before").question
    with pytest.raises(BadCommand, match="Which event"):
        parse_command("trigger", Choices([], [], AccountNames()))
    with pytest.raises(BadHelper, match="reset takes nothing"):  # and not the name of a snapshot
        parse_helper("reset", "before")


def test_all_faults_are_ended_by_a_word_and_counted() -> None:
    request = parse_helper("fault", "none")
    assert (request.method, request.body) == ("DELETE", None)
    assert outcome_of(request, {"deleted": 3}) == "Faults ended: 3."


def test_helpers_are_completed_unless_the_server_has_none() -> None:
    with_them = Choices([], [], AccountNames(), ["before", "empty"])
    assert [text for text, _about in completions("restore b", with_them)] == ["restore before"]
    assert [text for text, _about in completions("fault cut:a", with_them)] == ["fault cut:after_commit"]
    assert [text for text, _about in completions("clock fr", with_them)] == ["clock freeze"]
    assert "trigger order.paid" in [text for text, _about in completions("trigger order.", with_them)]
    assert [text for text, _about in completions("clo", with_them)] == ["clock"]
    assert completions("clo", Choices([], [], AccountNames(), None)) == []
