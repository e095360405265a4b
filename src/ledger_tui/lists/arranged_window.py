"""A window whose loaded rows can be shown in another order, or only some of them.

No server sorts its lists, and none searches them: both are done here, among the rows that are loaded. While
rows are arranged, row numbers count those shown, and older pages are loaded only when they are asked for
(`want_more`), as a page may have no row to show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ledger_tui.client.records import Record, Want
from ledger_tui.lists.window import Window

Order = Callable[[Record], Any]  # the key to sort by
Keep = Callable[[Record], bool]  # whether a row is shown

KEPT_MOST = 5_000  # rows of dropped pages that are kept because they match


class ArrangedWindow(Window):
    """A `Window` with an order and a condition for its rows; without both it is that window."""

    def __init__(self, **sizes: int) -> None:
        self._order: Order | None = None
        self._descending = False
        self._keep: Keep | None = None
        self._shown: list[Record] = []
        self._source: list[Record] = []  # the rows that `_shown` was made of
        self._arranged_as: object = None  # … and how
        self._aside: dict[int, list[Record]] = {}  # by slot: rows to show of pages that were dropped
        super().__init__(**sizes)

    # ------------------------------------------------------------------ arranging

    @property
    def arranged(self) -> bool:
        """Whether the rows are sorted or only some are shown."""
        return self._order is not None or self._keep is not None

    @property
    def sorted(self) -> bool:
        """Whether the rows are in another order than the server's."""
        return self._order is not None

    @property
    def searches(self) -> bool:
        """Whether only the rows that match are shown."""
        return self._keep is not None

    def sort(self, order: Order | None, *, descending: bool = False) -> None:
        """Show the loaded rows in this order; None for the server's. The cursor stays on its object."""
        held = self.current
        self._order, self._descending = order, descending
        self._show_again(held)

    def show_only(self, keep: Keep | None) -> None:
        """Show only the loaded rows for which `keep` is true; None for all of them."""
        held = self.current
        self._keep = keep
        self._aside.clear()
        self._show_again(held)

    def arrange_again(self) -> None:
        """Sort and search again, because what decides it has changed: names, deliveries."""
        self._arranged_as = None
        if self.arranged:
            self._show_again(self.current)

    def _show_again(self, held: Record | None) -> None:
        super()._settle_cursor(self._arrange(held), self.cursor)

    def _arrange(self, held: Record | None) -> Record | None:
        """Compute the rows that are shown; return `held`."""
        if self.arranged:
            rows = [*self._all_rows()]
            wanted = (self._order, self._descending, self._keep)
            # Most polls find nothing new, and sorting thousands of rows costs more than drawing them.
            if wanted == self._arranged_as and [*map(id, rows)] == [*map(id, self._source)]:
                return held
            self._source, self._arranged_as = rows, wanted
            shown = rows if self._keep is None else [*filter(self._keep, rows)]
            self._shown = (
                shown if self._order is None else sorted(shown, key=self._order, reverse=self._descending)
            )
        return held

    def _all_rows(self) -> Iterator[Record]:
        for number, slot in enumerate(self.slots):
            yield from slot.rows if slot.rows is not None else self._aside.get(number, ())

    # ------------------------------------------------------------------ the rows shown

    def __len__(self) -> int:
        return len(self._shown) if self.arranged else super().__len__()

    @property
    def complete(self) -> bool:
        return super().complete and not self.searches

    @property
    def at_the_end(self) -> bool:
        return self.loaded if self.arranged else super().at_the_end

    @property
    def has_older(self) -> bool:
        """Whether older pages can be loaded."""
        return self.loaded and self.frontier is not None

    def row(self, index: int) -> Record | None:
        if not self.arranged:
            return super().row(index)
        return self._shown[index] if 0 <= index < len(self._shown) else None

    def at_hand(self) -> Iterator[tuple[int, Record]]:
        return iter(enumerate(self._shown)) if self.arranged else super().at_hand()

    def position(self, top: int, height: int) -> str:
        if not self.arranged or not self.loaded:
            return super().position(top, height)
        if not len(self):
            return f"0 of {self.resident:,} loaded"
        last = min(top + height, len(self))
        first = min(top + 1, last)
        shown = f"{first:,}–{last:,} of {len(self):,}" if first < last else f"{last:,} of {len(self):,}"
        if self.searches:
            return f"{shown} among {self.resident:,} loaded"
        return f"{shown} loaded" if self.has_older else shown

    def replace(self, record: Record) -> bool:
        if not self.arranged:
            return super().replace(record)
        held, found = self.current, False
        for rows in [*(self.slots[n].rows or [] for n in self._at_hand), *self._aside.values()]:
            for index, row in enumerate(rows):
                if row.get("id") == record.get("id"):
                    rows[index], found = record, True
        self._show_again(held)
        return found

    # ------------------------------------------------------------------ fetching

    def want(self, top: int, height: int) -> Want | None:
        if self.arranged and self.loaded:
            return None
        return super().want(top, height)

    def want_more(self) -> Want | None:
        """Return the next older page to fetch, to look for more rows in it."""
        if self.in_flight is not None or not self.has_older:
            return None
        met = {slot.cursor for slot in self.slots}
        return self._send(Want(self.generation, "page", len(self.slots), self.frontier, self.page_size, met))

    def want_again(self, top: int, height: int) -> Want | None:
        if not self.arranged:
            return super().want_again(top, height)
        record = self.row(min(top + height // 2, len(self) - 1))
        if self.in_flight is not None or record is None:
            return None
        at = next((n for n in self._at_hand if record in (self.slots[n].rows or ())), 0)
        return self._send_again(at) if at else None

    def push(self, records: Sequence[Record]) -> list[Record]:
        held = self.current
        new = super().push(records)
        if self.arranged:
            self._show_again(held)
        return new

    def open_at(self, record: Record) -> None:
        self._order = self._keep = None
        super().open_at(record)

    def reset(self) -> None:
        super().reset()
        self._shown, self._source, self._arranged_as = [], [], None
        self._aside.clear()

    def _settle_cursor(self, held: Record | None, before: int) -> None:
        super()._settle_cursor(self._arrange(held), before)

    def _evict(self, top: int) -> None:
        if not self.arranged:
            super()._evict(top)
            return
        # Rows on the screen may be of any page: those that match are kept when their page is dropped.
        surplus = self.resident - self.cap
        for number in sorted(self._at_hand - {0}):
            if surplus <= 0:
                return
            rows = self.slots[number].rows or []
            if self._keep is not None and sum(map(len, self._aside.values())) < KEPT_MOST:
                self._aside[number] = [record for record in rows if self._keep(record)]
            surplus -= self.slots[number].count
            self.slots[number].rows = None
            self._at_hand.discard(number)
        self._arrange(None)
