"""The list of a screen: a table over a window of rows, and the workers that read its pages.

It works for any `Resource`, and knows of accounts only that other screens show their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import quote, urlencode

from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from ledger_tui.client.errors import InvalidRequest, LedgerError, NotOffered, PermissionDenied
from ledger_tui.client.lists import fetch_page, learn_account, learn_users_until
from ledger_tui.client.records import PAGE_SIZE, ListPage, Record, Want
from ledger_tui.formats.text import literal
from ledger_tui.lists.arranging import columns_of, order_of, selected_by
from ledger_tui.lists.paged_table import PagedTable, TableHeader
from ledger_tui.lists.window import Keep, Window
from ledger_tui.resources.base import Resource, records_of
from ledger_tui.settings.config import ListSettings
from ledger_tui.ui.handlers import WorkerFailed, asks, handles, while_running
from ledger_tui.ui.view import Context, NamesLoaded, Stack

_NO_LEDGER_BEFORE = datetime(2020, 1, 1, tzinfo=UTC)
_HALVINGS = 40  # requests at most, to find the oldest row


@dataclass
class PageFailed(Message):
    """`newer_refused`: the server does not page upwards; `forbidden`: the credential may not read it."""

    want: Want
    sentence: str
    newer_refused: bool = field(default=False, kw_only=True)
    forbidden: bool = field(default=False, kw_only=True)


class RecordList(Stack):
    """The rows of one resource, whose pages are read as the user moves through them.

    Calls `tell_change` whenever the rows or `problem` change. On a server without the list it shows the rows
    that `stand_in_rows` returns.
    """

    _users_asked_for = False

    def __init__(
        self,
        resource: Resource,
        window: Window,
        context: Context,
        tell_change: Callable[[], None],
        stand_in_rows: Callable[[], list[Record]],
    ) -> None:
        super().__init__(id="list")
        self.resource = resource
        self.window = window
        self.context = context
        self.filters: dict[str, str] = {}
        self.text = ""  # only records with this text are shown
        self.searching = False  # whether older pages are being read to find more rows
        self._found_before = 0
        self._polls = 0
        self._next_page_at = 0.0  # when the cursor at the end may read another page
        self._tries_end_again = False
        self.summary: Record = {}  # the server's counts of the whole list, if it sends them
        self.problem = ""  # a sentence about the problem
        self.remembered: list[Record] = []  # objects read one by one, shown when the server lacks the list
        self._tell_change = tell_change
        self._stand_in_rows = stand_in_rows
        self._created: object = None  # the id of a created object that is not listed yet
        self._poll_rows_next = False
        self._refused_as: int | None = None  # the number of the credential that may not read this list

    def compose(self) -> ComposeResult:
        yield Static(classes="lacks")
        yield TableHeader()
        columns = columns_of(self.resource, self.settings)
        yield PagedTable(self.window, columns, self.context.names)

    def on_mount(self) -> None:
        self.show_missing()
        self._arrange_rows()

    @property
    def list_is_missing(self) -> bool:
        """Whether the server lacks this list."""
        return self.resource.part in self.context.session.missing_parts

    def show_missing(self) -> None:
        """Show a note above the rows when the server lacks the list."""
        lacks = self.query_one(".lacks", Static)
        lacks.display = self.list_is_missing and bool(self.problem)
        if lacks.display:
            lacks.update(Content(self.problem))

    # ------------------------------------------------------------------ fetching

    def may_read_again(self) -> bool:
        """Return True once after a credential that may not read this list was replaced."""
        if self._refused_as in (None, self.context.session.credentials):
            return False
        self._refused_as = None
        return True

    def poll(self) -> None:
        """Read what may be new: newer rows, the visible rows, or a page that is missing."""
        if self.list_is_missing:
            self.stand_in()
            return
        if self.searching:
            return
        want = None
        self._polls += 1
        if self._polls % 2 and self._needs_rows:
            want = self.window.want_more()
        elif self._poll_rows_next and self.resource.changes:
            want = self.window.want_again(self.table.top, self.table.height_in_rows)
        self._poll_rows_next = not self._poll_rows_next
        want = want or (None if self.resource.still else self.window.want_news()) or self._wanted_page()
        if want is not None:
            self._load(want)

    def _wanted_page(self) -> Want | None:
        return self.window.want(self.table.top, self.table.height_in_rows)

    def fetch(self) -> None:
        """Read the page that the visible rows need, unless it is loaded."""
        # After a failure the server is asked again at the next poll, not at every key.
        want = None if self.problem else self._wanted_page()
        if want is not None:
            self._load(want)

    @asks("page")
    async def _load(self, want: Want) -> None:
        resource = self.resource
        place = resource.list_path(self.filters)
        if place is None:
            self.post_message(PageFailed(want, resource.empty))
            return
        path, params = place
        try:
            page = await fetch_page(self.context.api, path, params, want, resource.part)
        except NotOffered as error:
            # With an object's id in the path, 404 may be about the object.
            absence = literal(error) if path != resource.path else ""
            sentence = (
                resource.missing_text
                or f"This server has no list of {resource.title.lower()}; / opens one by its id."
            )
            self.post_message(PageFailed(want, f"{sentence} ({absence})" if absence else sentence))
        except InvalidRequest as error:
            is_refusal = want.kind == "newer"  # `ending_before` is beyond the interface
            self.post_message(PageFailed(want, literal(error), newer_refused=is_refusal))
        except LedgerError as error:
            self.post_message(PageFailed(want, literal(error), forbidden=isinstance(error, PermissionDenied)))
        else:
            self.call_later(self.take_page, want, page)

    @while_running
    def take_page(self, want: Want, page: ListPage) -> None:
        moved_by = self.window.apply(want, page, self.table.top)
        if moved_by is None:
            return
        self.problem = ""
        self.summary = page.summary or self.summary
        if page.rows:
            self.context.session.saw_livemode(page.rows[0].get("livemode"))
        if self.resource.kind == "accounts" and self.context.names.learn(page.rows):
            self.post_message(NamesLoaded())
        if self.resource.kind == "users":
            self.context.names.learn_users(page.rows)
        self.show_rows(moved_by)
        self._go_to_created()
        self.fetch()
        if self.searching:
            self._search_on()

    def show_rows(self, moved_by: int = 0) -> None:
        """Draw the table again, with the rows the window holds now."""
        self.table.repaint(moved_by)
        self._tell_change()

    @handles(PageFailed)
    def take_failure(self, message: PageFailed) -> None:
        if message.want != self.window.in_flight:
            message.stop()
            return
        if message.newer_refused:
            message.stop()
            self.window.no_newer()
            self.notify("This server cannot load newer rows from here; f goes to the newest.", markup=False)
            self.fetch()
            return
        self.window.failed(message.want)
        self.searching = False
        self.problem = message.sentence
        self._refused_as = self.context.session.credentials if message.forbidden else None
        if self.list_is_missing:
            self.stand_in()
        self._tell_change()

    def stand_in(self) -> None:
        """Show the substitute rows when the server lacks the list."""
        rows = self._stand_in_rows()
        if [*self.window.rows_between(0, len(self.window))] != rows:
            cursor, following = self.window.cursor, self.window.following
            self.window.reset()
            want = self.window.want(0, 1)
            assert want is not None
            self.window.apply(want, ListPage(rows, None))
            if not following:
                self.window.move(cursor)
            self.show_rows()

    def remember(self, record: Record) -> None:
        """Keep an object that was read or created, to be shown when the server lacks the list."""
        self.remembered = [record, *(r for r in self.remembered if r.get("id") != record.get("id"))]
        if self.list_is_missing:
            self.stand_in()

    @handles(WorkerFailed)
    def work_failed(self, message: WorkerFailed) -> None:
        if message.group == "page" and self.window.in_flight is not None:
            self.window.failed(self.window.in_flight)

    @handles(PagedTable.ColumnsFitted)
    def columns_fitted(self, message: PagedTable.ColumnsFitted) -> None:
        message.stop()
        self.query_one(TableHeader).columns = message.columns

    # ------------------------------------------------------------------ sorting and searching

    @property
    def settings(self) -> ListSettings:
        """The columns, the sorting and the bookmarks that the user chose for this list."""
        return self.context.saved.of(self.resource.kind)

    def settings_changed(self) -> None:
        """Show the columns and the order that are chosen now."""
        self._arrange_rows()
        self.table.show_columns(columns_of(self.resource, self.settings))
        self._tell_change()

    @handles(TableHeader.Clicked)
    def sort_by(self, message: TableHeader.Clicked) -> None:
        """Sort by the column whose heading was clicked; again the other way round, then not at all."""
        message.stop()
        saved_lists, kind = self.context.saved, self.resource.kind
        saved_lists.use(kind, self.settings.sorted_next(message.column.name))
        self.settings_changed()
        if problem := saved_lists.save(kind):
            self.notify(problem, severity="warning", markup=False)

    def times_changed(self) -> None:
        """Draw the times again."""
        self.table.redraw()
        self.query_one(TableHeader).refresh()

    def narrow(self, text: str) -> None:
        """Show only the loaded rows with this text; "" for all of them."""
        if text != self.text:
            self.text = text
            self.searching = False
            self._arrange_rows()
            self.show_rows()

    def _arrange_rows(self) -> None:
        """Sort and select the rows of the window as the settings, the filters and the text say."""
        settings = self.settings
        self.query_one(TableHeader).sort = settings.sort
        order = order_of(self.resource, settings, self.context.names)
        self.window.sort(order, descending=settings.descending)
        self.window.show_only(self.selects)

    @property
    def selects(self) -> Keep | None:
        """The condition for the rows that are shown, beyond what the server filters; None for all."""
        return selected_by(self.resource, self.filters, self.context.names, self.text)

    @property
    def _needs_rows(self) -> bool:
        """Whether a filter of the dashboard's own has left the screen partly empty: pages follow at polls."""
        window = self.window
        return window.searches and not self.text and len(window) < self.table.height_in_rows

    def reach_end(self) -> None:
        """Read the next older page when the cursor comes to the end of a list that shows only some rows."""
        window, session = self.window, self.context.session
        near = window.cursor + self.table.height_in_rows >= len(window)
        if near and window.searches and not window.sorted and not (self.searching or self.problem):
            want = window.want_more() if session.clock() >= self._next_page_at else None
            if want is not None:
                self._next_page_at = session.clock() + session.look_pause
                self._load(want)
            elif window.has_older and not self._tries_end_again:  # one is on its way or has just come
                self._tries_end_again = True
                self.set_timer(session.look_pause, self._reach_end_again)

    @while_running
    def _reach_end_again(self) -> None:
        self._tries_end_again = False
        self.reach_end()

    def search(self) -> None:
        """Read older pages, in sequence, until one more row is shown or the list ends."""
        if not self.searching and self.window.arranged and self.window.has_older:
            self.searching, self._found_before = True, len(self.window)
            self._search_on()

    def stop_searching(self) -> None:
        self.searching = False
        self._tell_change()

    def _search_on(self) -> None:
        if len(self.window) > self._found_before or not self.window.has_older:
            self.searching = False
        else:
            self.set_timer(self.context.session.look_pause, self._search_further)
        self._tell_change()

    @while_running
    def _search_further(self) -> None:
        want = self.window.want_more() if self.searching else None
        if want is not None:
            self._load(want)
        elif self.searching:  # another page is on its way
            self.set_timer(self.context.session.look_pause, self._search_further)

    # ------------------------------------------------------------------ the filter

    def apply_filters(self, params: dict[str, str]) -> None:
        """Filter by the typed values."""
        # Path parameters, such as a statement's account, stay unless another is named.
        path_filters = {
            name: value for name, value in self.filters.items() if f"{{{name}}}" in self.resource.path
        }
        self.set_filters(path_filters | params)

    def set_filters(self, params: dict[str, str]) -> None:
        """Read the list again with these filters."""
        self.filters = params
        self.text = ""
        self.table.marked.clear()
        self._created = None
        self.start_over()

    def start_over(self) -> None:
        """Read the list again from its beginning."""
        self.context.session.missing_parts.discard(self.resource.part or "")
        self.searching = False
        self.window.reset()
        self._arrange_rows()
        self.problem = ""
        self.table.start_over()
        self._tell_change()
        self.fetch()

    def read_anew(self) -> None:
        """Read the list from its beginning, because another moment is shown; its rows stay until then."""
        self.context.session.missing_parts.discard(self.resource.part or "")
        self.searching = False
        self.problem = ""
        self._load(self.window.want_anew())

    def open_at(self, record: Record) -> None:
        """Show the rows around an object, wherever it is in the list."""
        self.window.open_at(record)
        self.text = ""
        self.query_one(TableHeader).sort = ""
        self.problem = ""
        self.table.start_over()
        self._tell_change()
        # The table must be laid out before the cursor can be set on a row.
        self.call_after_refresh(self.fetch)

    # ------------------------------------------------------------------ far away

    def go_to_oldest(self) -> None:
        """Show the oldest rows of all, if the server takes a moment for its list."""
        if self.window.has_older and self._takes_moments:
            self._find_oldest()

    def go_to_date(self, date: str) -> None:
        """Show the rows from this date on back, if the server takes a moment for its list."""
        if self._takes_moments:
            self._find_date(date)
        else:
            self.notify("This list has no dates to go to.")

    @property
    def _takes_moments(self) -> bool:
        takes = any(each.param == "at" for each in self.resource.filters)
        return takes and self.resource.paging == "starting_after"

    async def _rows_until(self, at: str, limit: int) -> tuple[list[Record], bool]:
        """Return the newest rows at a moment, and whether there are older ones. Raises LedgerError."""
        path, params = self.resource.list_path(self.filters) or (self.resource.path, {})
        page = (await self.context.api.read(path, {**params, "at": at, "limit": str(limit)})).record
        return records_of(page.get("data")), page.get("has_more") is True

    @asks("jump")
    async def _find_date(self, date: str) -> None:
        with self._said_if_refused():
            rows, _more = await self._rows_until(date, 1)
            if rows:
                self.call_later(self.open_at, rows[0])
            else:
                self.notify(f"There is no row at or before {date}.", markup=False)

    @asks("jump")
    async def _find_oldest(self) -> None:
        """Halve the time until all rows before a moment are on one page: no list begins at its oldest."""
        first, last = _NO_LEDGER_BEFORE, datetime.now(UTC)
        oldest: Record | None = None
        with self._said_if_refused():
            for _step in range(_HALVINGS):
                middle = first + (last - first) / 2
                rows, more = await self._rows_until(middle.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), PAGE_SIZE)
                first, last = (first, middle) if rows else (middle, last)
                oldest = rows[-1] if rows else oldest
                if rows and not more:
                    break
        if oldest is not None:
            self.call_later(self.open_at, oldest)

    @contextmanager
    def _said_if_refused(self) -> Iterator[None]:
        try:
            yield
        except LedgerError as error:
            self.notify(literal(error), severity="warning", markup=False)

    def expect(self, created: Record | None) -> None:
        """Go to a created object as soon as it is listed, and stay there.

        It need not be the newest: the other side of a transfer is newer.
        """
        if created is not None:
            self.remember(created)
            self._created = created.get("id")
            self._go_to_created()  # a poll may have read it already

    def hides(self, record: Record) -> bool:
        """Return whether an object of this list is not in it because of the filter or the text."""
        if not str(record.get("id")).startswith(self.resource.id_prefix):
            return False
        keep = self.selects
        others = any(record.get(param, value) != value for param, value in self.filters.items())
        return others or (keep is not None and not keep(record))

    def _go_to_created(self) -> None:
        at = self.window.index_of(self._created) if self._created is not None else None
        if at is None:
            return
        self._created = None
        if self.window.following:  # if not, the user has moved on
            self.table.go_to(at)
            self.window.hold()  # the next key is meant for it, whatever others create
            self._tell_change()

    def shown_path(self) -> str:
        """Return the filtered list's path with its query, or its template while a parameter is missing."""
        path, params = self.resource.list_path(self.filters) or (self.resource.path, {})
        return path + (f"?{urlencode(params, quote_via=quote)}" if params else "")

    @property
    def table(self) -> PagedTable:
        return self.query_one(PagedTable)

    def learn_names(self, selection: Record | None) -> None:
        """Read the names of the accounts in the visible rows and the selected one, where unknown."""
        top = self.table.top
        rows = [*self.window.rows_between(top, top + self.table.height_in_rows), selection or {}]
        unknown = self.context.names.unknown(id_ for row in rows for id_ in self.resource.account_ids(row))
        if unknown:
            self._look_up(unknown)
        if self.resource.names_users and not self._users_asked_for:
            self._users_asked_for = True
            self._learn_users()

    @asks("users")
    async def _learn_users(self) -> None:
        """Read the newest users, once, to show their names instead of their ids."""
        with suppress(LedgerError):
            await learn_users_until(self.context.api, self.context.names, "")
            self.post_message(NamesLoaded())

    @asks("names")
    async def _look_up(self, account_ids: list[str]) -> None:
        for account_id in account_ids:
            try:
                if await learn_account(self.context.api, self.context.names, account_id):
                    self.post_message(NamesLoaded())
            except LedgerError:
                return

    def names_loaded(self) -> None:
        self.window.arrange_again()
        self.table.widen_columns()
        self.table.redraw()
