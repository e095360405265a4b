"""What the tiles of the overview show: balances over time, and how requests were answered."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from math import ceil
from typing import NamedTuple

from ledger_tui.client.records import Record
from ledger_tui.client.totals import Sum, moment

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


_KEPT = 300


class Answered(NamedTuple):
    """One request: its status, None without an answer, and its duration in milliseconds."""

    status: int | None
    duration_ms: float


class RequestFigures:
    """The newest requests of other clients, at most 300.

    The dashboard's own are left out, as it asks more often than most clients; another client may use its key.
    `own` says that there is no request log, and that these are the dashboard's own requests.
    """

    def __init__(self) -> None:
        self.own = False
        self.newest: str | None = None
        self._answered: deque[Answered] = deque(maxlen=_KEPT)  # newest last

    def take(self, rows: Sequence[Record], is_own: Callable[[object], bool]) -> None:
        """Add the rows of the request log that are new, newest first.

        `is_own` says whether a request, given by its id, is the dashboard's own.
        """
        new: list[Record] = []
        for row in rows:
            if row.get("id") == self.newest:
                break
            new.append(row)
        for row in reversed(new):
            if not is_own(row.get("id")):
                self._add(row.get("status"), row.get("duration_ms"))
        if new:
            self.newest = str(new[0].get("id"))

    def replace(self, answered: Iterable[Answered]) -> None:
        """Take these requests in place of all, oldest first: the dashboard's own."""
        self.own = True
        self._answered.clear()
        self._answered.extend(answered)

    def _add(self, status: object, duration_ms: object) -> None:
        took = float(duration_ms) if isinstance(duration_ms, int | float) else 0.0
        self._answered.append(Answered(status if isinstance(status, int) else None, took))

    def __len__(self) -> int:
        return len(self._answered)

    def by_status(self) -> list[tuple[int | None, int]]:
        """Return the number of answers of each status, in the order of the statuses; None comes last."""
        counts = Counter(each.status for each in self._answered)
        return sorted(counts.items(), key=lambda item: item[0] or 1000)

    def percentile_ms(self, percent: float) -> float | None:
        """Return the duration that `percent` of the requests did not exceed (nearest rank); None for none."""
        durations = sorted(each.duration_ms for each in self._answered if each.status is not None)
        return durations[max(0, ceil(len(durations) * percent / 100) - 1)] if durations else None
