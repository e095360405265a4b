"""The model of a list: its filters, its rows, the search in older pages, and the user's selection.

Data flows one way. The widgets of the list read the model and its window, and call the model's methods; only
the model changes the window. The model draws nothing and sends nothing: it returns the page to read next, and
takes the page that its caller has read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from urllib.parse import quote, urlencode

from ledger_tui.client.records import ListPage, Record, Want
from ledger_tui.lists.arranging import order_of, selected_by
from ledger_tui.lists.arrivals import Arrivals
from ledger_tui.lists.newest import ANY_TIME, NewestStates
from ledger_tui.lists.window import Keep, Window
from ledger_tui.resources.base import FilterContext, Resource
from ledger_tui.settings.config import ListSettings
from ledger_tui.ui.view import Context


class ListModel:
    """The list of one resource. Read `window` freely, but change it only with the methods of the model.

    Several methods return a `Want`, which describes the page to read, or None if there is nothing to read.
    The caller reads this page, and then calls `take_page` or `page_failed`.
    """

    def __init__(self, resource: Resource, context: Context) -> None:
        self.resource = resource
        self.context = context
        self.window = Window()
        self.filters: dict[str, str] = {}
        self.text = ""  # the list shows only records with this text
        self.searching = False  # whether a search reads older pages to find more rows
        self.summary: Record = {}  # the server's counts of the whole list, if it sends them
        self.is_old = False  # whether the user has chosen another moment since these rows were read
        self.problem = ""  # why the list cannot be read, in a sentence; "" if it can be read
        self.marks: dict[str, Record] = {}  # the records marked with space, by id
        self.pinned: Record | None = None  # the selected object if its row is not loaded
        self.remembered: list[Record] = []  # objects read one by one, to show if the server lacks the list
        self._rows_before_search = 0
        self._polls = 0
        self._poll_rows_next = False  # whether the next poll reads the page on the screen again
        self._end_page_at = 0.0  # the earliest time for another page while the cursor is at the end
        self._created: object = None  # the id of a created object that is not listed yet
        self._arrivals = Arrivals(context.session.clock)
        self._newest_states = NewestStates(context.session.clock)
        # the credential that is not allowed to read this list, by its number (`Session.credentials`)
        self._refused_as: int | None = None

    # ------------------------------------------------------------------ what is shown

    @property
    def settings(self) -> ListSettings:
        """The columns, the sorting and the bookmarks that the user chose for this list."""
        return self.context.saved.of(self.resource.kind)

    @property
    def is_missing(self) -> bool:
        """Whether the server lacks this list."""
        return self.resource.part in self.context.session.missing_parts

    @property
    def is_loading(self) -> bool:
        """Whether the list is empty only because its first page has not arrived yet."""
        return self.selected is None and not self.window.loaded and not self.problem

    @property
    def condition(self) -> Keep | None:
        """The test that selects which of the server's rows to show; None shows all rows."""
        context = FilterContext(self.context.names, self.context.session.today)
        return selected_by(self.resource, self.filters, context, self.text)

    def hides(self, record: Record) -> bool:
        """Return whether the filters or the text hide this object; False for an object of another kind."""
        if not str(record.get("id")).startswith(self.resource.id_prefix):
            return False
        condition = self.condition
        others = any(record.get(param, value) != value for param, value in self.filters.items())
        return others or (condition is not None and not condition(record))

    def shown_path(self) -> str:
        """Return the path and query of the filtered list.

        While a parameter of the path is missing, return the path with the parameter's name in braces.
        """
        path, params = self.resource.list_path(self.filters) or (self.resource.path, {})
        return path + (f"?{urlencode(params, quote_via=quote)}" if params else "")

    # ------------------------------------------------------------------ filters, text and order

    def arrange(self) -> None:
        """Sort the rows by the settings, and show only those that pass the filters and contain the text."""
        self._arrivals.forget()
        settings = self.settings
        order = order_of(self.resource, settings, self.context.names)
        self.window.sort(order, descending=settings.descending)
        self.window.show_only(self.condition)

    def arrange_again(self) -> None:
        """Sort and filter the rows again, because names or deliveries have changed."""
        self.window.arrange_again()

    def narrow(self, text: str) -> bool:
        """Show only the loaded rows that contain the text ("" shows all); return whether the text is new."""
        if text == self.text:
            return False
        self.text = text
        self.searching = False
        self.arrange()
        return True

    def set_filters(self, params: dict[str, str], text: str = "") -> None:
        """Start over with these filters and this text; forget the marks, and a created object that is
        awaited.
        """
        self.filters = params
        self.text = text
        self.marks.clear()
        self._created = None
        self.start_over()

    def filters_with_path(self, params: dict[str, str]) -> dict[str, str]:
        """Return the typed filters, and the parameters of the path, such as a statement's account.

        A parameter of the path keeps its value unless the user typed another value.
        """
        path_filters = {
            name: value for name, value in self.filters.items() if f"{{{name}}}" in self.resource.path
        }
        return path_filters | params

    def start_over(self) -> None:
        """Forget all rows; the next page to read is the first."""
        self._retry()
        self.window.reset()
        self.arrange()

    def open_at(self, record: Record) -> None:
        """Start over at one object, wherever it is in the list. The next pages contain the rows around it."""
        self.window.open_at(record)
        self.text = ""
        self.problem = ""

    def _retry(self) -> None:
        """Forget the last failure, because `page_for` returns no page after a failure."""
        self.context.session.missing_parts.discard(self.resource.part or "")
        self.searching = False
        self.problem = ""

    # ------------------------------------------------------------------ the page to read next

    def page_for(self, top: int, height: int) -> Want | None:
        """Return the request for the page that the rows on the screen need; None if they need no page.

        After a failure, return None, because the dashboard asks the server again at the next poll, not at
        every key.
        """
        return None if self.problem else self.window.want(top, height)

    def page_to_poll(self, top: int, height: int) -> Want | None:
        """Return the request of this poll, or None.

        The request is for the newest page, which may contain new rows; for the page on the screen, whose rows
        may have changed; or for a page that the screen still needs. During a search, return None.
        """
        if self.searching:
            return None
        window, want = self.window, None
        self._polls += 1
        # If the filters that the dashboard applies leave the screen partly empty, every second poll reads an
        # older page.
        needs_rows = window.searches and not self.text and len(window) < height
        if self._polls % 2 and needs_rows:
            want = window.want_more()
        elif self._poll_rows_next and self.resource.changes:
            want = window.want_again(top, height)
        self._poll_rows_next = not self._poll_rows_next
        return want or (None if self.resource.still else window.want_news()) or window.want(top, height)

    def poll_rows_next(self) -> None:
        """Make the next poll read the page on the screen again."""
        self._poll_rows_next = True

    def page_of_moment(self) -> Want:
        """Return the request for the first page, to read the list at another moment.

        The present rows stay until the page arrives, but `is_old` is True for them.
        """
        self.is_old = self.window.loaded
        return self.page_again()

    def page_again(self) -> Want:
        """Return the request that reads the list again. The present rows stay until the page arrives."""
        self._retry()
        return self.window.want_anew()

    def is_near_end(self, height: int) -> bool:
        """Return whether to read an older page because the cursor is near the end of a filtered list.

        Return False if the list is sorted, during a search, and after a failure.
        """
        window = self.window
        is_near = window.cursor + height >= len(window)
        return is_near and window.searches and not window.sorted and not (self.searching or self.problem)

    def page_at_end(self) -> Want | None:
        """Return the request for the next older page, or None.

        Return None while another page is awaited. After this method has returned a request, it returns None
        for the seconds of the session's `look_pause`.
        """
        session = self.context.session
        want = self.window.want_more() if session.clock() >= self._end_page_at else None
        if want is not None:
            self._end_page_at = session.clock() + session.look_pause
        return want

    # ------------------------------------------------------------------ searching older pages

    @property
    def can_search(self) -> bool:
        """Whether older pages may contain more rows to show in this sorted or filtered list."""
        return self.window.arranged and self.window.has_older

    @property
    def why_no_search(self) -> str:
        """Why there are no older rows to search, in a sentence."""
        if self.window.has_older:
            return "This list loads older rows when you move down."
        return "All older rows are loaded already." if self.window.loaded else ""

    def begin_search(self) -> bool:
        """Begin to read older pages until the list shows one more row; return whether the search began."""
        if self.searching or not self.can_search:
            return False
        self.searching, self._rows_before_search = True, len(self.window)
        return True

    def search_goes_on(self) -> bool:
        """Return whether to read another page: the search ends at the first match or at the list's end."""
        self.searching = self.searching and (
            len(self.window) <= self._rows_before_search and self.window.has_older
        )
        return self.searching

    def page_to_search(self) -> Want | None:
        """Return the request for the next older page; None if the search has ended or a read is running."""
        return self.window.want_more() if self.searching else None

    def stop_search(self) -> None:
        """Stop the search, and ignore the awaited page, so that the number of rows does not change later."""
        self.searching = False
        self.forget_awaited_page()

    # ------------------------------------------------------------------ answers

    def take_page(self, want: Want, page: ListPage, top: int, sent_at: float = ANY_TIME) -> int | None:
        """Add a page that arrived. Return by how many rows the object under the cursor moved down.

        Return None for a stale page, which the list no longer waits for. `sent_at` is the time when the page
        was requested; an object whose state has changed since then keeps this state.
        """
        current, known = self.window.current, {row.get("id"): row for row in self.window.all_rows()}
        rows = [self.newest(row, sent_at) for row in page.rows]
        moved_by = self.window.apply(want, replace(page, rows=rows), top)
        self._note_arrival(current)
        if moved_by is not None:
            self._newest_states.note_changes(rows, known)
            self._drop_lost_marks()
            self.problem, self.is_old = "", False
            self.summary = page.summary or self.summary
        return moved_by

    def page_failed(self, want: Want, problem: str, *, forbidden: bool) -> None:
        """Note why a page could not be read.

        `forbidden` is True if the credential is not allowed to read this list.
        """
        self.window.failed(want)
        self.searching = False
        self.problem = problem
        self._refused_as = self.context.session.credentials if forbidden else None

    def note_problem(self, problem: str) -> None:
        """Note why the list cannot be read."""
        self.problem = problem

    def newer_refused(self) -> None:
        """Note that the server cannot load newer rows from the middle of the list."""
        self.window.note_newer_refused()

    def forget_awaited_page(self) -> None:
        """Stop waiting for the page that is being read, so that the list can ask for another page."""
        if self.window.in_flight is not None:
            self.window.failed(self.window.in_flight)

    def may_read_again(self) -> bool:
        """Return True once after the user has replaced a credential that is not allowed to read this list."""
        if self._refused_as in (None, self.context.session.credentials):
            return False
        self._refused_as = None
        return True

    def stand_in(self, rows: Sequence[Record]) -> bool:
        """Show these rows instead of the list that the server lacks; return whether the rows have changed."""
        window = self.window
        if [*window.rows_between(0, len(window))] == [*rows]:
            return False
        cursor, following = window.cursor, window.following
        window.reset()
        want = window.want(0, 1)
        assert want is not None
        window.apply(want, ListPage(rows, None))
        if not following:
            window.move(cursor)
        return True

    def remember(self, record: Record) -> None:
        """Keep an object that was read or created, to show it if the server lacks the list."""
        self.remembered = [record, *(r for r in self.remembered if r.get("id") != record.get("id"))]

    def push(self, records: Sequence[Record]) -> None:
        """Add rows that the server pushed, newest first."""
        current = self.window.current
        self.window.push(records)
        self._note_arrival(current)

    def newest(self, record: Record, sent_at: float) -> Record:
        """Return the state of an object to show: `record`, or the known state if it may be newer.

        `sent_at` is the time when the request was sent whose answer contains `record`.
        """
        return self._newest_states.newest(record, sent_at)

    def replace(self, record: Record) -> bool:
        """Show a newer state of an object in the object's row; return whether this row is loaded."""
        self._newest_states.note(record)
        return self.window.replace(record)

    def show_changed(self, record: Record) -> None:
        """Show the new state of an object that the user changed.

        If the object no longer passes the filters, its row still stays in the list.
        """
        if self.pinned and self.pinned.get("id") == record.get("id"):
            self.pin(record)
        if self.hides(record):  # False for a deleted object: the next poll removes its row
            self.window.let_stay(record.get("id"))
        self.replace(record)

    # ------------------------------------------------------------------ the selection

    @property
    def selected(self) -> Record | None:
        """The object that keys act on: the pinned object, or else the object under the cursor."""
        return self.pinned or self.window.current

    def _note_arrival(self, before: Record | None) -> None:
        """If another row has come under the cursor, note the row `before` that it has replaced.

        Do not note the row of an object that the user has just created: the user expects this row.
        """
        now = self.window.current
        is_created = self._created is not None and self.window.index_of(self._created) is not None
        if before is not None and now is not None and before.get("id") != now.get("id") and not is_created:
            self._arrivals.note(before.get("id"))

    @property
    def has_arrived_just_now(self) -> bool:
        """Whether the row under the cursor came there so recently that the user may mean another row."""
        return self.pinned is None and self.window.following and self._arrivals.is_new

    @property
    def row_being_read(self) -> int | None:
        """The number of the row that was under the cursor a second ago; None if this row is still there."""
        record_id = self._arrivals.id_being_read
        is_moving = self.pinned is None and self.window.following and record_id is not None
        return self.window.index_of(record_id) if is_moving else None

    def move(self, row: int) -> None:
        """Put the cursor on a row that the user has chosen."""
        self._arrivals.forget()
        self.window.move(row)

    def hold(self) -> None:
        """Keep the cursor on its object when new rows arrive on top.

        Do nothing while a created object is pinned and its row has not arrived yet: keys act on the pinned
        object already, and the cursor must still go to its row when the row arrives.
        """
        if self.pinned is None or self.pinned.get("id") != self._created:
            self.window.hold()

    def follow(self) -> None:
        """Go to the newest row, and move to each newer row that arrives."""
        self._arrivals.forget()
        self.window.follow()

    def pin(self, record: Record | None) -> None:
        """Select an object whose row is not loaded; None selects the row under the cursor again."""
        self.pinned = record

    @property
    def is_pinned_listed(self) -> bool:
        """Whether the cursor is on the row of the pinned object."""
        return self.pinned is not None and (self.window.current or {}).get("id") == self.pinned.get("id")

    def lacks(self, record: Record) -> bool:
        """Return whether this object of the list is neither selected nor in a loaded row, such as a restored
        one.
        """
        is_pinned = self.pinned is not None and self.pinned.get("id") == record.get("id")
        is_of_kind = str(record.get("id")).startswith(self.resource.id_prefix)
        return is_of_kind and not is_pinned and self.window.index_of(record.get("id")) is None

    def expect(self, created: Record) -> None:
        """Remember a created object, to go to its row as soon as the list contains the object.

        This row is not always the newest: a transfer creates two rows, and the other row is newer.
        """
        self._created = created.get("id")

    def row_of_created(self) -> int | None:
        """Return the row of the created object once, as soon as the row is loaded; otherwise None.

        If the user has moved the cursor away from the newest row, return None even when the row is loaded.
        """
        row = self.window.index_of(self._created) if self._created is not None else None
        if row is None:
            return None
        self._created = None
        return row if self.window.following else None

    # ------------------------------------------------------------------ marks

    @property
    def marked(self) -> list[Record]:
        """The marked records in the order of marking, each in its newest loaded state."""
        if not self.marks:
            return []
        now = {str(record.get("id")): record for _row, record in self.window.at_hand()}
        return [now.get(record_id, record) for record_id, record in self.marks.items()]

    def toggle_mark(self) -> bool:
        """Mark the object under the cursor, or remove its mark; return False if the list is empty."""
        record = self.window.current
        if record is None:
            return False
        record_id = str(record.get("id"))
        if self.marks.pop(record_id, None) is None:
            self.marks[record_id] = record
        self.window.hold()
        return True

    def toggle_all_marks(self) -> None:
        """Mark all loaded rows; if all are marked already, remove all marks."""
        rows = {str(record.get("id")): record for _row, record in self.window.at_hand()}
        if rows.keys() <= self.marks.keys():
            self.marks.clear()
        else:
            self.marks.update(rows)
            self.window.hold()

    def unmark(self, ids: Collection[str]) -> None:
        """Remove the marks of the objects with these ids."""
        for record_id in ids:
            self.marks.pop(record_id, None)

    def _drop_lost_marks(self) -> None:
        """Remove the marks of objects that have left the list.

        For example, an invoice leaves a list with the filter `status:open` when it is paid. Do nothing while
        a part of the list is not loaded or a text hides rows.
        """
        window = self.window
        ids = {str(record.get("id")) for _row, record in window.at_hand()} if self.marks else set()
        is_whole = window.loaded and window.frontier is None and window.newer is None
        if is_whole and not self.text and len(ids) == len(window):
            self.unmark(self.marks.keys() - ids)

    # ------------------------------------------------------------------ names

    def unknown_accounts(self, top: int, height: int) -> list[str]:
        """Return the ids of accounts without a known name, in the selected row and the rows on screen."""
        rows = [*self.window.rows_between(top, top + height), self.selected or {}]
        return self.context.names.unknown(id for row in rows for id in self.resource.account_ids(row))
