"""A plot of an account's balance over its latest transactions, in the account's detail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ledger_tui.client.api import Api
from ledger_tui.client.errors import ClientError
from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record
from ledger_tui.client.totals import moment
from ledger_tui.formats import plot
from ledger_tui.formats.money import format_amount
from ledger_tui.formats.text import literal
from ledger_tui.resources.base import Cell, Fact, Section, time_of

_HEIGHT = 5
_POSTINGS = 100


@dataclass(frozen=True)
class BalancePoints:
    """The balances after each of the latest transactions, oldest first, and their times (None: not known)."""

    balances: tuple[int, ...]
    times: tuple[float, ...] | None
    first: str
    last: str


async def read_balance_points(api: Api, account: Record) -> BalancePoints:
    """Return the latest balances, with one request.

    Where transactions have no `balance_after`, they are computed back from today's balance.
    """
    params = {"account": str(account.get("id")), "limit": str(_POSTINGS)}
    data = (await api.read("/v1/transactions", params)).record.get("data")
    rows = [row for row in data if isinstance(row, dict)] if isinstance(data, list) else []
    return balance_points(account, rows)


def balance_points(account: Record, newest_first: Sequence[Record]) -> BalancePoints:
    """Return the points of an account from its newest transactions."""
    balance = account.get("balance")
    running = balance if isinstance(balance, int) else 0
    balances: list[int] = []
    for row in newest_first:
        balance_after, amount = row.get("balance_after"), row.get("amount")
        running = balance_after if isinstance(balance_after, int) else running
        balances.append(running)
        step = amount if isinstance(amount, int) else 0
        running -= step if row.get("type") == "credit" else -step
    moments = [moment(row.get("created")) for row in newest_first]
    times = tuple(at for at in reversed(moments) if at is not None)
    ends = [time_of(row, "created").text[:16] for row in newest_first]
    return BalancePoints(
        # The balance before the first of them was not within the plotted time.
        balances=tuple(reversed(balances)),
        times=times if times and len(times) == len(newest_first) else None,
        first=ends[-1] if ends else "",
        last=ends[0] if ends else "",
    )


@dataclass(frozen=True)
class _BalancePlot:
    points: BalancePoints
    currency: str | None

    def __call__(self, width: int) -> Sequence[Sequence[Cell]]:
        points = self.points
        high, low = (format_amount(end(points.balances), self.currency) for end in (max, min))
        # A balance that never changed runs in the middle, and its label is there too.
        labels = {0: high, _HEIGHT - 1: low} if high != low else {_HEIGHT // 2: high}
        margin = max(len(high), len(low))
        columns = max(8, width - margin - 2)
        lines = []
        for number, line in enumerate(plot.line(points.balances, columns, _HEIGHT, points.times)):
            label = labels.get(number, "").rjust(margin)
            lines.append((Cell(f"{label} ┤", "dim"), Cell(line, "accent")))
        if points.times is None:
            foot = f"its last {len(points.balances)} postings"
            return [*lines, (Cell(" " * (margin + 2) + foot, "dim"),)]
        # When both ends are on one day, the day is shown once.
        last = points.last[11:] if points.last[:10] == points.first[:10] else points.last
        width_left = max(1, columns - len(points.first) - len(last))
        return [*lines, (Cell(" " * (margin + 2) + points.first + " " * width_left + last, "dim"),)]


def balance_sections(account: Record, points: object, _names: AccountNames) -> tuple[Section, ...]:
    """Return the plot, or why there is none."""
    if isinstance(points, ClientError):
        return (Section("balance", (Fact("", Cell(literal(points), "minus")),)),)
    if not isinstance(points, BalancePoints):
        return ()
    if not points.balances:
        return (Section("", (Fact("postings", Cell("none yet", "dim")),)),)
    currency = account.get("currency")
    return (
        Section("balance", drawing=_BalancePlot(points, currency if isinstance(currency, str) else None)),
    )
