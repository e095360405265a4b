"""The list of a screen: the table of a `ListModel`, and the workers that read its pages.

The list works for any `Resource`. Only accounts and users get special treatment: a list of accounts or users
stores the names in its rows, because other screens show these names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from ledger_client.errors import InvalidRequest, LedgerError, PermissionDenied
from ledger_tui.client.errors import NotOffered
from ledger_tui.client.lists import fetch_page, learn_account, learn_users_until
from ledger_tui.client.records import PAGE_SIZE, ListPage, Record, Want, records_of
from ledger_tui.formats import times
from ledger_tui.formats.text import literal
from ledger_tui.lists.arranging import ColumnsScreen, columns_of
from ledger_tui.lists.list_model import ListModel
from ledger_tui.lists.newest import ANY_TIME
from ledger_tui.lists.paged_table import PagedTable, TableHeader
from ledger_tui.settings.config import ListSettings
from ledger_tui.ui.handlers import WorkerFailed, asks, handles, while_running
from ledger_tui.ui.view import NamesLoaded, Stack

_NO_LEDGER_BEFORE = datetime(2020, 1, 1, tzinfo=UTC)
_ROW_BEFORE = "A newer row had just come; this is the row that was there before. f goes to the new row."
_HALVINGS = 40  # the maximum number of requests to find the oldest row
_AGES_SECONDS = 10.0  # the interval between two drawings of relative times


@dataclass
class PageFailed(Message):
    """A page could not be read; `sentence` gives the reason.

    `newer_refused` is True if the server cannot page from the middle of a list to newer rows. `forbidden` is
    True if the credential is not allowed to read the list.
    """

    want: Want
    sentence: str
    newer_refused: bool = field(default=False, kw_only=True)
    forbidden: bool = field(default=False, kw_only=True)


class RecordList(Stack):
    """The table of a `ListModel`, and the workers that read its pages as the user moves through them.

    A RecordList calls `tell_change` after each change of the rows, and after each change of the reason why
    the list cannot be read. If the server lacks the list, the table shows the rows of `stand_in_rows`.
    """

    _users_asked_for = False
    _ages_drawn_at = 0.0

    def __init__(
        self, model: ListModel, tell_change: Callable[[], None], stand_in_rows: Callable[[], list[Record]]
    ) -> None:
        super().__init__(id="list")
        self.model = model
        self.resource = model.resource
        self.context = model.context
        self._tries_end_again = False  # whether a timer will call `_reach_end_again`
        self._tell_change = tell_change
        self._stand_in_rows = stand_in_rows

    def compose(self) -> ComposeResult:
        yield Static(classes="lacks")
        yield TableHeader()
        columns = columns_of(self.resource, self.model.settings)
        yield PagedTable(self.model, columns, self.context.names)

    def on_mount(self) -> None:
        self.show_missing()
        self._arrange_rows()

    def show_missing(self) -> None:
        """Show a note above the rows if the server lacks the list."""
        lacks = self.query_one(".lacks", Static)
        lacks.display = self.model.is_missing and bool(self.model.problem)
        if lacks.display:
            lacks.update(Content(self.model.problem))

    # ------------------------------------------------------------------ fetching

    def poll(self) -> None:
        """Read a page that may contain new or changed rows.

        If the server lacks the list, show the rows of `stand_in_rows` instead.
        """
        if self.model.is_missing:
            self.stand_in()
        else:
            self._load_page(self.model.page_to_poll(self.table.top, self.table.height_in_rows))

    def fetch(self) -> None:
        """Read the page that the visible rows need, unless all these rows are loaded."""
        self._load_page(self.model.page_for(self.table.top, self.table.height_in_rows))

    def _load_page(self, want: Want | None) -> None:
        if want is not None:
            self._load(want)

    @asks("page")
    async def _load(self, want: Want) -> None:
        resource = self.resource
        place = resource.list_path(self.model.filters)
        if place is None:
            self.post_message(PageFailed(want, resource.empty))
            return
        path, params = place
        sent_at = self.context.session.clock()
        try:
            page = await fetch_page(self.context.api, path, params, want, resource.part)
        except NotOffered as error:
            # If the path contains an object's id, a 404 may mean that the object is missing, not the list. So
            # show the server's sentence too.
            absence = literal(error) if path != resource.path else ""
            sentence = (
                resource.missing_text
                or f"This server has no list of {resource.title.lower()}; / opens one by its id."
            )
            self.post_message(PageFailed(want, f"{sentence} ({absence})" if absence else sentence))
        except InvalidRequest as error:
            # A request for newer rows contains `ending_before`. The contract has no such parameter, so a
            # server may refuse this request.
            is_refusal = want.kind == "newer"
            self.post_message(PageFailed(want, literal(error), newer_refused=is_refusal))
        except LedgerError as error:
            self.post_message(PageFailed(want, literal(error), forbidden=isinstance(error, PermissionDenied)))
        else:
            self.call_later(self.take_page, want, page, sent_at)

    @while_running
    def take_page(self, want: Want, page: ListPage, sent_at: float = ANY_TIME) -> None:
        moved_by = self.model.take_page(want, page, self.table.top, sent_at)
        if moved_by is None:
            return
        if page.rows:
            self.context.session.saw_livemode(page.rows[0].get("livemode"))
        if self.resource.kind == "accounts" and self.context.names.learn(page.rows):
            self.post_message(NamesLoaded())
        if self.resource.kind == "users":
            self.context.names.learn_users(page.rows)
        if self.resource.kind == "webhook_endpoints":
            self.context.names.learn_endpoints(page.rows)
        self.show_rows(moved_by)
        self._go_to_created()
        self.fetch()
        if self.model.searching:
            self._continue_search()

    def show_rows(self, moved_by: int = 0) -> None:
        """Redraw the table with the present rows of the window."""
        self.table.repaint(moved_by)
        self._tell_change()

    @handles(PageFailed)
    def take_failure(self, message: PageFailed) -> None:
        if message.want != self.model.window.in_flight:
            message.stop()
            return
        if message.newer_refused:
            message.stop()
            self.model.newer_refused()
            self.notify("This server cannot load newer rows from here; f goes to the newest.", markup=False)
            self.fetch()
            return
        self.model.page_failed(message.want, message.sentence, forbidden=message.forbidden)
        if self.model.is_missing:
            self.stand_in()
        self._tell_change()

    def stand_in(self) -> None:
        """Show the rows of `stand_in_rows`, because the server lacks the list."""
        if self.model.stand_in(self._stand_in_rows()):
            self.show_rows()

    def remember(self, record: Record) -> None:
        """Keep an object that was read or created, to show it if the server lacks the list."""
        self.model.remember(record)
        if self.model.is_missing:
            self.stand_in()

    @handles(WorkerFailed)
    def work_failed(self, message: WorkerFailed) -> None:
        if message.group == "page":
            self.model.forget_awaited_page()

    @handles(PagedTable.ColumnsFitted)
    def columns_fitted(self, message: PagedTable.ColumnsFitted) -> None:
        message.stop()
        self.query_one(TableHeader).columns = message.columns

    # ------------------------------------------------------------------ sorting and searching

    def settings_changed(self) -> None:
        """Show the columns and the order that the user has chosen."""
        self._arrange_rows()
        self.table.show_columns(columns_of(self.resource, self.model.settings))
        self._tell_change()

    def choose_columns(self) -> None:
        """Open the dialog of the columns and the order, and save the user's choice."""
        saved_lists, kind = self.context.saved, self.resource.kind
        before = saved_lists.of(kind)

        def preview(settings: ListSettings) -> None:
            saved_lists.use(kind, settings)
            self.settings_changed()

        def closed(settings: ListSettings | None) -> None:
            if settings is not None and settings != before and (problem := saved_lists.save(kind)):
                self.notify(problem, severity="warning", markup=False)

        self.app.push_screen(ColumnsScreen(self.resource, before, preview), closed)

    @handles(TableHeader.Clicked)
    def sort_by(self, message: TableHeader.Clicked) -> None:
        """Sort by the column whose heading the user clicked.

        A second click reverses the order, and a third click ends the sorting.
        """
        message.stop()
        saved_lists, kind = self.context.saved, self.resource.kind
        name, largest_first = message.column.name, message.column.largest_first
        saved_lists.use(kind, self.model.settings.sorted_next(name, largest_first=largest_first))
        self.settings_changed()
        if problem := saved_lists.save(kind):
            self.notify(problem, severity="warning", markup=False)

    def times_changed(self) -> None:
        """Redraw the times in the style that the user has chosen."""
        self.table.redraw()
        self.query_one(TableHeader).refresh()

    def draw_ages(self) -> None:
        """Redraw relative times if the last drawing is too old."""
        now = self.context.session.clock()
        if times.chosen.style is times.TimeStyle.RELATIVE and now - self._ages_drawn_at >= _AGES_SECONDS:
            self._ages_drawn_at = now
            self.times_changed()

    def narrow(self, text: str) -> None:
        """Show only the loaded rows that contain `text`; for "", show all loaded rows."""
        if self.model.narrow(text):
            self.show_rows()

    def _arrange_rows(self) -> None:
        self.query_one(TableHeader).sort = self.model.settings.sort
        self.model.arrange()

    def reach_end(self) -> None:
        """Read the next older page if the cursor is near the end of a filtered list."""
        if not self.model.is_near_end(self.table.height_in_rows):
            return
        want = self.model.page_at_end()
        if want is not None:
            self._load(want)
        # A read is running or has just ended, so try again after the pause.
        elif self.model.window.has_older and not self._tries_end_again:
            self._tries_end_again = True
            self.set_timer(self.context.session.look_pause, self._reach_end_again)

    @while_running
    def _reach_end_again(self) -> None:
        self._tries_end_again = False
        self.reach_end()

    def search(self) -> None:
        """Read older pages, one after the other, until the list shows one more row or ends."""
        if self.model.begin_search():
            self._continue_search()

    def stop_searching(self) -> None:
        """Stop the search, and show a note with the numbers of matches and loaded rows."""
        self.workers.cancel_group(self, "page")
        self.model.stop_search()
        self.notify(self._search_result(), markup=False)
        self._tell_change()

    def has_state_to_clear(self) -> bool:
        """Return whether a search is running, rows are marked, or a text narrows the list.

        If so, esc ends one of these states, and does not leave the screen.
        """
        model = self.model
        return self.is_mounted and bool(model.searching or model.marks or model.text)

    def clear_one_state(self) -> None:
        """End the search. If no search is running, remove the marks; without marks, show all rows again."""
        if self.model.searching:
            self.stop_searching()
        elif self.model.marks:
            self.table.unmark([*self.model.marks])
        else:
            self.narrow("")

    def _search_result(self) -> str:
        window, text = self.model.window, self.model.text
        matches = f"{len(window):,} match" if len(window) else "no match"
        ways = "m continues, esc shows all rows" if text else "m continues"
        return f"Search stopped: {matches} in {window.resident:,} rows. {ways}."

    def _continue_search(self) -> None:
        if self.model.search_goes_on():
            self.set_timer(self.context.session.look_pause, self._search_next_page)
        self._tell_change()

    @while_running
    def _search_next_page(self) -> None:
        want = self.model.page_to_search()
        if want is not None:
            self._load(want)
        elif self.model.searching:  # another read is running: try again after the pause
            self.set_timer(self.context.session.look_pause, self._search_next_page)

    # ------------------------------------------------------------------ the filter

    def apply_filters(self, params: dict[str, str], text: str) -> None:
        """Apply the typed filters, and show only the rows that contain `text`."""
        self.set_filters(self.model.filters_with_path(params), text)

    def set_filters(self, params: dict[str, str], text: str = "") -> None:
        """Read the list again with these filters, and show only the rows that contain `text`."""
        self.model.set_filters(params, text)
        self._show_from_start()

    def start_over(self) -> None:
        """Read the list again from its beginning."""
        self.model.start_over()
        self._show_from_start()

    def _show_from_start(self) -> None:
        self.query_one(TableHeader).sort = self.model.settings.sort
        self.table.start_over()
        self._tell_change()
        self.fetch()

    def reload(self) -> None:
        """Read the list again from its beginning. The present rows stay until the answer arrives."""
        self._load(self.model.page_again())

    def read_moment(self) -> None:
        """Read the list as it was at another moment."""
        self._load(self.model.page_of_moment())
        self._tell_change()

    def open_at(self, record: Record) -> None:
        """Show the rows around an object, wherever it is in the list."""
        self.model.open_at(record)
        self.query_one(TableHeader).sort = ""
        self.table.start_over()
        self._tell_change()
        # The cursor can move to a row only after the table is laid out.
        self.call_after_refresh(self.fetch)

    # ------------------------------------------------------------------ far away

    def go_to_oldest(self) -> None:
        """Show the oldest rows of the whole list, if the server can list the rows at a past moment."""
        if self.model.window.has_older and self.takes_moments:
            self._find_oldest()

    @property
    def takes_moments(self) -> bool:
        """Whether the server can list the rows at a past moment."""
        takes = any(each.param == "at" for each in self.resource.filters)
        return takes and self.resource.paging == "starting_after"

    async def _rows_until(self, at: str, limit: int) -> tuple[list[Record], bool]:
        """Return the newest rows at the moment `at`, and whether there are older rows.

        Raises LedgerError.
        """
        path, params = self.resource.list_path(self.model.filters) or (self.resource.path, {})
        page = (await self.context.api.read(path, {**params, "at": at, "limit": str(limit)})).record
        return records_of(page.get("data")), page.get("has_more") is True

    @asks("jump")
    async def go_to_date(self, date: str) -> None:
        """Show the rows at a date and before it; call this only if the list `takes_moments`."""
        with self._refusals_as_notes():
            rows, _more = await self._rows_until(date, 1)
            if rows:
                self.call_later(self.open_at, rows[0])
            else:
                self.notify(f"There is no row at or before {date}.", markup=False)

    @asks("jump")
    async def _find_oldest(self) -> None:
        """Show the oldest row.

        The server can list the rows before a moment, but cannot start a list at its oldest row. So this
        method bisects the time, until a single page contains all rows before a moment.
        """
        first, last = _NO_LEDGER_BEFORE, datetime.now(UTC)
        oldest: Record | None = None
        with self._refusals_as_notes():
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
    def _refusals_as_notes(self) -> Iterator[None]:
        try:
            yield
        except LedgerError as error:
            self.notify(literal(error), severity="warning", markup=False)

    def expect(self, created: Record | None) -> None:
        """Go to a created object's row as soon as the list contains the object, and keep the cursor there."""
        if created is not None:
            self.remember(created)
            self.model.expect(created)
            self._go_to_created()  # a poll may have read the row already

    def _go_to_created(self) -> None:
        row = self.model.row_of_created()
        if row is not None:
            self.table.go_to(row)
            self.model.hold()  # the next key must act on this row, even if other people create newer rows
            self._tell_change()

    def record_being_read(self) -> Record | None:
        """Return the record that the user was reading when a key was pressed.

        If a newer row has just come under the cursor, first put the cursor back on the row that was there a
        second ago, and show a note about this.
        """
        if (row := self.model.row_being_read) is not None:
            self.table.go_to(row)
            self.notify(_ROW_BEFORE, markup=False)
        return self.model.selected

    @property
    def table(self) -> PagedTable:
        return self.query_one(PagedTable)

    def learn_names(self) -> None:
        """Read the unknown names of accounts in the visible rows and in the selected row.

        If the rows contain ids of users, the first call also reads the newest users.
        """
        unknown = self.model.unknown_accounts(self.table.top, self.table.height_in_rows)
        if unknown:
            self._look_up(unknown)
        if self.resource.names_users and not self._users_asked_for:
            self._users_asked_for = True
            self._learn_users()

    @asks("users")
    async def _learn_users(self) -> None:
        """Read the newest users, to show their names instead of their ids."""
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
        self.model.arrange_again()
        self.table.widen_columns()
        self.table.redraw()
