"""Shows the money that moved between accounts, and into and out of the ledger, in the last hours or days."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container
from textual.content import Content

from ledger_client.errors import LedgerError
from ledger_tui.client.api import Api
from ledger_tui.client.lists import fetch_page
from ledger_tui.client.past import moment_ms, moment_text
from ledger_tui.client.records import Record, Want
from ledger_tui.formats import plot
from ledger_tui.formats.money import format_amount
from ledger_tui.formats.text import fit, literal
from ledger_tui.resources.base import Cell, Link, Place, Tone
from ledger_tui.resources.cells import joined
from ledger_tui.ui.handlers import asks, while_running
from ledger_tui.ui.keys import FLOW_KEYS
from ledger_tui.ui.tiles import Tile, TileContent, TileRow, TimedTiles, sentence
from ledger_tui.ui.view import Context, LinkFollowed, NamesLoaded

OUTSIDE, OTHERS = "", "…"
_ALL_OTHERS = "all other flows"  # the name of the row of the list that sums the smallest flows
# The drawing has on average at least `_ROWS_EACH` rows for each flow, and at most `_ROWS_EACH_MOST`. If the
# drawing has too few rows for all flows, it shows the sum of the smallest flows as "others".
_ROWS_EACH = 2
_ROWS_EACH_MOST = 6
_LEAST_MIDDLE = 12  # the minimum cells between the boxes on the left and on the right
# A side gets `_SIDE` cells, enough for an amount with its currency, if at least `_MIDDLE` cells stay between
# the two sides.
_SIDE, _MIDDLE = 19, 24

Currency = Callable[[object], str | None]
Pair = tuple[str, str, str]  # the account that pays, the account that receives, and the currency


@dataclass(frozen=True)
class Flow:
    """Money moved from one account to another in one currency. OUTSIDE is the world outside the ledger."""

    source: str
    target: str
    currency: str
    amount: int
    count: int


def pair_of(transaction: Record, currency: Currency) -> Pair | None:
    """Return the two accounts between which a transaction moved money; None if the currency is unknown.

    Also return None for the credit of a transfer, so that each transfer is counted once.
    """
    account, other = str(transaction.get("account")), transaction.get("destination")
    code, debit = currency(account), transaction.get("type") == "debit"
    if code is None or (transaction.get("transfer") is not None and not debit):
        return None
    beyond = other if isinstance(other, str) else OUTSIDE
    return (account, beyond, code) if debit else (beyond, account, code)


def flows_of(transactions: Iterable[Record], currency: Currency) -> list[Flow]:
    """Return the flows, sorted by currency and, within a currency, by amount.

    The currency with the most transactions comes first. Within each currency the largest flow comes first.
    """
    amounts, counts, per_currency = Counter[Pair](), Counter[Pair](), Counter[str]()
    for each in transactions:
        pair, amount = pair_of(each, currency), each.get("amount")
        if pair is not None and isinstance(amount, int):
            amounts[pair] += amount
            counts[pair] += 1
            per_currency[pair[2]] += 1
    flows = [Flow(*pair, amount, counts[pair]) for pair, amount in amounts.items()]
    return sorted(flows, key=lambda each: (-per_currency[each.currency], each.currency, -each.amount))


def largest(flows: Sequence[Flow], most: int) -> list[Flow]:
    """Return at most `most` flows of one currency: the largest, and the sum of all others as one flow."""
    if len(flows) <= most:
        return [*flows]
    rest = flows[max(1, most - 1) :]
    others_flow = Flow(
        OTHERS, OTHERS, rest[0].currency, sum(f.amount for f in rest), sum(f.count for f in rest)
    )
    return [*flows[: max(1, most - 1)], others_flow]


def shares(needs: Sequence[int], rows: int) -> list[int]:
    """Return the number of rows for each currency: a fair share of `rows`, but no more rows than it needs.

    `needs` holds the number of rows that each currency needs. Even if `rows` is too small, a currency that
    needs two or more rows gets two rows: for its largest flow, and for "others".
    """
    numbers = [min(need, 2) for need in needs]
    while sum(numbers) < rows and numbers != [*needs]:
        for at, need in enumerate(needs):
            if numbers[at] < need and sum(numbers) < rows:
                numbers[at] += 1
    return numbers


# ---------------------------------------------------------------------- drawing


@dataclass(frozen=True)
class _Box:
    """The box of an account on one side of the drawing: its rows, and the sum of the account's flows."""

    name: str
    top: int
    rows: int
    amount: int


def draw(
    flows: Sequence[Flow], name_of: Callable[[str], str], choice: Flow | None, width: int, height: int
) -> list[list[Cell]]:
    """Return a drawing of the flows of one currency.

    The boxes on the left are the accounts that pay, and the boxes on the right the accounts that receive. A
    band for each flow connects two boxes: the more money flows, the wider the band. The band of the flow
    `choice` has another colour.
    """
    flows = largest(flows, max(1, height // _ROWS_EACH))
    side = max(8, min(26, max((width - _LEAST_MIDDLE) // 3, min(_SIDE, (width - _MIDDLE) // 2))))
    middle = width - 2 * side
    if not flows or height < _ROWS_EACH or middle < 4:
        return []
    thickness = _thickness(flows, height)
    lefts, left_tops = _side(flows, thickness, lambda flow: flow.source, height)
    rights, right_tops = _side(flows, thickness, lambda flow: flow.target, height)
    bits = [[0] * middle for _ in range(height)]
    owner: list[list[Flow | None]] = [[None] * middle for _ in range(height)]
    for flow in sorted(flows, key=lambda each: each == choice):  # draw the chosen flow last, on top
        _band(bits, owner, flow, left_tops[flow], right_tops[flow], thickness[flow])
    lines = []
    for row in range(height):
        left = _box_cell(lefts, row, side, flows[0].currency, name_of, "left")
        right = _box_cell(rights, row, side, flows[0].currency, name_of, "right")
        lines.append([left, *_merged(bits[row], owner[row], choice), right])
    return lines


def _thickness(flows: Sequence[Flow], height: int) -> dict[Flow, int]:
    """Return the number of rows for each flow, in proportion to its amount, so that all boxes fit."""
    boxes = max(len({flow.source for flow in flows}), len({flow.target for flow in flows}))
    room = max(len(flows), min(height - (boxes - 1), _ROWS_EACH_MOST * len(flows)))
    total = sum(flow.amount for flow in flows) or 1
    rows = {flow: max(1, room * flow.amount // total) for flow in flows}
    while sum(rows.values()) > room:
        widest = max(rows, key=lambda flow: rows[flow])
        rows[widest] -= 1
    return rows


def _side(
    flows: Sequence[Flow], thickness: dict[Flow, int], end: Callable[[Flow], str], height: int
) -> tuple[list[_Box], dict[Flow, int]]:
    """Return the boxes of one side, the largest on top, and the first row of each flow on this side."""
    groups: dict[str, list[Flow]] = {}
    for flow in flows:
        groups.setdefault(end(flow), []).append(flow)
    groups_in_order = sorted(
        groups.items(), key=lambda each: (each[0] == OTHERS, -sum(f.amount for f in each[1]))
    )
    gap = 1 if sum(thickness.values()) + len(groups) - 1 <= height else 0
    top = max(0, (height - sum(thickness.values()) - gap * (len(groups) - 1)) // 2)
    boxes, tops = [], {}
    for name, box_flows in groups_in_order:
        boxes.append(
            _Box(
                name, top, sum(thickness[flow] for flow in box_flows), sum(flow.amount for flow in box_flows)
            )
        )
        for flow in box_flows:
            tops[flow] = top
            top += thickness[flow]
        top += gap
    return boxes, tops


def _band(
    bits: list[list[int]], owner: list[list[Flow | None]], flow: Flow, left: int, right: int, rows: int
) -> None:
    """Fill the dots of a band that runs smoothly from a row on the left to a row on the right."""
    columns, height = len(bits[0]) * 2, len(bits) * 4
    for column in range(columns):
        share = column / max(1, columns - 1)
        share = share * share * (3 - 2 * share)
        top = round((left + (right - left) * share) * 4)
        for dot in range(max(0, top), min(height, top + rows * 4 - 1)):  # one dot stays free between bands
            row, cell = dot // 4, column // 2
            if owner[row][cell] is not flow:
                bits[row][cell], owner[row][cell] = 0, flow
            bits[row][cell] |= plot.DOTS[column % 2][dot % 4]


def tone_of(flow: Flow | None, choice: Flow | None) -> Tone:
    """Return the tone of a flow.

    The chosen flow and "others" each have a tone. The other flows have three tones: for money that comes into
    the ledger, money that leaves the ledger, and money that moves between accounts.
    """
    if flow is None or flow.source == OTHERS:
        return "dim"
    if flow == choice:
        return "accent"
    return "plus" if flow.source == OUTSIDE else "minus" if flow.target == OUTSIDE else "plain"


def _merged(bits: list[int], owners: list[Flow | None], choice: Flow | None) -> list[Cell]:
    """Return a row of dots; neighbouring dots of the same tone form one cell."""
    dots = zip(bits, owners, strict=True)
    return joined(Cell(chr(plot.BRAILLE + bit) if bit else " ", tone_of(flow, choice)) for bit, flow in dots)


def _box_cell(
    boxes: Sequence[_Box], row: int, width: int, currency: str, name_of: Callable[[str], str], side: str
) -> Cell:
    """Return the cell of one row on one side of the drawing.

    If a box covers the row, the cell has the edge of this box. In the middle of the box, the cell also has
    the name of the account or the sum of its flows. If the box has only one row, this cell has the name and,
    if there is room, the sum.
    """
    box = next((each for each in boxes if each.top <= row < each.top + each.rows), None)
    if box is None:
        return Cell(" " * width)
    at = row - box.top - (box.rows - 1) // 2
    amount = format_amount(box.amount, currency)
    if box.rows == 1:
        room = max(0, width - len(amount) - 3)
        text = f"{fit(name_of(box.name), room)} {amount}" if room >= 6 else name_of(box.name)
    else:
        text = name_of(box.name) if at == 0 else f"{amount} {currency}" if at == 1 else ""
    tone: Tone = "strong" if at == 0 else "dim"
    if side == "left":
        return Cell(f"{fit(text, width - 2, 'right')} ▐", tone)
    return Cell(f"▌ {fit(text, width - 2)}", tone)


SPANS = (
    (15, "15 minutes"),
    (60, "hour"),
    (360, "6 hours"),
    (1_440, "day"),
    (10_080, "week"),
    (43_200, "30 days"),
)
_WIDE_COLUMNS = 110
_PAGES = 20
_LEAST_NAME = 6


@dataclass(frozen=True)
class FlowsReading:
    """The transactions of a window of time, newest first; `whole` is true if no transaction is missing.

    If the names of accounts were read too, `accounts` contains these accounts.
    """

    rows: list[Record]
    whole: bool
    accounts: Sequence[Record] = ()


async def read_since(api: Api, start_ms: int, known_rows: Sequence[Record], pages: int) -> FlowsReading:
    """Read the transactions after a moment with at most `pages` requests.

    The read stops at the newest transaction of `known_rows`. All older transactions come from `known_rows`.
    """
    params = {"created_after": moment_text(start_ms)}
    newest = known_rows[0].get("id") if known_rows else None
    rows: list[Record] = []
    want = Want(0, "page", 0, None)
    for _page in range(pages):
        page = await fetch_page(api, "/v1/transactions", params, want)
        for row in page.rows:
            if row.get("id") == newest:
                start = moment_text(start_ms)
                return FlowsReading(
                    [*rows, *(each for each in known_rows if str(each.get("created")) > start)], True
                )
            rows.append(row)
        if page.older is None:
            return FlowsReading(rows, True)
        want = Want(0, "page", 0, page.older)
    return FlowsReading(rows, False)


class FlowsView(TimedTiles):
    """The screen of flows, which draws them as bands and as a list. Enter on a row of the list leads to the
    flow's postings. Enter on the row "all other flows" shows the smaller flows that this row sums, until esc.
    """

    BINDINGS = FLOW_KEYS
    lines_offered = "commands"

    spans = SPANS
    span = 3

    def __init__(self, place: Place, context: Context) -> None:
        super().__init__(place, context)
        self._accounts_read = False
        # whether the drawn flows belong to the former window of time or the former moment
        self._is_old = False
        self._last_reading: FlowsReading | None = None
        # the transactions of the last read, so that the next read can stop at them
        self._known_rows: Sequence[Record] = ()
        self._flows: list[Flow] = []
        # While the smaller flows of a currency are shown: the currency, and the numbers of its largest flows
        # that were left out, one number for each press of enter.
        self._left_out: tuple[str, list[int]] = ("", [])
        self._list = Tile("flows", self._draw_list, Link("", "transactions"), id="flow-list", scrolls=True)
        self._bands = Tile("money", self._draw_bands, Link("", "transactions"), id="flow-bands")
        self.tiles = (self._list, self._bands)

    def compose(self) -> ComposeResult:
        yield self.caption
        yield Container(self._bands, self._list, id="flow-tiles")

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width >= _WIDE_COLUMNS, "-wide")
        self.draw()

    # ------------------------------------------------------------------ reading

    @property
    def has_figures(self) -> bool:
        return self._last_reading is not None

    @property
    def _since(self) -> str:
        """The moment after which all transactions were read, in the format of the interface.

        This is the beginning of the window. But if the window has more transactions than one read returns,
        this is the moment just before the oldest transaction that was read.
        """
        read = self._last_reading
        oldest = None if read is None or read.whole else moment_ms(read.rows[-1].get("created"))
        return moment_text(self.start_ms if oldest is None else oldest - 1)

    def poll(self) -> float:
        self.reading = True
        self._load(self.start_ms)
        return self.context.session.poll_seconds

    def forget(self) -> None:
        super().forget()
        self._last_reading = None
        self.reading, self._known_rows = False, ()

    def moment_changed(self) -> None:
        # The old flows stay on the screen until the new transactions are read. But a read must not stop at
        # the old transactions, because they belong to another window.
        self._known_rows = []
        self._is_old = True
        self.poll()
        self.draw_caption()

    @asks("flows")
    async def _load(self, start_ms: int) -> None:
        api, traffic = self.context.api, self.context.traffic
        moment, count = api.session.moment_ms, traffic.count
        known_rows = self._known_rows if moment is None else ()
        try:
            read = await read_since(api, start_ms, known_rows, _PAGES)
            if not self._accounts_read:
                accounts = await fetch_page(api, "/v1/accounts", {}, Want(0, "page", 0, None))
                read = replace(read, accounts=accounts.rows)
        except LedgerError as error:
            self.call_later(self.failed, literal(error))
        else:
            self.call_later(self._take, read, traffic.count - count)

    @while_running
    def _take(self, read: FlowsReading, requests: int) -> None:
        self.end_read(requests)
        self._is_old = False
        self._last_reading, self._known_rows = read, read.rows if read.whole else ()
        if read.accounts and self.context.names.learn(read.accounts):
            self.post_message(NamesLoaded())
        self._accounts_read = self._accounts_read or bool(read.accounts)
        self._compute()

    def _compute(self) -> None:
        if self._last_reading is None:
            return
        self._flows = flows_of(self._last_reading.rows, self.context.names.currency)
        self.draw()

    def names_loaded(self) -> None:
        self._compute()

    # ------------------------------------------------------------------ drawing

    def caption_text(self) -> Content:
        window = f"the last {SPANS[self.span][1]}"
        left, count = Content.assemble(" ", ("Flows", "bold"), "  "), ""
        if self._is_old and self._last_reading is not None:
            count = "  reading…"
        elif self._last_reading is not None and not self._last_reading.whole:
            since = self._since[5:16].replace("T", " ")
            window = f"the newest {len(self._last_reading.rows):,} postings of {window}, since {since}"
        elif self._last_reading is not None:
            count = f"  {len(self._last_reading.rows):,} postings"
        return left + window + self.status(Content.styled(count, "$muted"))

    def _named(self, account: str) -> str:
        names = {OUTSIDE: "outside", OTHERS: "others"}
        return names.get(account) or literal(self.context.names.name(account))

    @property
    def _chosen(self) -> Flow | None:
        """The flow that the chosen row of the list shows."""
        row = self._list.chosen
        by_label = {_row_link(flow).label: flow for flow in self._listed()}
        return by_label.get(row.link.label) if row is not None and row.link is not None else None

    def _listed(self) -> list[Flow]:
        """Return the flows to draw: the largest of each currency, and the sum of its other flows as "others".

        The list and the bands show the same number of flows, so "others" stands for the same flows in the
        list and in the bands.
        """
        rows, bands = (tile.content_size.height - 1 for tile in (self._list, self._bands))  # below the title
        by_currency: dict[str, list[Flow]] = {}
        for flow in self._smaller_flows() or self._flows:
            by_currency.setdefault(flow.currency, []).append(flow)
        most = max(1, bands // _ROWS_EACH)
        numbers = shares([min(most, len(flows)) for flows in by_currency.values()], rows)
        return [
            flow
            for flows, number in zip(by_currency.values(), numbers, strict=True)
            for flow in largest(flows, number)
        ]

    def _smaller_flows(self) -> list[Flow]:
        """Return the flows that the last chosen row of "others" summed; [] if no such row was opened."""
        currency, numbers = self._left_out
        return [flow for flow in self._flows if flow.currency == currency][numbers[-1] :] if numbers else []

    def _draw_bands(self, width: int, height: int) -> TileContent:
        if not self._flows:
            return sentence(self._why_empty(), width)
        choice = self._chosen or self._listed()[0]
        flows = [flow for flow in self._listed() if flow.currency == choice.currency]
        lines = draw(flows, self._named, choice, width, height)
        return TileContent([TileRow(line) for line in lines], [Cell(choice.currency, "dim")])

    def _why_empty(self) -> str:
        if self._last_reading is None:
            return "loading…"
        return "Nothing moved. + widens the window."

    def _draw_list(self, width: int, _height: int) -> TileContent:
        if not self._flows:
            return sentence(self._why_empty(), width)
        rows, flows = [], self._listed()
        widest = max(4, *(len(f"{flow.count:,}") for flow in flows))
        amounts = [f"{format_amount(flow.amount, flow.currency)} {flow.currency}" for flow in flows]
        # Besides the names, the amount and the count, a row has an arrow (3 cells), two gaps and the sign ×.
        left, right = name_widths(
            max(cell_len(self._named(flow.source)) for flow in flows),
            max(cell_len(self._named(flow.target)) for flow in flows),
            width - max(map(len, amounts)) - widest - 6,
        )
        for flow, amount in zip(flows, amounts, strict=True):
            between = f"{fit(self._named(flow.source), left)} → {fit(self._named(flow.target), right)}"
            if flow.source == OTHERS:
                between = fit(_ALL_OTHERS, left + 3 + right)
            room = max(0, width - cell_len(between) - widest - 2)
            cells = (
                Cell(between, "dim" if flow.source == OTHERS else "plain"),
                Cell(fit(amount, room, "right"), tone_of(flow, None)),
                Cell(f" {flow.count:>{widest},}×", "dim"),
            )
            rows.append(TileRow(cells, _row_link(flow)))
        if not (smaller := self._smaller_flows()):
            return TileContent(rows)
        number, shown = self._left_out[1][-1], sum(flow.source != OTHERS for flow in flows)
        places = f"{number + 1}–{number + shown} of {number + len(smaller)}"
        return TileContent(rows, [Cell(places, "dim")], "smaller flows")

    def _link(self, flow: Flow) -> Link:
        """Return the link to the postings of a flow."""
        inward = flow.source == OUTSIDE
        own, other = (flow.target, OUTSIDE) if inward else (flow.source, flow.target)
        filters = {"account": own, "type": "credit" if inward else "debit", "other": other or "outside"}
        return Link("Its postings", "transactions", filters={"created_after": self._since, **filters})

    # ------------------------------------------------------------------ keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "back" and self._smaller_flows() and self.context.session.moment_ms is None:
            return True
        return super().check_action(action, parameters)

    def key_text(self, binding: Binding) -> str:
        """Return the description of a key in the key bar."""
        is_others = self._chosen is not None and self._chosen.source == OTHERS
        return "smaller flows" if binding.action == "open" and is_others else binding.description

    def action_open(self) -> None:
        choice = self._chosen
        if choice is not None and choice.source == OTHERS:
            self._show_smaller(choice.currency)
        elif choice is not None:
            self.post_message(LinkFollowed(self._link(choice)))

    def action_back(self) -> None:
        """Show the larger flows again; if these are shown, go back to another screen."""
        currency, numbers = self._left_out
        if not self._smaller_flows():
            super().action_back()
            return
        numbers.pop()
        self.draw()
        listed = self._listed()
        self._choose(next((n for n, flow in enumerate(listed) if _is_rest(flow, currency)), 0))

    def _show_smaller(self, currency: str) -> None:
        """Show the flows that the row "others" of this currency sums."""
        numbers = self._left_out[1] if self._smaller_flows() else []
        listed = [flow for flow in self._listed() if flow.currency == currency and flow.source != OTHERS]
        self._left_out = currency, [*numbers, (numbers[-1] if numbers else 0) + len(listed)]
        self.draw()
        self._choose(0)

    def _choose(self, row: int) -> None:
        """Choose this row of the list."""
        self._list.move(-len(self._flows))
        self._list.move(row)
        self._bands.show_changes()
        self.refresh_bindings()

    def action_choose(self, step: int) -> None:
        super().action_choose(step)
        self._bands.show_changes()

    def shown_path(self) -> str:
        return f"/v1/transactions?created_after={self._since}"


def name_widths(source: int, target: int, room: int) -> tuple[int, int]:
    """Return the widths of the column of source names and of the column of target names.

    `source` and `target` are the widths that these names need. If `room` is too small for both columns, each
    column gets half of it, and the cells of the other half that the other column does not need.
    """
    left = max(_LEAST_NAME, min(source, max(room // 2, room - target)))
    return left, max(_LEAST_NAME, min(target, room - left))


def _is_rest(flow: Flow, currency: str) -> bool:
    return flow.source == OTHERS and flow.currency == currency


def _row_link(flow: Flow) -> Link:
    """Return a link whose label identifies the row of a flow, even if the amount or the window changes."""
    return Link(f"{flow.currency} {flow.source} {flow.target}", "transactions")
