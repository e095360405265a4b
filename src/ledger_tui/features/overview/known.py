"""Decides which figures the overview need not read again, because no event has changed them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from ledger_tui.client.past import moment_ms
from ledger_tui.client.records import Record

EVENTS_READ = 60
_CHANGED_BY = {"balances": ("account", "transaction"), "invoices": ("invoice",), "orders": ("order",)}
# When the day has changed, the overview reads all figures again, because an invoice becomes overdue without
# an event.
_DAY_MS = 86_400_000


class KnownFigures:
    """Remembers for which state of the ledger each figure was last read.

    A read of the past identifies this state by the moment, and a read of the present by the newest event.

    `ms` is the moment of the current read; None for a read of the present.
    """

    def __init__(self) -> None:
        self.ms: int | None = None
        self._read_for: dict[str, int | tuple[object, int]] = {}
        # for the last two moments in the past that were read: the moment, and the newest events up to it
        self._events: deque[tuple[int, Sequence[Record]]] = deque(maxlen=2)
        # the id of the newest event, and the day on which the current read found it; None until then
        self._newest: tuple[object, int] | None = None

    def begin(self, ms: int | None) -> None:
        """Begin to read the figures of this moment; None stands for the present."""
        self.ms, self._newest = ms, None

    def take(self, name: str, figure: Any, now: float) -> None:
        """Note that a figure was read. If the read failed, `figure` is a text with the reason.

        In each read, call `take` for the figure "events" first. In a read of the present, `take` then stores
        the newest event with every other figure, to identify the state for which the figure was read.
        """
        if name == "events" and figure and not isinstance(figure, str):
            self._newest = figure[0].get("id"), round(now * 1000) // _DAY_MS
            if self.ms is not None:
                self._events.append((self.ms, figure))
        stamp = self._newest if self.ms is None else self.ms
        if figure is None or stamp is None or isinstance(figure, str):
            self._read_for.pop(name, None)
        else:
            self._read_for[name] = stamp

    def stays(self, name: str) -> bool:
        """Return whether a figure is unchanged since its last read."""
        read_for = self._read_for.get(name)
        if self.ms is None:
            return name in _CHANGED_BY and self._newest is not None and read_for == self._newest
        if not isinstance(read_for, int):
            return False
        if name == "log":  # the overview shows the log only in the present
            return True
        first, last = sorted((read_for, self.ms))
        if name not in _CHANGED_BY or first // _DAY_MS != last // _DAY_MS:
            return False
        kinds = self._kinds_between(first, last)
        stays = kinds is not None and kinds.isdisjoint(_CHANGED_BY[name])
        if stays:
            self._read_for[name] = self.ms
        return stays

    def _kinds_between(self, first: int, last: int) -> set[str] | None:
        """Return the kinds of objects with events between two moments; None if the events are unknown."""
        for until, rows in self._events:
            times = [moment_ms(row.get("created")) or 0 for row in rows]
            if until >= last and (len(rows) < EVENTS_READ or times[-1] <= first):
                pairs = zip(rows, times, strict=True)
                return {str(row.get("type")).partition(".")[0] for row, at in pairs if first < at <= last}
        return None
