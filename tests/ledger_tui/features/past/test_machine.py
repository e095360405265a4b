"""Moments are typed, steps lead from event to event, and the line of time is drawn."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ledger_tui.client.past import Happening
from ledger_tui.features.past.machine import (
    EventRun,
    column_of,
    line,
    moment_at,
    parse_moment,
)
from ledger_tui.resources.filtering import BadLine

NOW = round(datetime(2026, 11, 25, 12, tzinfo=UTC).timestamp() * 1000)
HOUR = 3_600_000


@pytest.mark.parametrize(
    ("text", "then"),
    [
        ("2026-11-23 14:05", datetime(2026, 11, 23, 14, 5, tzinfo=UTC)),
        ("2026-11-23T14:05:06.123Z", datetime(2026, 11, 23, 14, 5, 6, 123_000, tzinfo=UTC)),
        ("2026-11-23T14:05+02:00", datetime(2026, 11, 23, 12, 5, tzinfo=UTC)),
        ("2026-11-23", datetime(2026, 11, 23, tzinfo=UTC)),
        ("9:30", datetime(2026, 11, 25, 9, 30, tzinfo=UTC)),
        ("-2h", datetime(2026, 11, 25, 10, tzinfo=UTC)),
        ("-1d30m", datetime(2026, 11, 24, 11, 30, tzinfo=UTC)),
        ("-1h10min", datetime(2026, 11, 25, 10, 50, tzinfo=UTC)),
    ],
)
def test_a_moment_is_typed_as_a_time_or_as_how_long_ago(text: str, then: datetime) -> None:
    assert parse_moment(text, NOW) == round(then.timestamp() * 1000)


def test_now_is_no_earlier_moment() -> None:
    assert parse_moment(" now ", NOW) is None


@pytest.mark.parametrize("text", ["", "yesterday", "-2x", "2026-13-01", "2h", "-"])
def test_a_text_that_is_no_moment_is_refused_with_examples(text: str) -> None:
    with pytest.raises(BadLine, match="-2h or now"):
        parse_moment(text, NOW)


def test_a_time_to_come_is_refused() -> None:
    with pytest.raises(BadLine, match="in the future"):
        parse_moment("2026-11-25 12:01", NOW)


def around(*times: int, begins: bool = True, ends: bool = True) -> EventRun:
    found = EventRun()
    found.begin(
        [Happening(ms, f"evt_{n}", f"event {n}") for n, ms in enumerate(times)], begins=begins, ends=ends
    )
    return found


def test_the_events_of_one_millisecond_are_one_step() -> None:
    known = around(10, 20, 20, 30)
    assert known.step(None, -1) == 20
    assert known.step(20, -1) == 10
    assert known.step(10, 1) == 20
    assert known.step(20, 1) == 30
    assert [each.about for each in known.at(20)] == ["event 1", "event 2"]
    assert known.at(9) == ()


def test_a_moment_between_two_events_steps_to_either() -> None:
    known = around(10, 20, 30)
    assert known.step(25, 1) == 30
    assert known.step(25, -1) == 10  # it shows what was right after 20
    assert known.step(30, 1) is None
    assert known.step(10, -5) == 10


def test_steps_beyond_what_is_known_need_more_of_it() -> None:
    known = around(10, 20, begins=False, ends=False)
    assert known.needs(10, -1) == "older"
    assert known.needs(20, 1) == "newer"
    assert known.needs(10, 1) == ""
    known.add_older([Happening(5, "evt", "")], begins=True)
    known.add_newer([Happening(25, "evt", "")], ends=True)
    assert known.needs(10, -9) == known.needs(20, 9) == ""
    assert (known.step(10, -1), known.step(20, 1)) == (5, 25)
    assert EventRun().step(None, -1) is None
    known.expect_newer()
    assert known.needs(25, 1) == "newer"
    assert known.needs(20, 1) == ""


def test_the_line_has_the_moment_failures_and_marks_at_their_places() -> None:
    cells = line(50, 0, 100, [25, 200], {"a": 0, "b": 100}, 101)
    text = "".join(cell.text for cell in cells)
    assert len(text) == 101
    assert (text[0], text[25], text[50], text[100]) == ("a", "✕", "◆", "b")
    assert set(text[26:50]) == {"━"}
    assert set(text[51:100]) == {"─"}
    assert len(cells) < 10


def test_a_column_of_the_line_is_the_moment_that_is_drawn_there() -> None:
    for ms in (0, 333, 1000):
        assert moment_at(column_of(ms, 0, 1000, 1001), 0, 1000, 1001) == ms
    assert moment_at(-3, 0, 1000, 50) == 0
    assert moment_at(99, 0, 1000, 50) == 1000
    assert column_of(5, 5, 5, 10) == 0
