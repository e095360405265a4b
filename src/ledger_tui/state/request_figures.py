"""The answers of the newest requests: how many by status, and how long they took. Pure."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from math import ceil
from typing import NamedTuple

from ledger_tui.state.window import Record

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
