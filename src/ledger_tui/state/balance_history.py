"""The sums of balances over the last minutes, computed backwards from what was posted. Pure."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence

from ledger_tui.state.figures import Sum, moment
from ledger_tui.state.window import Record

_KEPT = 5_000


class BalanceHistory:
    """The newest transactions that are known, from which earlier sums follow.

    The sum of a currency at a time is the present sum without what was posted since. Nothing is claimed for a
    time before the oldest transaction read, and nothing at all where transactions have no times.
    """

    def __init__(self) -> None:
        self._newest: object = None
        self._posted: deque[tuple[float, str, int]] = deque(maxlen=_KEPT)  # newest last
        self._known_from: float | None = None

    def take(
        self, rows: Sequence[Record], *, reached: bool, currency: Callable[[object], str | None]
    ) -> None:
        """Add transactions, newest first; `reached` when no other comes before the last of them.

        `currency` returns that of an account. After a gap everything before it is forgotten.
        """
        new: list[Record] = []
        for row in rows:
            if row.get("id") == self._newest:
                reached = True
                break
            new.append(row)
        times = [moment(row.get("created")) for row in new]
        if not new or None in times:
            return
        if self._newest is None or not reached:
            self._posted.clear()
            self._known_from = None if reached else times[-1]
        for row, at in zip(reversed(new), reversed(times), strict=True):
            of, amount = currency(row.get("account")), row.get("amount")
            if at is not None and of is not None and isinstance(amount, int):
                if len(self._posted) == _KEPT:
                    self._known_from = self._posted[0][0]
                self._posted.append((at, of, amount if row.get("type") == "credit" else -amount))
        self._newest = new[0].get("id")

    def earlier(
        self, sums: Iterable[Sum], now: float, seconds: float, points: int
    ) -> dict[str, Sequence[int]]:
        """Return each currency's sums at evenly spaced times of the last `seconds`, oldest first.

        The last one is the present. Times from which not everything is known are left out.
        """
        if self._newest is None or points < 2:
            return {}
        step = seconds / (points - 1)
        since: dict[str, list[int]] = defaultdict(lambda: [0] * points)
        for at, currency, amount in self._posted:
            # The posting is not part of the sum at any point before it.
            before = min(points, int((at - (now - seconds)) // step) + 1)
            if before > 0:
                since[currency][before - 1] += amount
        first = 0
        if self._known_from is not None:
            first = max(0, min(points - 1, int((self._known_from - (now - seconds)) // step) + 1))
        found: dict[str, Sequence[int]] = {}
        for one in sums:
            amount, values = one.amount, []
            for point in range(points - 1, -1, -1):
                if point < points - 1:
                    amount -= since[one.currency][point]
                values.append(amount)
            found[one.currency] = values[::-1][first:]
        return found
