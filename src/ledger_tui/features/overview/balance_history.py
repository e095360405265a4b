"""The earlier balances of each currency, for the courses on the overview."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence

from ledger_tui.client.records import Record
from ledger_tui.client.totals import Sum, moment

_POSTED_KEPT = 5_000


class BalanceHistory:
    """Computes the earlier balance of each currency from the newest transactions.

    The balance of a currency at some time is its present balance minus all later transactions. If some of
    these transactions may be unknown, there is no balance for this time. This class ignores a read in which a
    transaction has no time.
    """

    def __init__(self) -> None:
        self._newest: object = None
        self._postings: deque[tuple[float, str, int]] = deque(maxlen=_POSTED_KEPT)  # newest last
        self._known_from: float | None = None

    def take(
        self, rows: Sequence[Record], *, all_read: bool, currency: Callable[[object], str | None]
    ) -> None:
        """Add transactions, newest first; `all_read` means that no older transactions exist.

        `currency` returns the currency of an account. If there is a gap between the known and the new
        transactions, forget the known transactions.
        """
        new: list[Record] = []
        for row in rows:
            if row.get("id") == self._newest:
                all_read = True
                break
            new.append(row)
        times = [moment(row.get("created")) for row in new]
        if not new or None in times:
            return
        if self._newest is None or not all_read:
            self._postings.clear()
            self._known_from = None if all_read else times[-1]
        for row, at in zip(reversed(new), reversed(times), strict=True):
            of, amount = currency(row.get("account")), row.get("amount")
            if at is not None and of is not None and isinstance(amount, int):
                if len(self._postings) == _POSTED_KEPT:
                    self._known_from = self._postings[0][0]
                self._postings.append((at, of, amount if row.get("type") == "credit" else -amount))
        self._newest = new[0].get("id")

    def earlier(
        self, sums: Iterable[Sum], now: float, seconds: float, points: int
    ) -> dict[str, Sequence[int]]:
        """Return the balances of each currency at evenly spaced times of the last `seconds`, oldest first.

        The last of these times is `now`. There is no balance for a time if some later transaction may be
        unknown.
        """
        if self._newest is None or points < 2:
            return {}
        step = seconds / (points - 1)
        since: dict[str, list[int]] = defaultdict(lambda: [0] * points)
        for at, currency, amount in self._postings:
            # Subtract the posting from the balance at every point before the posting.
            before = min(points, int((at - (now - seconds)) // step) + 1)
            if before > 0:
                since[currency][before - 1] += amount
        first = 0
        if self._known_from is not None:
            first = max(0, min(points - 1, int((self._known_from - (now - seconds)) // step) + 1))
        earlier_balances: dict[str, Sequence[int]] = {}
        for one in sums:
            amount, values = one.amount, []
            for point in range(points - 1, -1, -1):
                if point < points - 1:
                    amount -= since[one.currency][point]
                values.append(amount)
            earlier_balances[one.currency] = values[::-1][first:]
        return earlier_balances
