"""A list of any length seen through a window of limited size.

The server returns a list newest first, in pages; a page's cursor comes from the previous page. The window
remembers every page as a `Slot` (the cursor and the number of rows). But the window keeps the rows only of
the first page and of one run of neighbouring pages around the screen. The run grows at both ends, and drops
pages at the end that is farther from the screen. When the user scrolls to a dropped page, the window asks for
this page again, with the cursor in its slot. This works on any server with cursors. The first page needs no
cursor, and the window adds new rows at the top of the first page.

A window can also open in the middle of a list (`open_at`). In this case the list has rows that are newer than
row 0, and requests for these rows use `ending_before`. Row 0 is always the newest row of the window, so all
row numbers change when the window adds newer rows. This module uses no clock, no network and no widget.

The window can sort the loaded rows or show only some of them, because no server sorts or searches its lists.
In both cases the rows are called arranged. The row numbers of an arranged list count only the shown rows. The
window then asks for older pages only on request (`want_more`), because a page may contain no row to show.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

from ledger_tui.client.records import PAGE_SIZE, ListPage, Record, Want

Order = Callable[[Record], Any]  # the key to sort by
Keep = Callable[[Record], bool]  # whether a row is shown

# The maximum number of rows to keep. But the window always keeps the pages on the screen and next to the
# screen, even if these pages have more rows.
CAP = 5_000
KEPT_MOST = 5_000  # the maximum number of matching rows to keep from dropped pages
# New rows make the first page longer. When the first page is longer than this number of usual pages, the
# window cuts the first page to the size of one page, and fetches the other rows again when they are needed.
_HEAD_PAGES = 5


@dataclass(slots=True)
class Slot:
    """One page of the list; `rows` is None while the window does not keep the page's rows."""

    cursor: str | None
    count: int
    rows: list[Record] | None = field(default=None, repr=False)


class Window:
    """The known rows of one list, the row under the cursor, and the page to fetch next.

    While `following` is True, the cursor stays on the newest row and new rows are shown at once. Otherwise
    the cursor stays on its object, and `waiting` counts the new rows, which are not shown yet. Without an
    order and a condition, the window shows all rows in the server's order.
    """

    def __init__(self, *, page_size: int = PAGE_SIZE, cap: int = CAP) -> None:
        self.page_size = page_size
        self.cap = cap
        self.generation = 0
        self._order: Order | None = None
        self._descending = False
        self._keep: Keep | None = None
        self._dropped_matches: dict[int, list[Record]] = {}  # by slot: the matching rows of dropped pages
        self.reset()

    def reset(self) -> None:
        """Forget everything. A page that is still awaited becomes stale, so `apply` will ignore it."""
        self.generation += 1
        self.slots: list[Slot] = []
        self._run = range(1, 1)  # the numbers of the slots in the run; slot 0 is never part of the run
        self._starts: list[int] = [0]  # the number of each slot's first row, then the number of all rows
        self.frontier: str | None = None  # the cursor of the next older page; None if there is none
        self.newer_refused = False  # whether the server cannot page from the middle to newer rows
        self.newer: str | None = None  # the id of the top row if newer rows may exist, else None
        self.loaded = False
        self.total: int | None = None  # the number of rows of the whole list, if the server sends it
        self.cursor = 0
        self.following = True
        self._waits: set[object] = set()  # ids of new rows on top that are not shown
        self._pushed_ids: set[object] = set()  # ids of rows from `push` that no page has returned yet
        self.waiting_is_minimum = False  # whether there may be more new rows than `waiting` counts
        self._stays: set[object] = set()  # ids of rows to show even if they no longer pass the filters
        self.in_flight: Want | None = None
        self._shown_rows: list[Record] = []
        self._source: list[Record] = []  # the rows from which `_shown_rows` was computed
        self._arranged_as: object = None  # the order and the condition of `_shown_rows`
        self._dropped_matches.clear()

    def open_at(self, record: Record) -> None:
        """Start again with one object from the middle of the list; next fetch the rows around it."""
        self._order = self._keep = None
        self.reset()
        record_id = str(record.get("id"))
        self._append(Want(self.generation, "page", 0, None), ListPage([record], record_id))
        self.newer = record_id
        self.following = False

    # ------------------------------------------------------------------ arranging

    @property
    def arranged(self) -> bool:
        """Whether the rows are sorted or a condition selects some of them."""
        return self._order is not None or self._keep is not None

    @property
    def sorted(self) -> bool:
        """Whether the window shows its rows in another order than the server's."""
        return self._order is not None

    @property
    def searches(self) -> bool:
        """Whether the window shows only the rows that match a condition."""
        return self._keep is not None

    def sort(self, order: Order | None, *, descending: bool = False) -> None:
        """Show the loaded rows in this order; None restores the server's order.

        The cursor stays on its object.
        """
        current = self.current
        self._order, self._descending = order, descending
        self._settle_cursor(current, self.cursor)

    def show_only(self, keep: Keep | None) -> None:
        """Show only the loaded rows for which `keep` returns True; None shows all loaded rows."""
        current = self.current
        self._keep = keep
        self._dropped_matches.clear()
        self._settle_cursor(current, self.cursor)

    def arrange_again(self) -> None:
        """Sort and filter the rows again, because names or deliveries have changed.

        The order and the condition may depend on them.
        """
        self._arranged_as = None
        if self.arranged:
            self._settle_cursor(self.current, self.cursor)

    def _arrange(self) -> None:
        """Compute the shown rows from all kept rows."""
        rows = [*self.all_rows()]
        arrangement = (self._order, self._descending, self._keep)
        # Compute nothing if nothing has changed: most polls return nothing new, and sorting thousands of rows
        # costs more than drawing them.
        if arrangement == self._arranged_as and [*map(id, rows)] == [*map(id, self._source)]:
            return
        self._source, self._arranged_as = rows, arrangement
        matches = rows if self._keep is None else [*filter(self._is_shown, rows)]
        self._shown_rows = (
            matches if self._order is None else sorted(matches, key=self._order, reverse=self._descending)
        )

    def _is_shown(self, row: Record) -> bool:
        return self._keep is None or self._keep(row) or row.get("id") in self._stays

    def all_rows(self) -> Iterator[Record]:
        """Yield the kept rows, also those that the filters hide."""
        for number, slot in enumerate(self.slots):
            yield from slot.rows if slot.rows is not None else self._dropped_matches.get(number, ())

    # ------------------------------------------------------------------ rows

    def __len__(self) -> int:
        return len(self._shown_rows) if self.arranged else self._starts[-1]

    @property
    def waiting(self) -> int:
        """The number of new rows above the first shown row."""
        return len(self._waits)

    @property
    def complete(self) -> bool:
        """Whether the window knows both ends of the list and hides no row."""
        return self.loaded and self.frontier is None and self.newer is None and not self.searches

    @property
    def at_the_end(self) -> bool:
        """Whether scrolling down loads no further rows after the last shown row."""
        return self.loaded and (self.arranged or self.frontier is None)

    @property
    def has_older(self) -> bool:
        """Whether older pages can be loaded."""
        return self.loaded and self.frontier is not None

    def row(self, index: int) -> Record | None:
        """Return the record in a row; None if there is no such row or the window does not keep its record."""
        if not 0 <= index < len(self):
            return None
        if self.arranged:
            return self._shown_rows[index]
        rows = self.slots[slot := self._slot_at(index)].rows
        return rows[index - self._starts[slot]] if rows is not None else None

    def rows_between(self, start: int, stop: int) -> Iterator[Record]:
        """Yield the records that the window keeps for the rows from `start` to `stop - 1`."""
        for index in range(max(0, start), min(stop, len(self))):
            record = self.row(index)
            if record is not None:
                yield record

    @property
    def current(self) -> Record | None:
        """The record under the cursor."""
        return self.row(self.cursor)

    def index_of(self, record_id: object) -> int | None:
        """Return the row number of an object; None if the window does not keep the object's row."""
        return next((index for index, record in self.at_hand() if record.get("id") == record_id), None)

    def at_hand(self) -> Iterator[tuple[int, Record]]:
        """Yield the kept rows from the top, each with its row number."""
        if self.arranged:
            yield from enumerate(self._shown_rows)
            return
        for number in self._kept:
            yield from enumerate(self.slots[number].rows or (), self._starts[number])

    @property
    def resident(self) -> int:
        """The number of rows that the window keeps."""
        return sum(self.slots[number].count for number in self._kept)

    @property
    def _kept(self) -> list[int]:
        """The numbers of the slots whose rows are kept."""
        return [0, *self._run] if self.slots else []

    # ------------------------------------------------------------------ moving

    def move(self, index: int) -> None:
        """Put the cursor on a row.

        On the newest row, the cursor follows new rows; on any other row, the cursor stays on its object.
        """
        self.cursor = max(0, min(index, len(self) - 1))
        self.following = self.cursor == 0 and self.newer is None

    def follow(self) -> None:
        """Go to the newest row, and move to each newer row that arrives."""
        if self.newer is not None:
            self.reset()
        self.move(0)

    def hold(self) -> None:
        """Keep the cursor on its object when new rows arrive on top."""
        self.following = False

    # ------------------------------------------------------------------ fetching

    def want(self, top: int, height: int) -> Want | None:
        """Return the request for the next page that the rows `top … top+height` on the screen need.

        Return None if these rows need no page, or while another page is awaited.
        """
        if self.in_flight is not None or (self.arranged and self.loaded):
            return None
        if not self.loaded:
            return self._send(Want(self.generation, "page", 0, None, self.page_size))
        reach = 2 * height
        if len(self):
            first = self._slot_at(max(0, min(top - reach, len(self) - 1)))
            last = self._slot_at(max(0, min(top + height + reach, len(self)) - 1))
            middle = self._slot_at(max(0, min(top, len(self) - 1)))
            missing = [n for n in range(first, last + 1) if self.slots[n].rows is None]
            if missing:
                return self._send_again(min(missing, key=lambda n: abs(n - middle)))
        if self.newer is not None and not self.newer_refused and top < reach:
            return self._send(Want(self.generation, "newer", 0, self.newer, self.page_size))
        if self.frontier is not None and top + height + reach >= len(self):
            return self.want_more()
        return None

    def want_more(self) -> Want | None:
        """Return the request for the next older page; None if no such page exists or a page is awaited."""
        if self.in_flight is not None or not self.has_older:
            return None
        cursors = {slot.cursor for slot in self.slots}
        return self._send(
            Want(self.generation, "page", len(self.slots), self.frontier, self.page_size, cursors)
        )

    def want_news(self) -> Want | None:
        """Return the request for the first page, which may contain new or changed rows.

        Return None while another page is awaited, and before the list is loaded. Also return None if the
        window opened in the middle of the list and has not reached the newest row.
        """
        if self.in_flight is not None or not self.loaded or self.newer is not None:
            return None
        return self._send(Want(self.generation, "news", 0, None, self.page_size))

    def want_anew(self) -> Want:
        """Return the request that starts the list again. The shown rows stay until the page arrives."""
        self.generation += 1
        return self._send(Want(self.generation, "anew", 0, None, self.page_size))

    def want_again(self, top: int, height: int) -> Want | None:
        """Return the request for the page in the middle of the screen, whose rows may have changed.

        Return None for the first page, which `want_news` fetches, and while another page is awaited.
        """
        if self.in_flight is not None or not len(self):
            return None
        middle = min(top + height // 2, len(self) - 1)
        if self.arranged:
            record = self._shown_rows[middle]
            number = next((n for n in self._kept if record in (self.slots[n].rows or ())), 0)
        else:
            number = self._slot_at(middle)
        return self._send_again(number) if number else None

    def _send_again(self, number: int) -> Want:
        slot = self.slots[number]
        return self._send(Want(self.generation, "page", number, slot.cursor, slot.count))

    def _send(self, want: Want) -> Want:
        self.in_flight = want
        return want

    def failed(self, want: Want) -> None:
        """Note that a page did not arrive, so that the page can be fetched again."""
        if self.in_flight == want:
            self.in_flight = None

    def apply(self, want: Want, page: ListPage, top: int = 0) -> int | None:
        """Add a page that arrived. Return by how many rows the object under the cursor moved down.

        Return None for a stale page, which the window no longer waits for. `top` is the number of the first
        row on the screen; if the window now keeps too many rows, it drops pages far from this row.
        """
        if want != self.in_flight:
            return None
        self.in_flight = None
        current, before = self.current, self.cursor
        if page.total is not None:
            self.total = page.total
        if want.kind == "news":
            self._take_news(self._with_stays(page, 0))
        elif want.kind == "newer":
            self._prepend(page)
        elif want.kind == "anew":
            self.newer = None
            self._dropped_matches.clear()
            self._stays.clear()
            self._begin_with(page)
        elif want.slot == len(self.slots):
            self._append(want, page)
        else:
            self._refill(want.slot, self._with_stays(page, want.slot))
        self._settle_cursor(current, before)
        self._evict(top + (self.cursor - before))
        return self.cursor - before

    def let_stay(self, record_id: object) -> None:
        """Show an object's row, even if it no longer passes the filters, until the list starts again."""
        self._stays.add(record_id)

    def _with_stays(self, page: ListPage, number: int) -> ListPage:
        """Return the page; add each row of the old page that `let_stay` protects and that the new page lacks.

        A protected row stays above the rows that were below it on the old page. If the new page contains none
        of those lower rows, there are two cases: if the new page is the last page of the list, the protected
        row goes to the end of this page; otherwise the protected row is left out.
        """
        ids = {row.get("id") for row in page.rows}
        old = (self.slots[number].rows or []) if number < len(self.slots) else []
        rows: list[Record] = [*page.rows]
        for at, row in enumerate(old):
            if row.get("id") in self._stays - ids:
                following = {each.get("id") for each in old[at + 1 :]}
                place = next((n for n, each in enumerate(rows) if each.get("id") in following), None)
                if place is not None or page.older is None:
                    rows.insert(len(rows) if place is None else place, row)
        return replace(page, rows=rows) if len(rows) > len(page.rows) else page

    def replace(self, record: Record) -> bool:
        """Show a newer state of an object in its row; return False if the window does not keep this row."""
        if self.arranged:
            return self._replace_arranged(record)
        index = self.index_of(record.get("id"))
        if index is None:
            return False
        slot = self._slot_at(index)
        rows = self.slots[slot].rows
        assert rows is not None
        rows[index - self._starts[slot]] = record
        return True

    def _replace_arranged(self, record: Record) -> bool:
        current, is_present = self.current, False
        for rows in [*(self.slots[n].rows or [] for n in self._kept), *self._dropped_matches.values()]:
            for index, row in enumerate(rows):
                if row.get("id") == record.get("id"):
                    rows[index], is_present = record, True
        self._settle_cursor(current, self.cursor)
        return is_present

    def push(self, records: Sequence[Record]) -> list[Record]:
        """Add rows that the server pushed, newest first, and return the rows that were added.

        If the cursor does not follow new rows, only count them in `waiting`, and return no rows. If the first
        page becomes too long, the window cuts off its older rows. When these rows are needed, the window
        fetches them again, with the id of the last remaining row as cursor. So `push` works only for lists
        whose cursors are row ids.
        """
        head = self.slots[0] if self.slots else None
        if head is None or head.rows is None:
            return []
        known_ids = self._ids(head)
        new = [record for record in records if record.get("id") not in known_ids]
        if not self.following:
            self._pushed_ids |= {record.get("id") for record in new}
            self._waits |= self._pushed_ids
            return []
        current, rows = self.current, [*new, *head.rows]
        if len(rows) > _HEAD_PAGES * self.page_size:
            rows = rows[: self.page_size]
            self._begin_with(ListPage(rows, str(rows[-1].get("id"))))
        else:
            self._fill(0, rows)
        if self.arranged:
            self._settle_cursor(current, self.cursor)
        return new

    # ------------------------------------------------------------------ inside

    def _slot_at(self, index: int) -> int:
        return min(bisect_right(self._starts, index), len(self.slots)) - 1

    def _fill(self, number: int, rows: list[Record]) -> None:
        slot = self.slots[number]
        slot.rows = rows
        if slot.count != len(rows):
            slot.count = len(rows)
            self._starts = [0, *accumulate(slot.count for slot in self.slots)]

    def _append(self, want: Want, page: ListPage) -> None:
        rows = self._without_known(page.rows)
        self.loaded = True
        self.frontier = page.older
        self.slots.append(Slot(want.cursor, len(rows), rows))
        self._starts.append(self._starts[-1] + len(rows))
        self._extend_run(len(self.slots) - 1)

    def _prepend(self, page: ListPage) -> None:
        """Add rows above the first row. The id of the last added row becomes the cursor of the page below."""
        rows = self._without_known(page.rows)
        # In a page of newer rows, `older` leads to even newer rows.
        self.newer = page.older if rows else None
        if not rows:
            return
        self.slots[0].cursor = str(rows[-1].get("id"))
        self.slots.insert(0, Slot(None, len(rows), rows))
        # The previous first page is now the upper end of the run.
        self._run = range(self._run.start + 1, self._run.stop + 1)
        self._extend_run(1)
        self._starts = [0, *accumulate(slot.count for slot in self.slots)]

    def note_newer_refused(self) -> None:
        """Note that this server cannot page from the middle to newer rows. `want` stops asking for them."""
        self.in_flight = None
        self.newer_refused = True

    def _refill(self, number: int, page: ListPage) -> None:
        self.slots[number].rows = None  # otherwise `_without_known` would leave out the unchanged rows
        self._fill(number, self._without_known(page.rows))
        self._extend_run(number)

    def _extend_run(self, number: int) -> None:
        """Add a slot to the run if the slot is next to the run; otherwise drop the run and begin another."""
        if number == 0:  # the first page is always kept and never part of the run
            return
        run = self._run
        if not run or not run.start - 1 <= number <= run.stop:
            for other in run:
                self._drop(other)
            run = range(number, number)
        self._run = range(min(run.start, number), max(run.stop, number + 1))

    def _drop(self, number: int) -> None:
        """Forget the rows of a page, except rows that match the condition of a search."""
        slot = self.slots[number]
        if self._keep is not None and sum(map(len, self._dropped_matches.values())) < KEPT_MOST:
            self._dropped_matches[number] = [*filter(self._keep, slot.rows or ())]
        slot.rows = None

    def _without_known(self, rows: Sequence[Record]) -> list[Record]:
        # If the server numbers its pages, new rows shift the pages, so a row may arrive a second time.
        known_ids = {record.get("id") for n in self._kept for record in self.slots[n].rows or ()}
        return [record for record in rows if record.get("id") not in known_ids]

    def _take_news(self, page: ListPage) -> None:
        head = self.slots[0] if self.slots else None
        if head is not None and not page.rows and page.older is not None:
            return  # an empty page with older pages below has no news
        if head is None or not head.rows or not page.rows:
            self._begin_with(page)
            return
        fresh = {record.get("id"): record for record in page.rows}
        meets = next((n for n, r in enumerate(page.rows) if r.get("id") in self._ids(head)), None)
        if meets is None:  # so many rows are new that the page does not reach the known rows
            if self.following or not page.older:
                self._begin_with(page)
            else:
                self._waits, self.waiting_is_minimum = (
                    {r.get("id") for r in page.rows} | self._pushed_ids,
                    True,
                )
            return
        new = list(page.rows[:meets])
        # A known row has left the list if the page covers the row's place but does not contain the row.
        ends = page.older is None and len(self.slots) == 1
        reach = len(head.rows) if ends else max(n for n, r in enumerate(head.rows) if r.get("id") in fresh)
        old_rows = [
            _newer_if_different(record, fresh.get(record.get("id"), record))
            for n, record in enumerate(head.rows)
            if n > reach or record.get("id") in fresh
        ]
        if self.following and len(new) + len(old_rows) > _HEAD_PAGES * self.page_size:
            self._begin_with(page)
            return
        waiting = set() if self.following else {record.get("id") for record in new} | self._pushed_ids
        self._waits, self._pushed_ids, self.waiting_is_minimum = waiting, waiting & self._pushed_ids, False
        self._fill(0, new + old_rows if self.following else old_rows)

    @staticmethod
    def _ids(slot: Slot) -> set[object]:
        return {record.get("id") for record in slot.rows or ()}

    def _begin_with(self, page: ListPage) -> None:
        self.slots = [Slot(None, len(page.rows), list(page.rows))]
        self._run = range(1, 1)
        self._starts = [0, len(page.rows)]
        self.frontier = page.older
        self.loaded = True
        self._waits, self._pushed_ids, self.waiting_is_minimum = set(), set(), False

    def _settle_cursor(self, current: Record | None, before: int) -> None:
        if self.arranged:
            self._arrange()
        if self.following:
            self.cursor = 0
            return
        place = self.index_of(current.get("id")) if current is not None else None
        self.cursor = max(0, min(before if place is None else place, len(self) - 1))

    def _evict(self, top: int) -> None:
        """Drop pages while the window keeps more than `cap` rows.

        Drop the pages at the end of the run that is farther from the screen, but neither the page on the
        screen nor the pages next to it.
        """
        surplus = self.resident - self.cap
        # In an arranged list, the rows on the screen may come from any page. Keep the pages with the oldest
        # rows, because these pages were read last.
        screen_slot = len(self.slots) if self.arranged else self._slot_at(max(0, min(top, len(self) - 1)))
        while surplus > 0 and self._run:
            run = self._run
            is_top_far = screen_slot - run.start >= run.stop - 1 - screen_slot
            far = run.start if is_top_far else run.stop - 1
            if abs(far - screen_slot) <= 1:
                break
            self._drop(far)
            surplus -= self.slots[far].count
            self._run = run[1:] if is_top_far else run[:-1]
        if self.arranged:
            self._arrange()


def _newer_if_different(old: Record, new: Record) -> Record:
    """Return the newer state of an object; if nothing has changed, return `old`.

    The table redraws a row only if its record is another dict object.
    """
    return old if old == new else new
