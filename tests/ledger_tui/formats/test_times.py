"""Times are written in the chosen style."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from ledger_tui.formats import times
from ledger_tui.formats.times import TimeStyle

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def style(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(times.chosen, "style", TimeStyle.UTC)
    yield
    monkeypatch.undo()
    time.tzset()


def test_utc_is_the_time_as_it_was_sent() -> None:
    assert times.written("2026-11-20T04:31:00.123Z") == "2026-11-20 04:31:00"
    assert times.written("yesterday") is None
    assert times.heading("created (UTC)") == "created (UTC)"


def test_local_time_is_that_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    times.chosen.style = TimeStyle.LOCAL
    assert times.written("2026-11-20T20:31:00.123Z") == "2026-11-21 05:31:00"
    assert times.written("2026-02-30T20:31:00Z") == "2026-02-30 20:31:00"  # no such day: as it was sent
    assert times.heading("created (UTC)") == "created (local)"


def test_a_time_that_no_date_of_this_machine_can_have_is_as_it_was_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    times.chosen.style = TimeStyle.LOCAL
    assert times.written("9999-12-31T23:59:59Z") == "9999-12-31 23:59:59"
    assert times.written("0001-01-01T00:00:00+23:59") == "0001-01-01 00:00:00"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2026-11-20T12:00:00Z", "now"),
        ("2026-11-20T11:59:18Z", "42 s ago"),
        ("2026-11-20T11:55:00Z", "5 min 0 s ago"),
        ("2026-11-20T08:47:10Z", "3 h 12 min ago"),
        ("2026-11-08T09:00:00Z", "12 d 3 h ago"),
        ("2026-11-20T12:05:30Z", "in 5 min 30 s"),
    ],
)
def test_relative_time_has_its_two_largest_units(text: str, said: str) -> None:
    times.chosen.style = TimeStyle.RELATIVE
    assert times.written(text, NOW) == said
