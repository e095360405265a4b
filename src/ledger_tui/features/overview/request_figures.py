"""The newest requests of other clients, counted by their outcomes for the overview."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from math import ceil
from typing import NamedTuple

from ledger_tui.client.records import Record

_ANSWERED_KEPT = 300


class RequestOutcome(NamedTuple):
    """The outcome of one request: its status (None without an answer) and its duration in milliseconds."""

    status: int | None
    duration_ms: float


class RequestFigures:
    """The newest requests of other clients, at most 300.

    This class leaves out the dashboard's own requests, because they outnumber the requests of most clients.
    The dashboard recognises its requests by their ids, not by the key, because another client may use the
    same key. If the server has no request log, `own` is true and the requests are the dashboard's own.
    """

    def __init__(self) -> None:
        self.own = False
        self.newest: str | None = None
        self._outcomes: deque[RequestOutcome] = deque(maxlen=_ANSWERED_KEPT)  # newest last

    def take(self, rows: Sequence[Record], is_own: Callable[[object], bool]) -> None:
        """Add the rows that are new here; `rows` holds the newest requests of the log, newest first.

        `is_own` takes the id of a request. If it returns true, the dashboard sent the request: leave it out.
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

    def replace(self, outcomes: Iterable[RequestOutcome]) -> None:
        """Replace all requests by `outcomes`, the dashboard's own requests, oldest first."""
        self.own = True
        self._outcomes.clear()
        self._outcomes.extend(outcomes)

    def _add(self, status: object, duration_ms: object) -> None:
        took = float(duration_ms) if isinstance(duration_ms, int | float) else 0.0
        self._outcomes.append(RequestOutcome(status if isinstance(status, int) else None, took))

    def __len__(self) -> int:
        return len(self._outcomes)

    def by_status(self) -> list[tuple[int | None, int]]:
        """Return the number of answers for each status, sorted by status; None (no answer) comes last."""
        counts = Counter(each.status for each in self._outcomes)
        return sorted(counts.items(), key=lambda item: item[0] or 1000)

    def percentile_ms(self, percent: float) -> float | None:
        """Return a percentile (nearest rank) of the durations of answered requests; None without any."""
        durations = sorted(each.duration_ms for each in self._outcomes if each.status is not None)
        return durations[max(0, ceil(len(durations) * percent / 100) - 1)] if durations else None
