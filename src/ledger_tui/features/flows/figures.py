"""Money that moved between accounts and the outside: from transactions, and drawn as bands. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ledger_tui.client.past import moment_ms
from ledger_tui.client.records import Record
from ledger_tui.formats.money import format_amount
from ledger_tui.formats.text import fit
from ledger_tui.resources.base import Cell, Tone

OUTSIDE, OTHERS = "", "…"
DAY_MS = 86_400_000
_BRAILLE = 0x2800
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_ROWS_EACH = 2  # of the drawing for each flow, at least, or it is among the others
_ROWS_EACH_MOST = 6
_LEAST_MIDDLE = 12

Currency = Callable[[object], str | None]
Pair = tuple[str, str, str]  # the account it comes from, the one it goes to, and the currency


@dataclass(frozen=True)
class Flow:
    """What moved from one account to another in one currency; OUTSIDE is what no account of the ledger is."""

    source: str
    target: str
    currency: str
    amount: int
    count: int


def pair_of(transaction: Record, currency: Currency) -> Pair | None:
    """Return between which accounts a transaction moved money.

    None for a side of a transfer that its other side shows, and where the currency is not known.
    """
    account, other = str(transaction.get("account")), transaction.get("destination")
    known, debit = currency(account), transaction.get("type") == "debit"
    if known is None or (transaction.get("transfer") is not None and not debit):
        return None
    beyond = other if isinstance(other, str) else OUTSIDE
    return (account, beyond, known) if debit else (beyond, account, known)


def flows_of(transactions: Iterable[Record], currency: Currency) -> list[Flow]:
    """Return the flows, those of the currency with the most first, of each currency the largest first."""
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
    """Return the flows of one currency, with all but the largest summed as one."""
    if len(flows) <= most:
        return [*flows]
    rest = flows[max(1, most - 1) :]
    summed = Flow(OTHERS, OTHERS, rest[0].currency, sum(f.amount for f in rest), sum(f.count for f in rest))
    return [*flows[: max(1, most - 1)], summed]


def unusual(transactions: Sequence[Record], before: Iterable[Record], currency: Currency) -> list[Record]:
    """Return the transactions of those hours in which more moved than in the same hour on any day before."""
    usual: dict[tuple[Pair, int], Counter[int]] = defaultdict(Counter)
    for each in before:
        pair, at = pair_of(each, currency), moment_ms(each.get("created"))
        if pair is not None and at is not None:
            usual[pair, _hour(at)][at // DAY_MS] += each.get("amount", 0)
    moved = Counter[tuple[Pair, int]]()
    by_hour = [(each, _pair_and_hour(each, currency)) for each in transactions]
    for each, key in by_hour:
        if key is not None:
            moved[key] += each.get("amount", 0)

    def stands_out(key: tuple[Pair, int]) -> bool:
        pair, hour = key
        return moved[key] > max(usual[pair, hour % 24].values(), default=0)

    return [each for each, key in by_hour if key is not None and stands_out(key)]


def _hour(ms: int) -> int:
    return datetime.fromtimestamp(ms / 1000, UTC).hour


def _pair_and_hour(transaction: Record, currency: Currency) -> tuple[Pair, int] | None:
    """Return between which accounts, and in which hour since 1970, of which 24 are a day."""
    pair, at = pair_of(transaction, currency), moment_ms(transaction.get("created"))
    return None if pair is None or at is None else (pair, at // 3_600_000)


# ---------------------------------------------------------------------- drawing


@dataclass(frozen=True)
class _Box:
    """An account on one side: its place in rows, and the flows that leave or enter it."""

    name: str
    top: int
    rows: int
    amount: int


def draw(
    flows: Sequence[Flow], named: Callable[[str], str], chosen: Flow | None, width: int, height: int
) -> list[list[Cell]]:
    """Return flows of one currency as bands from the boxes on the left to those on the right.

    The width of a band is its amount. The `chosen` one has a colour of its own.
    """
    flows = largest(flows, max(1, height // _ROWS_EACH))
    side = max(8, min(26, (width - _LEAST_MIDDLE) // 3))
    middle = width - 2 * side
    if not flows or height < _ROWS_EACH or middle < 4:
        return []
    thickness = _thickness(flows, height)
    lefts, left_tops = _side(flows, thickness, lambda flow: flow.source, height)
    rights, right_tops = _side(flows, thickness, lambda flow: flow.target, height)
    bits = [[0] * middle for _ in range(height)]
    owner: list[list[Flow | None]] = [[None] * middle for _ in range(height)]
    for flow in sorted(flows, key=lambda each: each == chosen):  # the chosen one above the others
        _band(bits, owner, flow, left_tops[flow], right_tops[flow], thickness[flow])
    lines = []
    for row in range(height):
        left = _box_cell(lefts, row, side, flows[0].currency, named, "left")
        right = _box_cell(rights, row, side, flows[0].currency, named, "right")
        lines.append([left, *_merged(bits[row], owner[row], chosen), right])
    return lines


def _thickness(flows: Sequence[Flow], height: int) -> dict[Flow, int]:
    """Return the rows of each flow, in proportion to its amount, so that the boxes have room between them."""
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
    """Return the boxes of one side, the largest on top, and the row in which each flow begins there."""
    groups: dict[str, list[Flow]] = {}
    for flow in flows:
        groups.setdefault(end(flow), []).append(flow)
    ordered = sorted(groups.items(), key=lambda each: (each[0] == OTHERS, -sum(f.amount for f in each[1])))
    gap = 1 if sum(thickness.values()) + len(groups) - 1 <= height else 0
    top = max(0, (height - sum(thickness.values()) - gap * (len(groups) - 1)) // 2)
    boxes, tops = [], {}
    for name, its in ordered:
        boxes.append(_Box(name, top, sum(thickness[flow] for flow in its), sum(flow.amount for flow in its)))
        for flow in its:
            tops[flow] = top
            top += thickness[flow]
        top += gap
    return boxes, tops


def _band(
    bits: list[list[int]], owner: list[list[Flow | None]], flow: Flow, left: int, right: int, rows: int
) -> None:
    """Fill the dots of a band that goes smoothly from a row on the left to one on the right."""
    columns, height = len(bits[0]) * 2, len(bits) * 4
    for column in range(columns):
        share = column / max(1, columns - 1)
        share = share * share * (3 - 2 * share)
        top = round((left + (right - left) * share) * 4)
        for dot in range(max(0, top), min(height, top + rows * 4 - 1)):  # a dot stays free between two bands
            row, cell = dot // 4, column // 2
            if owner[row][cell] is not flow:
                bits[row][cell], owner[row][cell] = 0, flow
            bits[row][cell] |= _DOTS[column % 2][dot % 4]


def tone_of(flow: Flow | None, chosen: Flow | None) -> Tone:
    """Return the tone of a flow: into the ledger, out of it, or between its accounts."""
    if flow is None or flow.source == OTHERS:
        return "dim"
    if flow == chosen:
        return "accent"
    return "plus" if flow.source == OUTSIDE else "minus" if flow.target == OUTSIDE else "plain"


def _merged(bits: list[int], owners: list[Flow | None], chosen: Flow | None) -> list[Cell]:
    """Return a row of dots, each run of one tone as one cell."""
    cells: list[Cell] = []
    for bit, flow in zip(bits, owners, strict=True):
        text, tone = chr(_BRAILLE + bit) if bit else " ", tone_of(flow, chosen)
        if cells and cells[-1].tone == tone:
            cells[-1] = Cell(cells[-1].text + text, tone)
        else:
            cells.append(Cell(text, tone))
    return cells


def _box_cell(
    boxes: Sequence[_Box], row: int, width: int, currency: str, named: Callable[[str], str], side: str
) -> Cell:
    """Return a row of a side: the edge of a box, its name in the middle, and below that its sum."""
    box = next((each for each in boxes if each.top <= row < each.top + each.rows), None)
    if box is None:
        return Cell(" " * width)
    at = row - box.top - (box.rows - 1) // 2
    amount = format_amount(box.amount, currency)
    if box.rows == 1:
        room = max(0, width - len(amount) - 3)
        text = f"{fit(named(box.name), room)} {amount}" if room >= 6 else named(box.name)
    else:
        text = named(box.name) if at == 0 else f"{amount} {currency}" if at == 1 else ""
    tone: Tone = "strong" if at == 0 else "dim"
    if side == "left":
        return Cell(f"{fit(text, width - 2, 'right')} ▐", tone)
    return Cell(f"▌ {fit(text, width - 2)}", tone)
