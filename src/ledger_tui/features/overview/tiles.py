"""The contents of the overview's tiles, such as balances over time and the outcomes of requests.

Each function of a tile returns content that fits a width and a height. These functions change nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import floor

from rich.cells import cell_len

from ledger_tui.client.figures import EndpointHealth, Mark, mark_of
from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record
from ledger_tui.client.totals import (
    BUCKET_SECONDS,
    OVERDUE_AGES,
    WAITING_AGES,
    Ages,
    BalanceSums,
    PostingRate,
    Stage,
    Stages,
)
from ledger_tui.features.overview.request_figures import RequestFigures
from ledger_tui.formats import plot
from ledger_tui.formats.money import format_amount
from ledger_tui.formats.text import fit, literal
from ledger_tui.resources.base import Cell, Column, Link, Resource, Tone
from ledger_tui.resources.directory import ORDER_LOOKS, ORDERS
from ledger_tui.resources.invoices import INVOICE_LOOKS, INVOICES
from ledger_tui.resources.transactions import TRANSACTIONS
from ledger_tui.resources.webhooks import EVENTS
from ledger_tui.ui.tiles import TileContent, TileRow, sentence

AXIS = 7  # cells to the left of the bars
_TITLE_WIDTH = 12  # the cells of the title "webhooks" with its gaps and marks
_LEAST_COURSE = 8  # the minimum width of a course (a plot of the balance) on the line of the amount
_LOOKS = {INVOICES.kind: INVOICE_LOOKS, ORDERS.kind: ORDER_LOOKS}
_MARKS: Mapping[Mark, Cell] = {
    "sent": Cell("▪", "plus"),
    "late": Cell("▫", "plus"),
    "waiting": Cell("·", "dim"),
    "retrying": Cell("◔", "warn"),
    "failed": Cell("✕", "bad"),
}
_URL = re.compile(r"^https?://")


# ---------------------------------------------------------------------- money


def balances(
    figure: BalanceSums, earlier: Mapping[str, Sequence[int]], step: float, width: int, height: int
) -> TileContent:
    """Return the balance of each currency, with its change and its course, a plot of the balance over time.

    `earlier` contains the known balances of each currency; they are `step` seconds apart.
    """
    if not figure.accounts:
        return sentence("No accounts yet.", width)
    text = f"{figure.accounts:,} account{'s' if figure.accounts != 1 else ''}"
    fact = [Cell(f"the newest {text}" if figure.partial else text, "dim")]
    sums = [*figure.sums]
    if len(sums) > height:
        sums = sums[: max(0, height - 1)]
    amounts = [format_amount(one.amount, one.currency) for one in sums]
    widest = max(map(len, amounts), default=0)
    changes = [_change(earlier.get(one.currency, ()), one.currency) for one in sums]
    widest_change = max((len(change.text) for change in changes), default=0)
    rows: list[TileRow] = []
    for number, (one, amount, change) in enumerate(zip(sums, amounts, changes, strict=True)):
        values, high = earlier.get(one.currency, ()), _share(height, len(sums), number)
        tone: Tone = "minus" if one.amount < 0 else "strong"
        line = [Cell(f"{literal(one.currency):<4} ", "dim"), Cell(amount.rjust(widest), tone)]
        # A truncated amount would mislead, so leave out a change that does not fit.
        text = change.text if width - 7 - widest >= widest_change else ""
        change = Cell("  " + text.rjust(widest_change) if text else "", change.tone)
        room = width - 5 - widest - len(change.text)
        if high >= 2:
            over = f"  in {_span(step * (len(values) - 1))}" if text else ""
            rows.append(TileRow([*line, change, Cell(over if len(over) <= room else "", "dim")]))
            rows += _course(values, width, high - 1)
        else:
            # The course, as a line of dots, fills the room between the amount and the change.
            if len(values) > 1 and room >= _LEAST_COURSE:
                line += [Cell("  "), Cell(plot.line(values, room - 2, 1)[0], "accent")]
            rows.append(TileRow([*line, change]))
    if len(sums) < len(figure.sums):
        rows.append(TileRow([Cell(f"and {len(figure.sums) - len(sums)} more currencies", "dim")]))
    return TileContent(rows, fact)


def _share(height: int, groups: int, number: int) -> int:
    """Return the number of rows for one group, so that all groups together fill the height."""
    return height // groups + (number < height % groups)


def _course(values: Sequence[int], width: int, height: int) -> list[TileRow]:
    """Return the rows of a balance's course. If `height` is more than three, the last row is blank."""
    high = height - (height > 3)
    cells = plot.line(values, width, high) if len(values) > 1 else [""] * high
    return [TileRow([Cell(text, "accent")]) for text in [*cells, *([""] * (height - high))]]


def _span(seconds: float) -> str:
    """Return a span of time in its largest unit: `40 s`, `5 min`, `24 h`, `7 d`."""
    if seconds >= 172_800:
        return f"{seconds / 86_400:.0f} d"
    if seconds >= 3_600:
        return f"{seconds / 3_600:.0f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"


def _change(values: Sequence[int], currency: str) -> Cell:
    change = values[-1] - values[0] if len(values) > 1 else 0
    if not change:
        return Cell("= 0" if len(values) > 1 else "", "dim")
    glyph = "▲" if change > 0 else "▼"
    tone: Tone = "plus" if change > 0 else "minus"
    return Cell(f"{glyph} {format_amount(change, currency, sign=True)}", tone)


def postings(rate: PostingRate, now: float, width: int, height: int) -> TileContent:
    """Return a bar for each interval since the first known interval; the newest bar is on the right."""
    rows = max(1, height - 1)
    values = rate.per_minute(now, max(1, width - AXIS))
    first = next((n for n, value in enumerate(values) if value is not None), None)
    if first is None:
        return sentence("counting…", width)
    values = values[first:]
    wide = max(1, (width - AXIS) // len(values))
    columns = wide * len(values)
    margin = " " * (width - AXIS - columns)
    top = plot.nice_top(max((value for value in values if value is not None), default=0.0))
    labels = {0: top, rows - 1: 0.0}
    if rows % 2 and rows > 4 and top % 2 == 0:
        labels[rows // 2] = top / 2
    lines = []
    drawn = [value for value in values for _cell in range(wide)]
    for number, bars in enumerate(plot.bars(drawn, rows, top)):
        label = f"{labels[number]:,.0f}" if number in labels else ""
        axis = margin + fit(label, AXIS - 2, "right") + " ┤"
        lines.append(TileRow([Cell(axis, "dim"), *_bar_cells(bars)]))
    span = f"{_span(len(values) * BUCKET_SECONDS)}, bars of {BUCKET_SECONDS} s"
    if None in values:
        span += f", {plot.UNKNOWN} not read"
    begin = max(0, min(width - columns, width - 5 - len(span)))
    below = " " * begin + fit(span, width - 5 - begin)
    lines.append(TileRow([Cell(below + "  now", "dim")]))
    minute = rate.last_minute(now)
    if minute is None:
        return TileContent(lines, [Cell("counting…", "dim")])
    mean, is_estimate = minute
    return TileContent(lines, [Cell(f"{'≈ ' if is_estimate else ''}{mean:,.0f} in the last minute")])


def last_postings(
    rows: Sequence[Record], names: AccountNames, ago: str, width: int, height: int, today: str
) -> TileContent:
    """Return the rows for a quiet ledger: the age of its last transaction, and the newest transactions."""
    titles = ("amount", "account", "description")
    lines = [_record_row(row, TRANSACTIONS, titles, names, width, today) for row in rows[:height]]
    return TileContent(lines, [Cell(f"the newest {ago}", "dim")], "last postings")


def _bar_cells(line: str) -> list[Cell]:
    """Return the cells of a line of bars, with unknown values faint."""
    parts = re.findall(f"{plot.UNKNOWN}+|[^{plot.UNKNOWN}]+", line)
    return [Cell(part, "dim" if part.startswith(plot.UNKNOWN) else "accent") for part in parts]


# ---------------------------------------------------------------------- states


def invoices(figure: Stages, width: int, height: int) -> TileContent:
    """Return the funnel of invoices, and the overdue invoices by age."""
    rows, total = _stages(figure, INVOICES, width), sum(figure.late)
    link = Link("Open invoices", INVOICES.kind, filters={"status": "open"})
    rows += _late(figure, OVERDUE_AGES, "warn", ("overdue", "open and overdue"), link, width, height)
    return TileContent(
        rows, [Cell(f"{total:,} overdue" if total else "none overdue", "warn" if total else "dim")]
    )


def orders(figure: Stages, width: int, height: int) -> TileContent:
    """Return the funnel of orders, and the unshipped orders by age."""
    rows, total = _stages(figure, ORDERS, width), sum(figure.late)
    rows += _late(figure, WAITING_AGES, "accent", ("to do", "to do, by age"), None, width, height)
    return TileContent(rows, [Cell(f"{total:,} to do" if total else "all shipped", "dim")])


def _late(
    figure: Stages, ages: Ages, tone: Tone, names: tuple[str, str], link: Link | None, width: int, height: int
) -> list[TileRow]:
    """Return rows with the numbers of waiting objects by age.

    If the tile is high enough, each group of ages gets a row, and the second text of `names` is the title
    above these rows. Otherwise one row shows all groups, and it begins with the first text of `names`.
    """
    name, title = names
    groups = [(group, count) for (_most, group), count in zip(ages, figure.late, strict=True)]
    if height >= len(figure.stages) + 1 + len(groups):
        most = max(1, *(stage.count for stage in figure.stages))
        rows = [TileRow([Cell(title, "dim")])]
        for group, count in groups:
            cells = [Cell(f"  {group:<8}", "dim"), Cell(f"{count:>5,} ", tone if count else "dim")]
            rows.append(TileRow([*cells, _bar(count / most, width - 16, tone)], link))
        return rows
    total = sum(figure.late)
    each = " · ".join(f"{group} {count}" for group, count in groups if count)
    glyph = "✕" if total and tone == "warn" else "·"
    late = Cell(f"{glyph} {name:<8}{total:>5,} ", tone if total else "dim")
    return [TileRow([late, Cell(each if len(late.text + each) <= width else "", "dim")], link)]


def _stages(figure: Stages, resource: Resource, width: int) -> list[TileRow]:
    most = max(1, *(stage.count for stage in figure.stages))
    rows = []
    for stage in figure.stages:
        glyph, tone = _LOOKS[resource.kind][stage.status]
        link = Link(stage.status, resource.kind, filters={"status": stage.status})
        head = [Cell(f"{glyph} {stage.status:<8}", tone), Cell(f"{_count(stage):>5} ", "strong")]
        left = width - sum(len(cell.text) for cell in head)
        sums = _sums(stage, left - 12)
        room = left - sum(len(cell.text) for cell in sums)
        rows.append(TileRow([*head, _bar(stage.count / most, room, tone), *sums], link))
    return rows


def _count(stage: Stage) -> str:
    return f"{stage.count:,}{'+' if stage.partial else ''}"


def _sums(stage: Stage, room: int) -> list[Cell]:
    """Return the sum of the most frequent currency, and the number of other currencies.

    The number is in words if there is room, otherwise it is like `+2`.
    """
    if not stage.sums:
        return []
    one = stage.sums[0]
    text = f" {format_amount(one.amount, one.currency)} {literal(one.currency)}"
    others = len(stage.sums) - 1
    texts = [text]
    if others:
        texts = [
            f"{text} and {others} other {'currency' if others == 1 else 'currencies'}",
            f"{text} +{others}",
        ]
    return next(([Cell(text, "dim")] for text in texts if len(text) <= room), [])


def _bar(share: float, width: int, tone: Tone) -> Cell:
    """Return a bar, padded to its width; a share above 0 is always visible."""
    width = max(0, width)
    bar_text = (
        plot.meter(max(share, 1 / (8 * width)) if share and width else share, width)[0] if width else ""
    )
    return Cell(bar_text.ljust(width), tone)


# ---------------------------------------------------------------------- requests and webhooks


def requests(figure: RequestFigures, width: int, height: int) -> TileContent:
    """Return the number of answers by status, and the 50th and 95th percentile of the durations."""
    if not len(figure):
        return sentence("No requests of other clients yet.", width)
    counts = {str(status or "none"): count for status, count in figure.by_status()}
    # If there are too few rows to give each status a row, the statuses of a class, such as 2xx, share a row.
    # First merge the statuses within 2xx and within 3xx. If there are still too few rows, merge the statuses
    # within 4xx and within 5xx too.
    for class_pair in ("23", "45"):
        if len(counts) > height - figure.own:  # the note about the dashboard's own requests needs a row
            counts = _by_class(counts, class_pair)
    most = max(counts.values())
    rows = []
    for status, count in counts.items():
        tone: Tone = "plus" if status < "4" else "minus" if status < "5" else "bad"
        head = Cell(f"{'✓' if tone == 'plus' else '✕'} {status:<5}", tone)
        link = _requests_of(status) if status.isdigit() and not figure.own else None
        rows.append(TileRow([head, Cell(f"{count:>5,} "), _bar(count / most, width - 13, tone)], link))
    note = "this dashboard's own" if figure.own else f"the last {len(figure):,} of other clients"
    if len(note) > width:
        note = f"the last {len(figure):,}"
    rows.append(TileRow([Cell(note, "dim")]))
    half, slowest = figure.percentile_ms(50), figure.percentile_ms(95)
    if half is None or slowest is None:
        return TileContent(rows)
    fact = [Cell("p50 ", "dim"), Cell(_ms(half)), Cell("  p95 ", "dim"), Cell(_ms(slowest))]
    return TileContent(rows, fact)


def _by_class(counts: Mapping[str, int], class_pair: str) -> dict[str, int]:
    """Return the counts, with one count such as `2xx` for all statuses that begin with the same digit.

    Merge only statuses whose first digit is in `class_pair`.
    """
    merged_counts: dict[str, int] = {}
    for status, count in counts.items():
        name = f"{status[0]}xx" if status[0] in class_pair else status
        merged_counts[name] = merged_counts.get(name, 0) + count
    return merged_counts


def _requests_of(status: str) -> Link:
    return Link(f"Requests answered {status}", "requests", filters={"status": status})


def _ms(duration: float) -> str:
    return f"{duration:,.0f} ms" if duration >= 1 else "< 1 ms"


def webhooks(figure: Sequence[EndpointHealth], width: int, height: int, today: str) -> TileContent:
    """Return a strip of deliveries for each endpoint, the newest on the right. A high tile also lists the
    newest deliveries. The endpoint that fails most comes first: the user enters a tile at its first row.
    """
    if not figure:
        return sentence("No webhook endpoints.", width)
    fact = [_failing(figure, width)]
    figure = sorted(figure, key=lambda each: each.fails * each.count("failed", "retrying"), reverse=True)
    healths = figure if len(figure) <= height else figure[: height - 1]
    room = height - (len(healths) < len(figure))
    names = _names(healths)
    name_width = min(max(map(len, names), default=0), max(10, width // 3))
    rows: list[TileRow] = []
    for number, (each, name) in enumerate(zip(healths, names, strict=True)):
        high = _share(room, len(healths), number)
        link = Link("Deliveries", "deliveries", filters={"endpoint": str(each.endpoint.get("id"))})
        is_disabled = each.endpoint.get("status") == "disabled"
        healthy: Tone = "warn" if each.fails else "plus"
        dot = Cell("✕ ", "minus") if is_disabled else Cell("● ", healthy)
        share = "" if each.success is None else f"{floor(each.success * 100)} %"
        if high < 2:
            name = name if len(name) <= name_width else "…" + name[-(name_width - 1) :]
            strip = _strip(each, width - name_width - 10)
            cells = [dot, Cell(fit(name, name_width)), Cell("  "), *strip]
            rows.append(TileRow([*cells, Cell(share.rjust(6), "strong")], link, each.endpoint))
            continue
        head = [dot, Cell(fit(name, width - 8)), Cell(share.rjust(6), "strong")]
        rows.append(TileRow(head, link, each.endpoint))
        rows.append(TileRow([Cell("  "), *_strip(each, width - 2)]))
        own = [TileRow([Cell("  "), _state(each, is_disabled=is_disabled)])]
        own += [_delivered(delivery, width, today) for delivery in each.deliveries[: max(0, high - 4)]]
        own += [TileRow([])] * (high - 2 - len(own))
        rows += own[: high - 2]
    if len(healths) < len(figure):
        rows.append(TileRow([Cell(f"and {len(figure) - len(healths)} more endpoints", "dim")]))
    return TileContent(rows, fact)


def _failing(figure: Sequence[EndpointHealth], width: int) -> Cell:
    """Return the number of failing endpoints, with their names if the names fit next to the tile's title.

    If no endpoint fails, return the number of deliveries that did not arrive.
    """
    names = [name for health, name in zip(figure, _names(figure), strict=True) if health.fails]
    if not names:
        missing = sum(health.count("failed", "retrying") for health in figure)
        return Cell(f"{missing} not delivered" if missing else "all well", "dim")
    text = f"{len(names)} of {len(figure)} failing"
    named = f"{text}: {', '.join(names)}"
    return Cell(named if cell_len(named) <= width - _TITLE_WIDTH else text, "warn")


def _delivered(delivery: Record, width: int, today: str) -> TileRow:
    """Return a row about a delivery: its time, its mark, and the type of its event."""
    at = _when(str(delivery.get("created", "")), today)
    room = width - 2 - len(at) - 4
    event = fit(literal(delivery.get("event_type", "")), max(0, room))
    return TileRow([Cell(f"  {at}  ", "dim"), _MARKS[mark_of(delivery)], Cell(f" {event}", "dim")])


def _names(healths: Sequence[EndpointHealth]) -> list[str]:
    """Return the endpoints' URLs, or only the paths if all URLs name one host and the paths differ."""
    urls = [_URL.sub("", literal(each.endpoint.get("url", ""))) for each in healths]
    hosts, paths = {url.partition("/")[0] for url in urls}, {url.partition("/")[2] for url in urls}
    if len(hosts) > 1 or len(paths) < len(urls) or len(urls) == 1:
        return urls
    return ["/" + url.partition("/")[2] for url in urls]


def _strip(health: EndpointHealth, width: int) -> list[Cell]:
    width = max(0, width)
    marks = health.marks[-width:] if width else ()
    return [*(_MARKS[mark] for mark in marks), Cell(" " * (width - len(marks)))]


def _state(health: EndpointHealth, *, is_disabled: bool) -> Cell:
    """Return an endpoint's problem in a few words, or a text for a healthy endpoint."""
    if is_disabled:
        return Cell("disabled", "warn")
    retrying, failures, waiting = health.count("retrying"), health.count("failed"), health.count("waiting")
    parts = [f"{failures} failed"] if failures else []
    parts += [f"{retrying} to be tried again"] if retrying else []
    if parts and health.last_error:
        return Cell(f"{' · '.join(parts)} · {literal(health.last_error)}", "minus")
    parts += [f"{waiting} waiting"] if waiting else []
    well = "every delivery arrived" if health.marks else "nothing sent yet"
    return Cell(" · ".join(parts) or well, "dim")


# ---------------------------------------------------------------------- the ticker


def events(rows: Sequence[Record], names: AccountNames, width: int, height: int, today: str) -> TileContent:
    """Return rows for the newest events, newest first."""
    if not rows:
        return sentence("No events yet.", width)
    return TileContent(
        [_record_row(row, EVENTS, ("event", "about"), names, width, today) for row in rows[:height]]
    )


def newest_postings(
    rows: Sequence[Record], names: AccountNames, width: int, height: int, today: str
) -> TileContent:
    """Return rows for the newest transactions, for a server that shows no events."""
    if not rows:
        return sentence("No postings yet.", width)
    titles = ("amount", "account", "description")
    lines = [
        _record_row(row, TRANSACTIONS, titles, names, width, today) for row in rows[: max(1, height - 1)]
    ]
    lines.append(TileRow([Cell("postings: this server shows no events", "dim")]))
    return TileContent(lines)


def _when(created: str, today: str) -> str:
    """Return the time of a record or, if its date is not `today`, the date in the same width."""
    date, time = literal(created)[:10], literal(created)[11:19]
    if date == today:
        return time.ljust(8)
    return date[5:].ljust(8) if date[:4] == today[:4] else date


def _record_row(
    record: Record, resource: Resource, titles: Sequence[str], names: AccountNames, width: int, today: str
) -> TileRow:
    """Return a row about a record. It begins with its time or, if the record is not of `today`, its date."""
    columns = [column for title in titles for column in resource.columns if column.title == title]
    created = record.get("created")
    cells = [Cell(_when(created, today), "dim")] if isinstance(created, str) else []
    left = width - sum(len(cell.text) for cell in cells)
    for number, column in enumerate(columns):
        cell = column.cell(record, names)
        room = left - 2 if number == len(columns) - 1 else _room(column, left)
        left -= room + 2
        gap = "  " if cells else ""
        cells.append(Cell(gap + fit(cell.text, max(0, room), column.align), cell.tone))
    link = Link("", resource.kind, record_id=str(record.get("id"))) if "id" in record else None
    return TileRow(cells, link, record)


def _room(column: Column, left: int) -> int:
    return max(0, min(column.width, left - 2))
