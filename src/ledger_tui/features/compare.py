"""Compares the balances of several accounts, in one plot and in a table by day, week or month."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from urllib.parse import quote

from textual.app import ComposeResult
from textual.content import Content

from ledger_client.errors import LedgerError
from ledger_tui.client.lists import postings_after
from ledger_tui.client.past import balances, moment_ms, moment_text
from ledger_tui.client.records import Record
from ledger_tui.formats import plot
from ledger_tui.formats.money import format_amount
from ledger_tui.formats.text import fit, literal
from ledger_tui.resources.base import Cell, Link, Place, Tone
from ledger_tui.resources.cells import joined
from ledger_tui.ui.handlers import asks, while_running
from ledger_tui.ui.keys import COMPARE_KEYS
from ledger_tui.ui.tiles import Tile, TileContent, TileRow, TimedTiles, sentence
from ledger_tui.ui.view import Context, LinkFollowed, Location

TONES: Sequence[Tone] = (
    "accent",
    "plus",
    "minus",
    "warn",
    "strong",
)  # the tones of the lines, in the order in which the accounts were marked
UNITS = ("day", "week", "month")
_BLANK = " ⠀"


@dataclass(frozen=True)
class Course:
    """The balance of an account over time: at `start_ms`, and after each posting until `end_ms`.

    From `times[n]` on, the account has the balance `balances[n]`.
    """

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
    """Return the course of an account's balance, computed from the account and its newest transactions."""
    moments = [(moment_ms(each.get("created")), each) for each in newest_first]
    postings = [(at, each) for at, each in moments if at is not None and start_ms < at <= end_ms]
    currency = account.get("currency")
    return Course(
        str(account.get("id")),
        str(account.get("name") or account.get("id")),
        currency if isinstance(currency, str) else None,
        start_ms,
        end_ms,
        (start_ms, *(at for at, _ in reversed(postings))),
        tuple(reversed(balances(account, [each for _, each in postings]))),
    )


def draw(courses: Sequence[Course], width: int, height: int) -> list[list[Cell]]:
    """Return a plot with a line in its own tone for each account; accounts of one currency share a scale."""
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
        cells = []
        for column in range(columns):
            here = [(line[row][column], tone) for line, tone in zip(lines, TONES, strict=False)]
            cells.append(next((Cell(*each) for each in here if each[0] not in _BLANK), Cell(" ", TONES[0])))
        drawn.append([Cell(f"{label.rjust(margin)} ┤", "dim"), *joined(cells)])
    return drawn


def periods(start_ms: int, end_ms: int, unit: str) -> list[tuple[str, int]]:
    """Return the days, weeks or months from `start_ms` to `end_ms`, newest first: each with its name and its
    last moment.
    """
    day, end = (datetime.fromtimestamp(ms / 1000, UTC).date() for ms in (start_ms, end_ms))
    pairs = []
    while day <= end:
        name, following = _period(day, unit)
        last = (
            round(datetime(following.year, following.month, following.day, tzinfo=UTC).timestamp() * 1000) - 1
        )
        pairs.append((name, min(last, end_ms)))
        day = following
    return pairs[::-1]


def _period(day: date, unit: str) -> tuple[str, date]:
    """Return the name of the period that contains a day, and the first day of the next period."""
    if unit == "day":
        return day.isoformat(), day + timedelta(days=1)
    if unit == "week":
        year, week, weekday = day.isocalendar()
        return f"{year}-W{week:02}", day + timedelta(days=8 - weekday)
    following = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
    return f"{day:%Y-%m}", following


def table(courses: Sequence[Course], unit: str) -> list[Record]:
    """Return a row for each day, week or month, newest first.

    A row has the balance of each account at the end of its period, and the change of this balance during the
    period.
    """
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


_SPANS = ((1_440, "day"), (10_080, "week"), (43_200, "30 days"), (129_600, "90 days"), (525_600, "year"))
_PAGES = 20  # the maximum number of requests for the transactions of one account
_PERIOD = 10  # cells for the name of a period
_LEAST_COLUMN = 12


class ComparisonView(TimedTiles):
    """Compares two to five accounts.

    Enter on a line of the legend lists the account's transactions in the period.
    """

    BINDINGS = COMPARE_KEYS

    spans = _SPANS
    span = 2

    def __init__(self, place: Place, context: Context) -> None:
        super().__init__(place, context)
        self._ids: tuple[str, ...] = ()
        self._unit = 0
        self._courses: list[Course] = []
        self._legend = Tile("accounts", self._draw_legend, Link("", "accounts"), id="compare-legend")
        self._plot = Tile("balances", self._draw_plot, Link("", "accounts"), id="compare-plot")
        self._table = Tile("at the end of each", self._draw_table, Link("", "accounts"), id="compare-table")
        self.tiles = (self._legend, self._plot, self._table)

    def compose(self) -> ComposeResult:
        yield self.caption
        yield self._plot
        yield self._legend
        yield self._table

    # ------------------------------------------------------------------ what is compared

    @property
    def location(self) -> Location:
        return Location(self.place.kind, {"accounts": ",".join(self._ids)})

    def show_location(self, location: Location) -> None:
        """Compare the accounts of the location."""
        ids = tuple(location.filters.get("accounts", "").split(","))
        if ids != self._ids:
            self._ids, self._courses = ids, []
            self.moment_changed()
            self.draw()

    # ------------------------------------------------------------------ reading

    @property
    def has_figures(self) -> bool:
        return bool(self._courses)

    @property
    def unread(self) -> bool:
        return bool(self._ids) and super().unread

    def may_poll(self) -> bool:
        return bool(self._ids) and super().may_poll()

    def poll(self) -> float:
        self.reading = True
        self._load(self._ids, self.start_ms, self.end_ms)
        return self.context.session.poll_seconds

    def moment_changed(self) -> None:
        if self._ids:  # the old drawing stays until the new balances are read
            self.poll()

    @asks("compare")
    async def _load(self, ids: Sequence[str], start_ms: int, end_ms: int) -> None:
        api, traffic = self.context.api, self.context.traffic
        count, courses = traffic.count, []
        try:
            for id_ in ids:
                account = (await api.read(f"/v1/accounts/{quote(id_, safe='')}")).record
                transactions = await postings_after(api, start_ms, {"account": id_}, _PAGES)
                # A course ends at `end_ms`, so it leaves out postings that were made during these reads.
                courses.append(course_of(account, transactions, start_ms, max(end_ms, start_ms)))
        except LedgerError as error:
            self.call_later(self.failed, literal(error))
        else:
            self.call_later(self._take, courses, traffic.count - count)

    @while_running
    def _take(self, courses: list[Course], requests: int) -> None:
        self.end_read(requests)
        self._courses = courses
        self.draw()

    # ------------------------------------------------------------------ drawing

    def caption_text(self) -> Content:
        summary = f"  {len(self._ids)} accounts, the last {_SPANS[self.span][1]}, by {UNITS[self._unit]}"
        return Content.assemble(" ", ("Compare", "bold"), summary, self.status(Content("")))

    def _draw_plot(self, width: int, height: int) -> TileContent:
        if not self._courses:
            return sentence("loading…", width)
        lines = draw(self._courses, width, max(1, height - 1))
        first, last = (moment_text(ms)[:10] for ms in (self._courses[0].start_ms, self._courses[0].end_ms))
        margin = len(lines[0][0].text)
        foot = first + " " * max(1, width - margin - len(first) - len(last)) + last
        several = len({course.currency for course in self._courses}) > 1
        fact = [Cell("each currency on its own scale", "dim")] if several else []
        return TileContent([*map(TileRow, lines), TileRow([Cell(" " * margin + foot, "dim")])], fact)

    def _draw_legend(self, width: int, _height: int) -> TileContent:
        rows = []
        for course, tone in zip(self._courses, TONES, strict=False):
            before, after = course.balances[0], course.balances[-1]
            sums = f"{format_amount(before, course.currency)} → {format_amount(after, course.currency)}"
            change = f"{format_amount(after - before, course.currency, sign=True)} {course.currency or ''}"
            filters = {"account": course.id, "created_after": moment_text(course.start_ms)}
            cells = (
                Cell("━━ ", tone),
                Cell(fit(literal(course.name), max(8, width - 52))),
                Cell(fit(sums, 28, "right"), "dim"),
                Cell(fit(change, 18, "right"), "minus" if after < before else "plus"),
            )
            rows.append(TileRow(cells, Link(course.name, "transactions", filters=filters)))
        return TileContent(rows)

    def _draw_table(self, width: int, height: int) -> TileContent:
        if not self._courses:
            return TileContent([])
        column = max(_LEAST_COLUMN, min(24, (width - _PERIOD) // len(self._courses) - 1))
        heads = (Cell(" " + fit(literal(course.name), column, "right"), "dim") for course in self._courses)
        rows = [TileRow([Cell(" " * _PERIOD), *heads])]
        for (name, last), (_before, before) in self._period_pairs()[: height - 1]:
            cells = [Cell(fit(name, _PERIOD), "dim")]
            for course in self._courses:
                difference = course.at(last) - course.at(before)
                text = format_amount(course.at(last), course.currency)
                cells.append(Cell(" " + fit(text, column, "right"), _tone(difference)))
            rows.append(TileRow(cells))
        return TileContent(rows, [Cell(UNITS[self._unit], "dim")])

    def _period_pairs(self) -> list[tuple[tuple[str, int], tuple[str, int]]]:
        """Return each period together with the period before it, newest first."""
        first = self._courses[0]
        pairs = periods(first.start_ms, first.end_ms, UNITS[self._unit])
        return [*zip(pairs, [*pairs[1:], ("", first.start_ms)], strict=True)]

    # ------------------------------------------------------------------ keys

    def action_open(self) -> None:
        if self._courses:
            self.post_message(LinkFollowed(self._legend.link))

    def action_unit(self) -> None:
        """Change from days to weeks, from weeks to months, and from months to days."""
        self._unit = (self._unit + 1) % len(UNITS)
        self.draw()

    def export(self) -> None:
        """Write the table to a file, with the change in each period."""
        from ledger_tui.features.export import export_rows

        if self._courses:
            rows = table(self._courses, UNITS[self._unit])
            export_rows(self, rows, "comparison.csv", f"The balances by {UNITS[self._unit]}")

    def shown_path(self) -> str:
        return f"/v1/accounts/{self._ids[0]}" if self._ids else ""


def _tone(difference: int) -> Tone:
    return "plus" if difference > 0 else "minus" if difference < 0 else "plain"
