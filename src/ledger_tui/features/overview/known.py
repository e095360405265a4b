"""Which figures of the past are not read again at a step, as no event between both moments changed them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from ledger_tui.client.past import moment_ms
from ledger_tui.client.records import Record

EVENTS_READ = 60
_CHANGED_BY = {"balances": ("account", "transaction"), "invoices": ("invoice",), "orders": ("order",)}
_DAY_MS = 86_400_000  # another day makes other invoices overdue


class KnownFigures:
    """The moment whose figures are read, `ms`, and those of which each was read last."""

    def __init__(self) -> None:
        self.ms: int | None = None
        self._read_for: dict[str, int] = {}
        self._events: deque[tuple[int, Sequence[Record]]] = deque(maxlen=2)  # the newest until a moment

    def begin(self, ms: int | None) -> None:
        """Read this moment from now on; the present is read whole, and nothing of it stays."""
        self.ms = ms
        if ms is None:
            self._read_for.clear()

    def take(self, name: str, figure: Any) -> None:
        """Note that a figure was read; a text in its place says why it was not."""
        if self.ms is None or figure is None or isinstance(figure, str):
            self._read_for.pop(name, None)
            return
        self._read_for[name] = self.ms
        if name == "events":
            self._events.append((self.ms, figure))

    def stays(self, name: str) -> bool:
        """Return whether a figure is still what it was when it was read; the events are read first."""
        read_for = self._read_for.get(name)
        if self.ms is None or read_for is None:
            return False
        if name == "log":  # it has only a present
            return True
        first, last = sorted((read_for, self.ms))
        if name not in _CHANGED_BY or first // _DAY_MS != last // _DAY_MS:
            return False
        happened = self._kinds_between(first, last)
        stays = happened is not None and happened.isdisjoint(_CHANGED_BY[name])
        if stays:
            self._read_for[name] = self.ms
        return stays

    def _kinds_between(self, first: int, last: int) -> set[str] | None:
        """Return what kinds of objects had events between two moments; None if that is not known."""
        for until, rows in self._events:
            times = [moment_ms(row.get("created")) or 0 for row in rows]
            if until >= last and (len(rows) < EVENTS_READ or times[-1] <= first):
                pairs = zip(rows, times, strict=True)
                return {str(row.get("type")).partition(".")[0] for row, at in pairs if first < at <= last}
        return None
