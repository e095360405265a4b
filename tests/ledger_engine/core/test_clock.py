"""Time that never goes back, and the texts it is read from and shown as."""

from __future__ import annotations

import re
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger_engine.core.clock import MOMENT_PATTERN, SystemClock, iso, parse_date, parse_moment, read_together
from ledger_engine.core.errors import InvalidRequest
from tests.ledger_engine.manual_clock import ManualClock

MS = 1_000_000  # nanoseconds
HOUR = 3_600_000  # milliseconds


@dataclass
class Machine:
    """The two clocks of a machine: one that people and time servers set, and one that only runs."""

    wall_ms: int = 1_790_000_000_000
    monotonic_ms: int = 50_000

    def run(self, milliseconds: int) -> None:
        self.wall_ms += milliseconds
        self.monotonic_ms += milliseconds


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(time, "time_ns", lambda: machine.wall_ms * MS)
    monkeypatch.setattr(time, "monotonic_ns", lambda: machine.monotonic_ms * MS)
    return machine


def test_the_clock_follows_the_machines(machine: Machine) -> None:
    clock = SystemClock()
    assert clock.now() == machine.wall_ms
    machine.run(1234)
    assert clock.now() == machine.wall_ms


@pytest.mark.parametrize("reading", range(4))
def test_a_pause_between_any_two_readings_makes_no_lead(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, reading: int
) -> None:
    clock = SystemClock()
    clock.now()
    readings = 0

    def read(shown_ms: int) -> int:
        nonlocal readings
        if readings == reading:
            machine.run(40)  # after the reading, and before the next one
        readings += 1
        return shown_ms * MS

    monkeypatch.setattr(time, "time_ns", lambda: read(machine.wall_ms))
    monkeypatch.setattr(time, "monotonic_ns", lambda: read(machine.monotonic_ms))
    for _ in range(4):
        clock.now()
        assert clock.now() <= machine.wall_ms
        machine.run(1)
    assert readings > reading
    assert clock.now() == machine.wall_ms


def test_a_machine_set_back_an_hour_does_not_take_the_ledger_with_it(machine: Machine) -> None:
    clock = SystemClock()
    before = clock.now()
    machine.wall_ms -= HOUR
    assert clock.now() == before
    machine.run(1600)
    assert clock.now() == before + 1400


def test_after_a_step_back_time_goes_on_at_one_pace_whatever_the_steps(machine: Machine) -> None:
    clock = SystemClock()
    before = clock.now()
    machine.wall_ms -= HOUR
    for _ in range(1000):
        machine.run(1)
        clock.now()
    assert clock.now() == before + 875


def test_no_lead_over_the_machine_lasts(machine: Machine) -> None:
    clock = SystemClock()
    clock.now()
    machine.wall_ms -= 50
    for _ in range(8):
        machine.run(50)
        assert clock.now() >= machine.wall_ms
    assert clock.now() == machine.wall_ms
    clock.advance_past(machine.wall_ms + 49)
    machine.run(400)
    assert clock.now() == machine.wall_ms


def test_once_the_machine_has_caught_up_its_time_counts_again(machine: Machine) -> None:
    clock = SystemClock()
    clock.now()
    machine.wall_ms -= 1000
    clock.now()
    machine.wall_ms += 5000
    assert clock.now() == machine.wall_ms


def test_a_machine_set_forward_is_believed(machine: Machine) -> None:
    clock = SystemClock()
    clock.now()
    machine.wall_ms += HOUR
    assert clock.now() == machine.wall_ms
    before = clock.now()
    machine.wall_ms -= HOUR
    machine.run(8)
    assert clock.now() == before + 7


def test_the_clock_can_be_told_of_a_moment_that_was_already_given_away(machine: Machine) -> None:
    clock = SystemClock()
    clock.advance_past(machine.wall_ms + 10)
    assert clock.now() == machine.wall_ms + 11
    machine.run(8)
    assert clock.now() == machine.wall_ms + 10
    clock.advance_past(machine.wall_ms - HOUR)
    assert clock.now() == machine.wall_ms + 10


@given(st.lists(st.integers(min_value=-10_000, max_value=10_000), max_size=50))
def test_no_order_of_jumps_makes_time_go_back(jumps: list[int]) -> None:
    machine = Machine()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: machine.wall_ms * MS)
        patch.setattr(time, "monotonic_ns", lambda: machine.monotonic_ms * MS)
        clock = SystemClock()
        seen = []
        for jump in jumps:
            seen.append(clock.now())
            machine.wall_ms += jump
            machine.run(1)
    assert seen == sorted(seen)


def test_two_clocks_with_a_pause_between_their_readings_are_read_again() -> None:
    seconds = iter([10.0, 45.0, 46.0, 46.5])
    assert read_together(iter([1_000, 2_000]).__next__, seconds.__next__) == (2_000, 46.0)


def test_several_threads_see_one_time() -> None:
    clock = SystemClock()
    latest = 0
    lock = threading.Lock()
    went_back = []

    def watch() -> None:
        nonlocal latest
        for _ in range(2000):
            with lock:
                before = latest
            now = clock.now()
            if now < before:
                went_back.append((before, now))
            with lock:
                latest = max(latest, now)

    threads = [threading.Thread(target=watch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert went_back == []


def test_a_manual_clock_stands_until_it_is_moved_and_never_goes_back() -> None:
    clock = ManualClock(1000)
    assert (clock.now(), clock.now()) == (1000, 1000)
    clock.advance(5)
    clock.advance_past(1002)
    assert clock.now() == 1005
    clock.advance_past(1005)
    assert clock.now() == 1006
    with pytest.raises(ValueError):
        clock.advance(-1)


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_795_149_060_123, "2026-11-20T04:31:00.123Z"),
        (1_795_149_060_000, "2026-11-20T04:31:00.000Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
    ],
)
def test_a_moment_is_shown_in_utc_with_three_decimals(moment: int, text: str) -> None:
    assert iso(moment) == text
    assert parse_moment(text, "at") == moment


@given(st.integers(min_value=-62_135_596_800_000, max_value=253_402_300_799_999))
def test_every_moment_of_the_calendar_is_read_as_it_is_shown(moment: int) -> None:
    assert parse_moment(iso(moment), "at") == moment


NOON = 1_795_176_000_000  # 2026-11-20T12:00:00Z


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-20", NOON - 12 * HOUR),
        ("2026-11-20T12:00", NOON),
        ("2026-11-20T12:00:00", NOON),
        ("2026-11-20T12:00:00Z", NOON),
        ("2026-11-20t12:00:00z", NOON),
        ("2026-11-20 12:00:00", NOON),
        ("2026-11-20T14:00:00+02:00", NOON),
        ("2026-11-20T14:00:00+0200", NOON),
        ("2026-11-20T06:30:00-05:30", NOON),
        ("2026-11-20T12:00:00.5", NOON + 500),
        ("2026-11-20T12:00:00,5Z", NOON + 500),
        ("2026-11-20T12:00:00.123456789Z", NOON + 123),
        ("2026-11-20T12:00:00.1239Z", NOON + 123),
        ("2026-11-20T12:00:00.1234567890123Z", NOON + 123),
        ("2026-11-20T14:00:00+02", NOON),
        ("2026-11-20T12", NOON),
        ("2026-11-20T12Z", NOON),
        ("20261120", NOON - 12 * HOUR),
        ("20261120T1200", NOON),
        ("20261120T120000Z", NOON),
        ("20261120T140000.500+0200", NOON + 500),
        ("2026-W47-5", NOON - 12 * HOUR),
        ("2026-w47-5", NOON - 12 * HOUR),
        ("2026W475T120000Z", NOON),
    ],
)
def test_dates_and_date_times_are_read(text: str, moment: int) -> None:
    assert parse_moment(text, "at") == moment
    assert re.search(MOMENT_PATTERN, text)


DAY = re.compile(r"(\d{4}-?(?:\d{2}-?\d{2}|[Ww]\d{2}-?\d))")


@given(st.from_regex(MOMENT_PATTERN, fullmatch=True))
def test_a_text_of_the_documented_form_is_read_if_the_calendar_contains_its_day(text: str) -> None:
    [day] = DAY.findall(text)[:1]
    try:
        moment = datetime.fromisoformat(day.upper())
    except ValueError:
        with pytest.raises(InvalidRequest):
            parse_moment(text, "at")
        return
    if 1 < moment.year < 9999:  # an offset can lead out of the calendar
        assert abs(parse_moment(text, "at") - moment.replace(tzinfo=UTC).timestamp() * 1000) < 48 * HOUR


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "1795149060",
        "2026-11",
        "2026-13-01",
        "2026-02-29",
        "2026-11-20T",
        "2026-11-20T24:00:00Z",  # newer versions of Python read it
        "2026-11-20T25:00:00Z",
        "2026-11-20T12:60:00Z",
        "2026-11-20T12:00:60Z",
        "2026-11-20T12:00:00+25:00",
        "2026-11-20T12:00:00 +02:00",
        "2026-11-20T12:00:00Z ",
        " 2026-11-20",
        "2026-11-20\n",
        "2026112",
        "2026-1120",
        "2026-W47",
        "2026-W54-1",
        "20261120T12000",
        "2026-11-20T12:00:00.",
        "2026-11-20T12:00:00.5.5Z",
        "+2026-11-20",
        "12026-11-20",
        "２０２６-11-20",
        "2026-11-20T１２:00:00Z",
        "0001-01-01T00:00:00+00:01",  # before the first moment of the calendar
        "9999-12-31T23:59:59-00:01",  # after its last one
    ],
)
def test_anything_else_is_refused_and_the_parameter_named(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_moment(text, "created_after")
    assert (refused.value.code, refused.value.param) == ("invalid_value", "created_after")


@given(st.text(max_size=40))
def test_no_text_at_all_breaks_the_reader(text: str) -> None:
    try:
        moment = parse_moment(text, "at")
    except InvalidRequest:
        return
    assert parse_moment(iso(moment), "at") == moment


def test_a_date_is_kept_as_it_is() -> None:
    assert parse_date("2026-11-20", "due_date") == "2026-11-20"


@pytest.mark.parametrize(
    "text", ["", "2026-02-30", "20261120", "2026-11-20T00:00", "2026-1-2", "２０２６-11-20"]
)
def test_a_text_that_is_no_date_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_date(text, "due_date")
    assert (refused.value.code, refused.value.param) == ("invalid_value", "due_date")
