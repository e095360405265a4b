"""One screen of the dashboard, whatever it shows: a list, its filter, the detail of the row.

It knows the `Resource` it was given and nothing of accounts or transactions. Keys become actions,
actions become wants, a worker fetches, its message comes back, one handler changes the state.
"""

from __future__ import annotations

from urllib.parse import quote

from textual import events, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.timer import Timer
from textual.widget import Widget
from textual.worker import Worker, WorkerState

from ledger_tui.actions import VIEW_KEYS
from ledger_tui.client.api import Api
from ledger_tui.client.errors import ClientError, NotFound, NotOffered
from ledger_tui.client.lists import fetch_page
from ledger_tui.hearing import hears, while_running
from ledger_tui.messages import (
    ActWanted,
    BackWanted,
    CreateWanted,
    NamesCame,
    PageCame,
    PageFailed,
    RecordCame,
    RecordFailed,
)
from ledger_tui.resources.base import Action, Resource
from ledger_tui.state.names import AccountNames
from ledger_tui.state.session import Session
from ledger_tui.state.text import literal
from ledger_tui.state.window import Record, Want, Window
from ledger_tui.widgets.caption import Caption
from ledger_tui.widgets.detail_pane import DetailPane
from ledger_tui.widgets.filter_bar import FilterBar
from ledger_tui.widgets.paged_table import PagedTable, TableHeader

WIDE_COLUMNS = 120
# Held-down keys pass rows faster than a detail is worth drawing or an account worth asking for.
_REST_SECONDS = 0.06


class ResourceView(Widget):
    """A list of one kind of object with everything that belongs to it."""

    BINDINGS = VIEW_KEYS

    def __init__(self, resource: Resource, api: Api, session: Session, names: AccountNames) -> None:
        super().__init__(id=resource.kind)
        self.resource = resource
        self.window = Window()
        self.filters: dict[str, str] = {}
        self.pinned: Record | None = None
        self.opened = False
        self.wide = False
        self.problem = ""
        self._api = api
        self._session = session
        self._names = names
        self._next_poll_at = 0.0
        self._poll_rows_next = False
        self._rest: Timer | None = None

    def compose(self) -> ComposeResult:
        yield Caption(self)
        yield FilterBar(self.resource.filters, self.resource.id_prefix)
        with Horizontal():
            with Vertical(id="list"):
                yield TableHeader()
                yield PagedTable(self.window, self.resource.columns, self._names)
            yield DetailPane()

    def on_mount(self) -> None:
        self.query_one(FilterBar).display = False
        self._rest = self.set_interval(_REST_SECONDS, self._at_rest, pause=True)
        self._show_detail()

    @property
    def table(self) -> PagedTable:
        return self.query_one(PagedTable)

    @property
    def selected(self) -> Record | None:
        """The record the keys act on."""
        return self.pinned or self.window.current

    def on_resize(self, event: events.Resize) -> None:
        self.wide = event.size.width >= WIDE_COLUMNS
        self.set_class(self.wide, "-wide")
        self._arrange()

    def _arrange(self) -> None:
        # Set here and not by a style rule: rules come true later, and a key must find its widget now.
        self.query_one("#list").display = self.wide or not self.opened
        self.query_one(DetailPane).display = self.wide or self.opened

    def _open(self, opened: bool) -> None:
        """Give the keys to the detail or to the list; where it is narrow only one of them is in sight."""
        self.opened = opened
        if not opened:
            self.pinned = None
        self._arrange()
        self._show_detail()
        if opened:
            self.query_one(DetailPane).focus_content()
        else:
            self.table.focus()
        self.refresh_bindings()

    def enter(self) -> None:
        """This view is shown now."""
        self._next_poll_at = 0.0
        self._open(self.opened)
        self._fetch()

    # ------------------------------------------------------------------ fetching

    def tick(self) -> None:
        """Called about once a second while shown: look again when it is time, within the rate limit."""
        now = self._session.clock()
        if now < self._next_poll_at or self._session.waiting_seconds or self.window.in_flight:
            return
        self._next_poll_at = now + self._session.poll_seconds
        want = None
        if self._poll_rows_next and self.resource.changes:
            want = self.window.want_again(self.table.top, self.table.height_in_rows)
        self._poll_rows_next = not self._poll_rows_next
        want = want or self.window.want_news() or self._wanted_page()
        if want is not None:
            self._load(want)

    def _wanted_page(self) -> Want | None:
        return self.window.want(self.table.top, self.table.height_in_rows)

    def _fetch(self) -> None:
        # A server that just said no is asked again in its time, not at every key.
        want = None if self.problem else self._wanted_page()
        if want is not None:
            self._load(want)

    @work(group="page", exclusive=True, exit_on_error=False)
    async def _load(self, want: Want) -> None:
        resource = self.resource
        try:
            page = await fetch_page(
                self._api, resource.path, resource.paging, self.filters, want, resource.part
            )
        except NotOffered:
            lacks = f"This server has no list of {resource.title.lower()}; / opens one by its id."
            self.post_message(PageFailed(want, lacks))
        except ClientError as error:
            self.post_message(PageFailed(want, literal(error)))
        else:
            self.post_message(PageCame(want, page))

    @hears(PageCame)
    def take_page(self, message: PageCame) -> None:
        message.stop()
        moved_by = self.window.apply(message.want, message.page, self.table.top)
        if moved_by is None:
            return
        self.problem = ""
        if message.page.rows:
            self._session.saw_livemode(message.page.rows[0].get("livemode"))
        if self.resource.kind == "accounts" and self._names.learn(message.page.rows):
            self.post_message(NamesCame())
        self.table.make_room_for(message.page.rows)
        self.table.repaint(moved_by)
        self._changed()
        self._fetch()

    @hears(PageFailed)
    def take_failure(self, message: PageFailed) -> None:
        message.stop()
        if message.want != self.window.in_flight:
            return
        self.window.failed(message.want)
        self.problem = message.sentence
        self._next_poll_at = self._session.clock() + self._session.poll_seconds
        self._changed()

    @hears(Worker.StateChanged)
    def worker_ended(self, event: Worker.StateChanged) -> None:
        """A fault of our own in a worker is told; it must not leave the list waiting for ever."""
        event.stop()
        if event.state is WorkerState.ERROR:
            self.problem = f"unexpected {literal(repr(event.worker.error))}"
            if event.worker.group == "page" and self.window.in_flight is not None:
                self.window.failed(self.window.in_flight)
            self._changed()

    @hears(PagedTable.Fitted)
    def columns_fitted(self, message: PagedTable.Fitted) -> None:
        message.stop()
        self.query_one(TableHeader).columns = message.columns

    @hears(PagedTable.Moved)
    def eye_moved(self, message: PagedTable.Moved) -> None:
        message.stop()
        self.pinned = None
        self._fetch()
        self._changed()

    def _changed(self) -> None:
        self.query_one(Caption).refresh()
        if self._rest is not None:
            self._rest.reset()
            self._rest.resume()

    @while_running
    def _at_rest(self) -> None:
        if self._rest is not None:
            self._rest.pause()
        self._show_detail()
        self.refresh_bindings()
        unknown = self._unknown_accounts()
        if unknown:
            self._look_up(unknown)

    # ------------------------------------------------------------------ names of accounts

    def _unknown_accounts(self) -> list[str]:
        top = self.table.top
        rows = [*self.window.rows_between(top, top + self.table.height_in_rows), self.pinned or {}]
        return self._names.unknown(id_ for row in rows for id_ in self.resource.account_ids(row))

    @work(group="names", exclusive=True, exit_on_error=False)
    async def _look_up(self, account_ids: list[str]) -> None:
        for account_id in account_ids:
            try:
                answer = await self._api.read(f"/v1/accounts/{quote(account_id, safe='')}")
            except NotFound:
                self._names.mark_absent(account_id)
            except ClientError:
                return
            else:
                self._names.learn([answer.record])
                self.post_message(NamesCame())

    def names_came(self) -> None:
        """Names and currencies are known that were not."""
        top = self.table.top
        self.table.make_room_for([*self.window.rows_between(top, top + self.table.height_in_rows)])
        self.table.repaint()
        self._show_detail()

    # ------------------------------------------------------------------ detail

    def _show_detail(self) -> None:
        pane = self.query_one(DetailPane)
        record = self.selected
        if record is None:
            waits = not self.window.loaded and not self.problem
            pane.show(None, "" if waits else self.problem or self.resource.empty)
        else:
            pane.show(self.resource.detail(record, self._names))

    @hears(PagedTable.Opened)
    def action_open(self) -> None:
        record = self.selected
        if record is None:
            return
        self.window.hold()
        self._open(True)
        if self.resource.changes and self.resource.has_object_path:
            self._read(str(record.get("id")))

    def open_id(self, record_id: str) -> None:
        """Show one object, whether or not its row is at hand."""
        index = self.window.index_of(record_id)
        if index is not None:
            self.table.go_to(index)
            self.action_open()
            return
        self.window.hold()
        self._read(record_id)

    @work(group="record", exclusive=True, exit_on_error=False)
    async def _read(self, record_id: str) -> None:
        resource = self.resource
        try:
            answer = await self._api.read(f"{resource.path}/{quote(record_id, safe='')}")
        except ClientError as error:
            self.post_message(RecordFailed(record_id, literal(error)))
        else:
            self.post_message(RecordCame(answer.record))

    @hears(RecordCame)
    def take_record(self, message: RecordCame) -> None:
        message.stop()
        record = message.record
        selected = self.selected
        if self.window.replace(record) and selected and selected.get("id") == record.get("id"):
            self.table.repaint()
        else:
            self.pinned = record
            self._open(True)
        self._show_detail()

    @hears(RecordFailed)
    def take_record_failure(self, message: RecordFailed) -> None:
        message.stop()
        self.notify(f"{literal(message.record_id)}: {message.sentence}", severity="warning", markup=False)

    # ------------------------------------------------------------------ keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "back":
            return self.opened or bool(self.filters) or self.pinned is not None
        if action == "act":
            return self._may_act(str(parameters[0]))
        if action == "create":
            return None if self._session.read_only or self.resource.form is None else True
        return True

    def action_back(self) -> None:
        if self.opened or self.pinned:
            self._open(False)
        else:
            self.post_message(BackWanted())

    def _may_act(self, name: str) -> bool | None:
        """Not a key of this screen (False), greyed for this object's state (None), or possible (True)."""
        action = self._action(name)
        if action is None:
            return False
        record = self.selected
        return True if record and not self._session.read_only and action.allowed(record) else None

    def _action(self, name: str) -> Action | None:
        return next((action for action in self.resource.actions if action.name == name), None)

    def action_act(self, name: str) -> None:
        action, record = self._action(name), self.selected
        if action is not None and record is not None:
            self.window.hold()
            self.post_message(ActWanted(self.resource, action, record))

    def show_changed(self, record: Record) -> None:
        """An object is another now; show it so wherever it stands."""
        if self.pinned and self.pinned.get("id") == record.get("id"):
            self.pinned = record
        self.window.replace(record)
        self.table.repaint()
        self._show_detail()
        self.refresh_bindings()

    def action_create(self) -> None:
        self.post_message(CreateWanted())

    def action_filter(self) -> None:
        self.query_one(FilterBar).open(self.filters)

    @hears(FilterBar.Applied)
    def apply_filters(self, message: FilterBar.Applied) -> None:
        self.close_filter()
        self.set_filters(message.params)

    @hears(FilterBar.OpenId)
    def open_typed_id(self, message: FilterBar.OpenId) -> None:
        self.close_filter()
        self.open_id(message.record_id)

    @hears(FilterBar.Closed)
    def close_filter(self) -> None:
        self.query_one(FilterBar).display = False
        self.table.focus()

    def set_filters(self, params: dict[str, str]) -> None:
        """Show the list anew, filtered by the server."""
        self.filters = params
        self._open(False)
        self.action_refresh()

    def action_refresh(self) -> None:
        self.window.reset()
        self.problem = ""
        self.table.repaint()
        self._changed()
        self._fetch()

    def action_follow(self) -> None:
        self.action_back()
        self.window.follow()
        self.table.repaint()
        self._next_poll_at = 0.0
        self.tick()
        self._changed()

    def shown_path(self) -> str:
        """The path, with its query, that reads what is shown: the open object, or the list."""
        if self.selected is not None and self.resource.has_object_path and self.opened:
            return f"{self.resource.path}/{quote(str(self.selected.get('id')), safe='')}"
        query = "&".join(f"{name}={quote(value)}" for name, value in self.filters.items())
        return self.resource.path + (f"?{query}" if query else "")
