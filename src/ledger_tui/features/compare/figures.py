"""Balances of several accounts over one period, in one plot and in a table by day, week or month. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from ledger_tui.client.past import moment_ms, signed
from ledger_tui.client.records import Record
from ledger_tui.formats import plot
from ledger_tui.formats.money import format_amount
from ledger_tui.resources.base import Cell, Tone

TONES: Sequence[Tone] = (
    "accent",
    "plus",
    "minus",
    "warn",
    "strong",
)  # of the lines, in the order of the marks
UNITS = ("day", "week", "month")
_BLANK = " ⠀"


@dataclass(frozen=True)
class Course:
    """The balance of an account: what it was at `start_ms`, then after each posting, until `end_ms`."""

    id: str
    name: str
    currency: str | None
    start_ms: int
    end_ms: int
    times: tuple[int, ...]
    balances: tuple[int, ...]

    def at(self, ms: int) -> int:
        """Return the balance right after a moment within the period."""
        return self.balances[max(0, bisect_right(self.times, ms) - 1)]


def course_of(account: Record, newest_first: Sequence[Record], start_ms: int, end_ms: int) -> Course:
    """Return the course of an account from its balance at the end and its transactions since the start."""
    balance = account.get("balance")
    running = balance if isinstance(balance, int) else 0
    times, balances = [], []
    for each in newest_first:
        at = moment_ms(each.get("created"))
        if at is None or not start_ms < at <= end_ms:
            continue
        times.append(at)
        balances.append(running)
        running -= signed(each)
    currency = account.get("currency")
    return Course(
        str(account.get("id")),
        str(account.get("name") or account.get("id")),
        currency if isinstance(currency, str) else None,
        start_ms,
        end_ms,
        (start_ms, *reversed(times)),
        (running, *reversed(balances)),
    )


def draw(courses: Sequence[Course], width: int, height: int) -> list[list[Cell]]:
    """Return the courses in one plot, each in its tone, those of one currency on one scale."""
    ends: dict[str | None, tuple[int, int]] = {}
    for course in courses:
        low, high = ends.get(course.currency, (course.balances[0], course.balances[0]))
        ends[course.currency] = min(low, *course.balances), max(high, *course.balances)
    one = courses[0].currency if len(ends) == 1 else None
    labels = ["", ""] if one is None else [format_amount(end, one) for end in reversed(ends[one])]
    margin = max(map(len, labels))
    columns = max(1, width - margin - 2)
    lines = [
        plot.line(
            [*course.balances, course.balances[-1]],
            columns,
            height,
            [*course.times, course.end_ms],
            within=ends[course.currency],
        )
        for course in courses
    ]
    drawn = []
    for row in range(height):
        label = labels[0] if row == 0 else labels[1] if row == height - 1 else ""
        cells = [Cell(f"{label.rjust(margin)} ┤", "dim")]
        for column in range(columns):
            here = [(line[row][column], tone) for line, tone in zip(lines, TONES, strict=False)]
            text, tone = next(((text, tone) for text, tone in here if text not in _BLANK), (" ", TONES[0]))
            if len(cells) > 1 and cells[-1].tone == tone:
                cells[-1] = Cell(cells[-1].text + text, tone)
            else:
                cells.append(Cell(text, tone))
        drawn.append(cells)
    return drawn


def periods(start_ms: int, end_ms: int, unit: str) -> list[tuple[str, int]]:
    """Return the days, weeks or months of a period, the newest first: the name, and the moment each ends."""
    day, end = (datetime.fromtimestamp(ms / 1000, UTC).date() for ms in (start_ms, end_ms))
    found = []
    while day <= end:
        name, following = _period(day, unit)
        last = (
            round(datetime(following.year, following.month, following.day, tzinfo=UTC).timestamp() * 1000) - 1
        )
        found.append((name, min(last, end_ms)))
        day = following
    return found[::-1]


def _period(day: date, unit: str) -> tuple[str, date]:
    """Return the name of the period that a day is in, and the first day of the next one."""
    if unit == "day":
        return day.isoformat(), day + timedelta(days=1)
    if unit == "week":
        year, week, weekday = day.isocalendar()
        return f"{year}-W{week:02}", day + timedelta(days=8 - weekday)
    following = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
    return f"{day:%Y-%m}", following


def table(courses: Sequence[Course], unit: str) -> list[Record]:
    """Return a row for each period: the balance of each account at its end, and how it changed in it."""
    start, end = courses[0].start_ms, courses[0].end_ms
    rows: list[Record] = []
    before = start
    for name, last in reversed(periods(start, end, unit)):
        row: Record = {"id": name, "period": name}
        for course in courses:
            balance = course.at(last)
            row[course.name] = balance
            row[f"{course.name}, change"] = balance - course.at(before)
        rows.append(row)
        before = last
    return rows[::-1]
