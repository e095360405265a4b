"""The ledger's clock: it shows milliseconds since 1970-01-01 UTC, and never goes back."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Protocol

from ledger_engine.core.errors import InvalidRequest

DAY = 86_400_000  # milliseconds
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# ISO 8601 in its extended and its basic form, with calendar and week dates. The expressions limit a day to 31
# and a week to 53, but do not know how many days a month has, nor which years have 53 weeks.
_YEAR = r"([0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
_MONTH, _DAY, _WEEK, _WEEKDAY = (
    r"(0[1-9]|1[0-2])",
    r"(0[1-9]|[12][0-9]|3[01])",
    r"(0[1-9]|[1-4][0-9]|5[0-3])",
    "[1-7]",
)
_ANY_DATE = f"{_YEAR}(-{_MONTH}-{_DAY}|{_MONTH}{_DAY}|-[Ww]{_WEEK}-{_WEEKDAY}|[Ww]{_WEEK}{_WEEKDAY})"
_HOUR, _SIXTY = r"([01][0-9]|2[0-3])", r"[0-5][0-9]"
_OFFSET = f"([Zz]|[+-]{_HOUR}(:?{_SIXTY})?)"
_FRACTION = r"([.,][0-9]+)?"
_TIME = f"{_HOUR}(:{_SIXTY}(:{_SIXTY}{_FRACTION})?|{_SIXTY}({_SIXTY}{_FRACTION})?)?{_OFFSET}?"
_DATE = re.compile(_ANY_DATE)
_DATE_TIME = re.compile(f"{_ANY_DATE}[Tt ]{_TIME}")
# A pattern in the form of JSON Schema that matches every text that `parse_moment` accepts. `parse_moment`
# refuses a matching text only if the calendar has no such day (30 February), or if the moment in UTC is
# before the year 1 or after the year 9999.
MOMENT_PATTERN = f"^{_ANY_DATE}([Tt ]{_TIME})?$"
_CALENDAR_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


class Clock(Protocol):
    """A source of the current time. Tests replace it."""

    def now(self) -> int:
        """Return milliseconds since 1970-01-01 UTC, never less than an earlier result."""
        ...

    def advance_past(self, moment: int) -> None:
        """Make every later result of `now` greater than `moment` (milliseconds)."""
        ...

    def machine(self) -> int:
        """Return the machine's clock in milliseconds; it may be wrong and may go back."""
        ...

    def monotonic(self) -> float:
        """Return seconds from a clock that nobody can set. Measure waits with it."""
        ...


class SystemClock:
    """The machine's clock, prevented from going back.

    If somebody sets the machine's clock back, this clock continues from its latest time, but at seven eighths
    of the normal pace, until the machine's clock has caught up. So no expired token becomes valid again, and
    no record gets an earlier time than an older record. Ids contain the time of this clock, and lists are in
    the order of ids, so lists stay in the order in which the records were made.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest = 0
        self._seen_at_ns = time.monotonic_ns()

    def now(self) -> int:
        with self._lock:
            return self._now()

    def advance_past(self, moment: int) -> None:
        with self._lock:
            if self._now() <= moment:
                self._latest = moment + 1
                self._seen_at_ns = time.monotonic_ns()

    def machine(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def _now(self) -> int:
        # Read the wall clock before the monotonic clock. If the process then pauses between the two readings,
        # the ledger's time can fall behind the machine's clock, but not get ahead of it.
        wall = self.machine()
        tick = time.monotonic_ns()
        slowed = self._latest + (tick - self._seen_at_ns) * 7 // 8_000_000
        if wall >= slowed:
            self._latest = wall
            self._seen_at_ns = tick
            return wall
        # Do not update `_latest` and `_seen_at_ns` here. Otherwise each call would lose the fraction of a
        # millisecond that `//` cuts off.
        return slowed


def read_together(clock: Callable[[], int], monotonic: Callable[[], float]) -> tuple[int, float]:
    """Return the times of the two clocks, read less than a second apart.

    A caller compares two such pairs to find out whether somebody has set `clock` in the meantime. If the
    process paused between the two readings of one pair, the comparison would wrongly show a change of the
    clock. So after a pause of a second or more, this function reads both clocks again.
    """
    while True:
        start = monotonic()
        moment = clock()
        if monotonic() - start < 1:
            return moment, start


@lru_cache(maxsize=1024)
def iso(moment: int) -> str:
    """Return the moment as text such as `2026-11-20T04:31:00.123Z`.

    The text is always in UTC with three decimals (docs/decisions.md#conventions-times).
    """
    day, rest = divmod(moment, DAY)
    seconds, thousandths = divmod(rest, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{_date(day)}T{_TWO[hour]}:{_TWO[minute]}:{_TWO[second]}.{_THREE[thousandths]}Z"


@lru_cache(maxsize=1024)
def _date(day: int) -> str:
    return (_EPOCH + timedelta(days=day)).date().isoformat()


# Each record of a list contains a time, so `iso` is called often. With these tables it takes a third of the
# time that `datetime` takes.
_TWO = [f"{number:02}" for number in range(60)]
_THREE = [f"{number:03}" for number in range(1000)]


def parse_moment(text: str, param: str) -> int:
    """Return an ISO 8601 date or date-time as milliseconds since 1970; without an offset the time is in UTC.

    A fraction finer than a millisecond is cut off. Raises InvalidRequest with `param` for any other text.
    See docs/decisions.md#transactions-created-after.
    """
    try:
        if is_date(text):
            moment = datetime.combine(date.fromisoformat(text.upper()), datetime.min.time(), tzinfo=UTC)
        elif _DATE_TIME.fullmatch(text):
            moment = datetime.fromisoformat(text.upper().replace(",", "."))
            # Convert to UTC inside the `try`: if the offset leads to the year 0 or 10000, `astimezone` raises
            # OverflowError.
            moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        else:
            raise ValueError
        return (moment - _EPOCH) // _MILLISECOND
    except (ValueError, OverflowError):
        raise InvalidRequest(
            "invalid_value",
            f"{param} must be an ISO 8601 date or date-time, like 2026-11-20T04:31:00Z.",
            param,
        ) from None


def parse_end(text: str, param: str) -> int:
    """Return the last millisecond of a period that ends at `text`; a date includes the whole day.

    Raises the errors of `parse_moment`.
    """
    moment = parse_moment(text, param)
    return moment + DAY - 1 if is_date(text) else moment


def is_date(text: str) -> bool:
    """Return whether `text` is a date without a time, in a form that `parse_moment` accepts."""
    return _DATE.fullmatch(text) is not None


def parse_date(text: str, param: str) -> str:
    """Return `text`, a date such as `2026-11-20`. Raises InvalidRequest with `param` for another text."""
    try:
        if _CALENDAR_DATE.fullmatch(text):
            return date.fromisoformat(text).isoformat()
        raise ValueError
    except ValueError:
        raise InvalidRequest(
            "invalid_value", f"{param} must be an ISO 8601 date, like 2026-11-20.", param
        ) from None
