"""The overview: the state of the ledger on one screen."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

from textual import events, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Static

from ledger_tui.actions import VIEW_KEYS
from ledger_tui.client import figures
from ledger_tui.client.errors import ClientError, NotOffered
from ledger_tui.handlers import handles
from ledger_tui.messages import FigureLoaded, NamesLoaded
from ledger_tui.resources.base import Cell, Place, Tone
from ledger_tui.resources.transactions import TRANSACTIONS
from ledger_tui.state import plot
from ledger_tui.state.figures import BUCKET_SECONDS, Balances, Health, OpenInvoices, PostingRate, Sum
from ledger_tui.state.money import format_amount
from ledger_tui.state.text import fit, literal
from ledger_tui.state.window import Record
from ledger_tui.widgets.columns import GAP, MARGIN, fit_columns
from ledger_tui.widgets.panel import Lines, Panel
from ledger_tui.widgets.status_bar import awaited
from ledger_tui.widgets.view import Context, View

_PAGES = 10  # read at most for one figure, on a server with a high rate limit
_GENEROUS_LIMIT = 600
_PACE_SECONDS = 0.15  # between figures on a server with a small burst
_AXIS = 8  # cells left of the plot
_TALL_ROWS = 32  # from this height on the latest postings are shown
_LATEST = 40
_PARTS = {"invoices": "invoices.list", "health": "webhook_endpoints"}
_LACKS = {
    "invoices": "This server has no list of invoices.",
    "health": "This server shows no webhook deliveries.",
}


class Overview(View, can_focus=True):
    """Reads its figures one after the other, within the share of the rate limit that polling may use."""

    BINDINGS = VIEW_KEYS

    def __init__(self, place: Place, context: Context) -> None:
        super().__init__(place, context)
        self.rate = PostingRate()
        self.figures: dict[str, Any] = {}
        self.latest: list[Record] = []
        self.problem = ""
        self._requests = 1
        self._reading = False

    def compose(self) -> ComposeResult:
        yield Static(id="overview-caption")
        with Horizontal(classes="upper"):
            yield Panel("balances", self._draw_balances, id="balances")
            with Vertical():
                yield Panel("rate limit", self._draw_limit, id="limit")
                yield Panel("open invoices", self._draw_invoices, id="invoices-open")
                yield Panel("webhook deliveries, the newest", self._draw_health, id="health")
        yield Panel("postings per minute", self._draw_rate, id="rate")
        yield Panel("latest postings", self._draw_latest, id="latest")

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height >= _TALL_ROWS, "-tall")

    # ------------------------------------------------------------------ reading

    def may_poll(self) -> bool:
        return not self._reading

    def poll(self) -> float:
        self._reading = True
        self._read()
        return self.context.session.pause_after(self._requests)

    @work(group="figures", exclusive=True, exit_on_error=False)
    async def _read(self) -> None:
        api, session = self.context.api, self.context.session
        generous = session.limit is None or session.limit >= _GENEROUS_LIMIT
        pages = _PAGES if generous else 1
        before = self.context.traffic.count
        for name in ("rate", "balances", "invoices", "health"):
            if _PARTS.get(name) in session.missing_parts:
                self.post_message(FigureLoaded(name, _LACKS[name]))
                continue
            try:
                match name:
                    case "rate":
                        figure: Any = await figures.read_postings(api, self.rate.newest, pages)
                    case "balances":
                        figure = await figures.read_balances(api, pages)
                    case "invoices":
                        figure = await figures.read_open_invoices(api, min(pages, 3))
                    case _:
                        figure = await figures.read_health(api)
            except NotOffered:
                figure = _LACKS.get(name, "This server does not have it.")
            except ClientError as error:
                figure = literal(error)
            self.post_message(FigureLoaded(name, figure))
            if not generous:
                await asyncio.sleep(_PACE_SECONDS)
        self.post_message(FigureLoaded("done", max(1, self.context.traffic.count - before)))

    @handles(FigureLoaded)
    def take_figure(self, message: FigureLoaded) -> None:
        """Show a figure; a text in its place says why there is none."""
        message.stop()
        name, figure = message.name, message.figure
        if name == "done":
            self._reading = False
            self._requests = figure
            session = self.context.session
            self.next_poll_at = session.clock() + session.pause_after(figure)
        elif isinstance(figure, figures.Postings):
            self.rate.take(figure.rows, now=figure.now, reached=figure.reached)
            self.figures["rate"] = self.rate
            self.latest = figure.rows[:_LATEST]
        elif name == "balances" and not isinstance(figure, str):
            balances, accounts = figure
            self.figures["balances"] = balances
            if accounts:
                self.context.session.saw_livemode(accounts[0].get("livemode"))
            if self.context.names.learn(accounts):
                self.post_message(NamesLoaded())
        else:
            self.figures[name] = figure
        self._draw()

    def failed(self, problem: str) -> None:
        self.problem = problem
        self._reading = False
        self._draw()

    def tick(self) -> None:
        super().tick()
        for name in ("#limit", "#rate"):  # the time to the reset and the bars change without a request
            self.query_one(name).refresh()

    def session_changed(self) -> None:
        if not self.figures:
            self._draw()

    def _draw(self) -> None:
        now = time.strftime("%H:%M:%S", time.gmtime(self.context.session.server_time))
        right = f"✕ {self.problem} " if self.problem else f"{now} UTC "
        left = " Overview"
        width_left = max(1, self.size.width - len(left) - len(right))
        style = "bold $error" if self.problem else "$muted"
        self.query_one("#overview-caption", Static).update(
            Content.assemble((left, "bold"), " " * width_left, (right, style))
        )
        for panel in self.query(Panel):
            panel.refresh()

    def names_loaded(self) -> None:
        self._draw()

    def shown_path(self) -> str:
        return "/v1/accounts"

    # ------------------------------------------------------------------ drawing

    def _figure(self, name: str) -> tuple[Any, Lines]:
        """Return a figure, or None and the lines to show instead."""
        figure = self.figures.get(name)
        if figure is None:
            return None, [[Cell(awaited(self.context.session).plain, "dim")]]
        if isinstance(figure, str):
            return None, [[Cell(figure, "dim")]]
        return figure, []

    def _draw_balances(self, width: int, height: int) -> Lines:
        balances, instead = self._figure("balances")
        if not isinstance(balances, Balances):
            return instead
        if not balances.accounts:
            return [[Cell("No accounts yet.", "dim")]]
        lines = _sum_lines(balances.sums, height - 1, "account")
        text = f"{balances.accounts:,} account{'s' if balances.accounts != 1 else ''}"
        text = f"of the newest {text}" if balances.partial else f"{text} in all"
        return [*lines, [Cell(text, "dim")]]

    def _draw_limit(self, width: int, _height: int) -> Lines:
        session = self.context.session
        if not session.limit or session.remaining is None:
            return [[Cell("This server sends no rate limit.", "dim")]]
        share = session.remaining / session.limit
        filled, empty = plot.meter(share, max(4, min(24, width - 22)))
        tone: Tone = "warn" if share < 0.1 else "accent"
        left = Cell(f"  {session.remaining:,} of {session.limit:,} left")
        reset = Cell(f"resets in {session.reset_seconds} s", "dim")
        return [[Cell(filled, tone), Cell(empty, "dim"), left], [reset]]

    def _draw_invoices(self, _width: int, _height: int) -> Lines:
        invoices, instead = self._figure("invoices")
        if not isinstance(invoices, OpenInvoices):
            return instead
        if not invoices.count:
            return [[Cell("No open invoices.", "dim")]]
        more = "+" if invoices.partial else ""
        late: list[Cell] = [Cell(f" · {invoices.overdue} overdue", "warn")] if invoices.overdue else []
        sums = [f"{literal(one.currency)} {format_amount(one.amount, one.currency)}" for one in invoices.sums]
        return [[Cell(f"◐ {invoices.count}{more} open", "accent"), *late], [Cell(" · ".join(sums))]]

    def _draw_health(self, width: int, _height: int) -> Lines:
        health, instead = self._figure("health")
        if not isinstance(health, Health):
            return instead
        if not health.endpoints:
            return [[Cell("No webhook endpoints.", "dim")]]
        states = health.by_status
        cells = [
            Cell(f"✓ {states.get('succeeded', 0)}", "plus"),
            Cell(f"   ◔ {states.get('pending', 0)} waiting", "accent" if states.get("pending") else "dim"),
            Cell(f"   ✕ {states.get('failed', 0)} failed", "bad" if states.get("failed") else "dim"),
        ]
        of = f"to {health.endpoints} endpoint{'s' if health.endpoints != 1 else ''}"
        lines = [cells, [Cell(of, "dim")]]
        if health.disabled:
            lines[1].append(Cell(f", {health.disabled} disabled", "warn"))
        if health.last_error:
            lines.append([Cell(f"last: {literal(health.last_error)}", "minus")])
        return lines

    def _draw_rate(self, width: int, height: int) -> Lines:
        rate, instead = self._figure("rate")
        if not isinstance(rate, PostingRate):
            return instead
        columns, rows = width - _AXIS, max(1, height - 2)
        now = self.context.session.server_time
        values = rate.per_minute(now, columns)
        known = [value for value in values if value is not None]
        top = plot.nice_top(max(known, default=0.0))
        lines = []
        has_middle = rows % 2 and rows > 4 and top % 2 == 0
        labels = {0: top, rows - 1: 0.0} | ({rows // 2: top / 2} if has_middle else {})
        for number, bars in enumerate(plot.bars(values, rows, top)):
            label = f"{labels[number]:,.0f}" if number in labels else ""
            lines.append([Cell(fit(label, _AXIS - 2, "right") + " ┤", "dim"), *_bar_cells(bars)])
        minute = rate.last_minute(now)
        summary = "counting…"
        if minute is not None:
            mean, guessed = minute
            summary = f"{'≈ ' if guessed else ''}{mean:,.0f} in the last minute"
        span = f"each bar is {BUCKET_SECONDS} s, {columns * BUCKET_SECONDS / 60:.0f} minutes"
        if None in values:
            span += f", {plot.UNKNOWN} not read"
        width_left = max(1, width - _AXIS - len(summary) - len(span))
        return [*lines, [Cell(" " * _AXIS), Cell(span, "dim"), Cell(" " * width_left), Cell(summary)]]

    def _draw_latest(self, width: int, height: int) -> Lines:
        columns = fit_columns(TRANSACTIONS.columns[:-1], width + MARGIN)  # all but the id
        lines = []
        for record in self.latest[:height]:
            cells: list[Cell] = []
            for number, (column, width_left) in enumerate(columns):
                cell = column.cell(record, self.context.names)
                gap = " " * GAP if number else ""
                cells.append(Cell(gap + fit(cell.text, width_left, column.align), cell.tone))
            lines.append(cells)
        return lines or [[Cell("None yet.", "dim")]]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "back"


def _bar_cells(line: str) -> list[Cell]:
    """Return the cells of a line of bars, with unknown values faint."""
    parts = re.findall(f"{plot.UNKNOWN}+|[^{plot.UNKNOWN}]+", line)
    return [Cell(part, "dim" if part.startswith(plot.UNKNOWN) else "accent") for part in parts]


def _sum_lines(sums: Any, most: int, each: str) -> list[list[Cell]]:
    """Return sums as aligned lines; when there are too many, the last line counts those left out."""
    shown: list[Sum] = list(sums)
    over = len(shown) - most
    if over > 0:
        shown = shown[: max(0, most - 1)]
    texts = [format_amount(one.amount, one.currency) for one in shown]
    widest = max(map(len, texts), default=0)
    lines = []
    for one, text in zip(shown, texts, strict=True):
        count = f"  {one.count:,} {each}{'s' if one.count != 1 else ''}" if each else ""
        tone: Tone = "minus" if one.amount < 0 else "strong"
        lines.append(
            [Cell(f"{literal(one.currency):<3}  ", "dim"), Cell(text.rjust(widest), tone), Cell(count, "dim")]
        )
    if over > 0:
        lines.append([Cell(f"and {len(sums) - len(shown)} more currencies", "dim")])
    return lines
