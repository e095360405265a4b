"""The ledger's clock: milliseconds since 1970-01-01 UTC, never going back."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Protocol

from ledger_engine.core.errors import InvalidRequest

DAY = 86_400_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# ISO 8601 in its extended and its basic form, with calendar and week dates.
_ANY_DATE = r"\d{4}-\d{2}-\d{2}|\d{8}|\d{4}-[Ww]\d{2}-\d|\d{4}[Ww]\d{3}"
_TIME = r"\d{2}(:\d{2}(:\d{2}([.,]\d+)?)?|\d{2}(\d{2}([.,]\d+)?)?)?([Zz]|[+-]\d{2}(:?\d{2})?)?"
_DATE = re.compile(_ANY_DATE, re.ASCII)
_DATE_TIME = re.compile(rf"({_ANY_DATE})[Tt ]{_TIME}", re.ASCII)
# Every text that `parse_moment` accepts, as JSON Schema has it.
MOMENT_PATTERN = rf"^({_ANY_DATE})([Tt ]{_TIME})?$"
_CALENDAR_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


class Clock(Protocol):
    """A source of the current time, which tests replace."""

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
        """Return seconds from some moment on, by which waits are measured: nobody sets this clock."""
        ...


class SystemClock:
    """The machine's clock, kept from going back.

    Records are listed in the order of their ids, which contain this time, and tokens expire by it. When the
    machine's clock is set back, this clock continues from the latest moment seen at seven eighths of the pace
    of the monotonic clock, until the machine's has caught up. So no record is dated before an earlier one, no
    expired token becomes valid again, and no lead over the machine's clock is permanent.
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
        # The wall first: a pause before the second reading then makes `carried_on` start late, never early.
        wall = self.machine()
        tick = time.monotonic_ns()
        carried_on = self._latest + (tick - self._seen_at_ns) * 7 // 8_000_000
        if wall >= carried_on:
            self._latest = wall
            self._seen_at_ns = tick
            return wall
        # The anchor stays as it is: moving it here would round each step down, and time would lag.
        return carried_on


def read_together(clock: Callable[[], int], monotonic: Callable[[], float]) -> tuple[int, float]:
    """Return what the two clocks show, read less than a second apart.

    Comparing two such pairs shows whether the clock was set. After a pause between the readings, as of a
    stopped process, it would seem to have been set, so the clocks are read again.
    """
    while True:
        start = monotonic()
        moment = clock()
        if monotonic() - start < 1:
            return moment, start


@lru_cache(maxsize=1024)
def iso(moment: int) -> str:
    """Return the moment as text such as `2026-11-20T04:31:00.123Z`.

    Always UTC with three decimals (docs/decisions.md#conventions-times).
    """
    day, rest = divmod(moment, DAY)
    seconds, thousandths = divmod(rest, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{_date(day)}T{_TWO[hour]}:{_TWO[minute]}:{_TWO[second]}.{_THREE[thousandths]}Z"


@lru_cache(maxsize=1024)
def _date(day: int) -> str:
    return (_EPOCH + timedelta(days=day)).date().isoformat()


# A page of a hundred records shows as many times, and making one with `datetime` takes three times as long.
_TWO = [f"{number:02}" for number in range(60)]
_THREE = [f"{number:03}" for number in range(1000)]


def parse_moment(text: str, param: str) -> int:
    """Return the milliseconds of an ISO 8601 date or date-time; without an offset it is UTC.

    A fraction finer than a millisecond is cut off. Raises InvalidRequest naming `param` for any other text.
    See docs/decisions.md#transactions-created-after.
    """
    try:
        if is_date(text):
            moment = datetime.combine(date.fromisoformat(text), datetime.min.time(), tzinfo=UTC)
        elif _DATE_TIME.fullmatch(text):
            moment = datetime.fromisoformat(text.upper().replace(",", "."))
            # Converted to UTC here, so that an offset that leads out of the calendar is refused.
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
    """Return the last millisecond of a period that ends with `text`; a date includes the whole day.

    Raises InvalidRequest as `parse_moment` does.
    """
    moment = parse_moment(text, param)
    return moment + DAY - 1 if is_date(text) else moment


def is_date(text: str) -> bool:
    """Return whether what `parse_moment` reads in `text` is a date without a time."""
    return _DATE.fullmatch(text) is not None


def parse_date(text: str, param: str) -> str:
    """Return `text` if it is a date such as `2026-11-20`; raise InvalidRequest naming `param` if not."""
    try:
        if _CALENDAR_DATE.fullmatch(text):
            return date.fromisoformat(text).isoformat()
        raise ValueError
    except ValueError:
        raise InvalidRequest(
            "invalid_value", f"{param} must be an ISO 8601 date, like 2026-11-20.", param
        ) from None
