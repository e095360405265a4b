"""The screen of one resource: its list, the detail of a row, and a filter line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.widgets import Static

from ledger_tui.client.records import Record
from ledger_tui.formats import times
from ledger_tui.formats.text import literal
from ledger_tui.lists.caption import Caption
from ledger_tui.lists.detail_pane import DetailPane, Panes, RecordFailed, RecordLoaded
from ledger_tui.lists.filter_bar import FilterBar
from ledger_tui.lists.list_model import ListModel
from ledger_tui.lists.newest import ANY_TIME
from ledger_tui.lists.paged_table import PagedTable
from ledger_tui.lists.record_list import PageFailed, RecordList
from ledger_tui.resources.availability import offers, why_not
from ledger_tui.resources.base import Resource, ResourceAction
from ledger_tui.resources.transactions import why_no_transfer
from ledger_tui.resources.words import words_for
from ledger_tui.ui.handlers import handles
from ledger_tui.ui.keys import RESOURCE_KEYS
from ledger_tui.ui.view import ActionRequested, BulkRequested, Context, LinkFollowed, View, recent_of

# If the credential is not allowed to read the list, the next poll comes after this many poll intervals.
_REFUSED_PAUSES = 4
_LOADING = "The list is still loading: the key was dropped."


class ResourceView(View):
    """The screen of one `Resource`: a `RecordList`, a `DetailPane`, a `FilterBar` and a `Caption`.

    These widgets show the same `ListModel`; this view connects them.
    """

    BINDINGS = RESOURCE_KEYS

    def __init__(self, resource: Resource, context: Context) -> None:
        super().__init__(resource, context)
        self.resource = resource
        self.model = ListModel(resource, context)
        self.record_list = RecordList(self.model, self.changed, self.stand_in_rows)
        self.detail = DetailPane(resource, context)
        self.filter_bar = FilterBar(self.record_list)
        self.caption = Caption(
            self.record_list,
            counts=self.news,
            is_covered=lambda: self.opened and not self.wide,
        )
        self.opened = False  # whether the detail is open
        self.panes = Panes(self.record_list, self.detail, context.saved.panes)
        # whether a link led to this view; if so, one press of esc closes the detail and leads back
        self.by_link = False
        self._call_when_loaded: Callable[[], Awaitable[None]] | None = None
        self._awaited_id: str | None = None  # the id that the user typed, until its object arrives

    def compose(self) -> ComposeResult:
        yield self.caption
        yield Static(classes="problem")
        yield self.filter_bar
        yield self.panes

    @property
    def wide(self) -> bool:
        """Whether list and detail are shown side by side."""
        return self.panes.wide

    @property
    def selected(self) -> Record | None:
        return self.model.selected

    def record_being_read(self) -> Record | None:
        return self.record_list.record_being_read()

    def news(self) -> Content:
        """Return the server's counts, if any; the caption shows them to the left of the cursor's position."""
        sentence = self.resource.counts_in_words(self.model.summary, self.context.session.missing_parts)
        return Content.styled(f"{sentence}   " if sentence else "", "$muted")

    def stand_in_rows(self) -> list[Record]:
        """Return the rows to show if the server lacks the list: the objects that were read one by one."""
        return [*self.model.remembered]

    def on_mount(self) -> None:
        self.filter_bar.display = False
        self.query_one(".problem", Static).display = False
        self._show_detail()

    def on_resize(self, event: events.Resize) -> None:
        self.panes.lay_out(event.size.width, is_open=self.opened)
        self._show_problem()

    def open(self, is_open: bool) -> None:
        """Focus the detail if `is_open`, else the list. If only one pane is shown, show the focused pane."""
        self.opened = is_open
        if not is_open:
            self.model.pin(None)
        elif self.selected is not None:
            self.context.recent.saw(recent_of(self.resource.kind, self.selected))
        self.panes.lay_out(self.size.width or self.app.size.width, is_open=is_open)
        self._show_detail()
        self.caption.refresh()  # the position in the caption depends on whether the detail is open
        self.focus_content()
        self.refresh_bindings()

    def focus_content(self) -> None:
        if not self.display:  # a hidden view must not take the focus
            return
        if self.opened:
            self.detail.focus_content()
        else:
            self.table.focus()

    def enter(self) -> None:
        super().enter()
        self.open(self.opened)
        self.record_list.fetch()

    # ------------------------------------------------------------------ reading again

    def tick(self) -> None:
        if self.model.may_read_again():
            self.next_poll_at = 0.0
        self.record_list.draw_ages()
        super().tick()

    def may_poll(self) -> bool:
        # The past does not change, so a loaded list of a past moment is not read again.
        read = self.context.session.moment_ms is not None and self.model.window.loaded
        return self.model.window.in_flight is None and not (read and not self.model.problem)

    def moment_changed(self) -> None:
        self.record_list.read_moment()
        self.detail.outdate()
        if self.model.pinned is not None and self.detail.can_read_objects:
            self.detail.read(str(self.model.pinned.get("id")))

    def poll(self) -> float:
        self.record_list.poll()
        return self.context.session.poll_seconds

    def poll_rows_soon(self) -> None:
        """Poll as soon as the rate limit allows it, and read the shown rows, because they may be outdated."""
        self.model.poll_rows_next()
        self.poll_soon()

    @handles(PageFailed)
    def wait_after_failure(self, message: PageFailed) -> None:
        message.stop()
        pauses = _REFUSED_PAUSES if message.forbidden else 1
        self.next_poll_at = self.context.session.clock() + self.context.session.poll_seconds * pauses

    def action_refresh(self) -> None:
        """Read the list again. The present rows stay until new rows arrive, even if the request fails."""
        self.app.refresh()  # redraws the whole screen, in case another program wrote on it
        self.record_list.reload()

    # ------------------------------------------------------------------ drawing

    def changed(self) -> None:
        if not self.opened and self.model.is_pinned_listed:
            self.model.pin(None)
        if self._call_when_loaded is not None and not self.model.is_loading:
            self.call_later(self._call_when_loaded)
            self._call_when_loaded = None
        self._show_problem()
        super().changed()

    def when_loaded(self, call: Callable[[], Awaitable[None]]) -> None:
        """Call `call` once, as soon as the list is loaded.

        If the user opens the filter line before the list is loaded, or if the filters change before then,
        `call` is never called.
        """
        self._call_when_loaded = call

    def failed(self, problem: str) -> None:
        self.model.note_problem(problem)
        self.changed()

    def _show_problem(self) -> None:
        """Show the model's problem on a line of its own if the caption has too little space for the problem.

        If the server lacks the list, a note above the rows shows the problem instead.
        """
        sentence, line = self.model.problem, self.query_one(".problem", Static)
        self.record_list.show_missing()
        line.display = bool(sentence) and not (self.model.is_missing or self.caption.fits(sentence))
        if line.display:
            line.update(Content(f"✕ {sentence}"))
        self.caption.refresh()

    def _show_detail(self) -> None:
        problem = self.model.problem
        waits = not self.model.window.loaded and not problem
        self.detail.show(self.selected, "" if waits else problem or self.caption.why_empty)

    def _read_more(self) -> None:
        if self.opened or self.wide:
            self.detail.read_more(is_open=self.opened)

    def shown_texts(self) -> Iterator[tuple[str, str]]:
        return self.detail.shown_texts(self.selected) if self.selected is not None else iter(())

    def at_rest(self) -> None:
        self._show_detail()
        self._read_more()
        self.refresh_bindings()
        self.record_list.learn_names()

    def names_loaded(self) -> None:
        self.record_list.names_loaded()
        self._show_detail()

    def session_changed(self) -> None:
        self.caption.session_changed()
        if self.context.session.forbids_changes:
            self.refresh_bindings()

    @handles(PagedTable.Moved)
    def cursor_moved(self, message: PagedTable.Moved) -> None:
        message.stop()
        self.record_list.fetch()
        if message.by_hand:
            self.model.pin(None)
            self.record_list.reach_end()
            if self.wide:
                self.detail.follow(self._show_detail)
        self.changed()

    @handles(PagedTable.OldestWanted)
    def go_to_oldest(self) -> None:
        self.record_list.go_to_oldest()

    @handles(PagedTable.Opened)
    def action_open(self) -> None:
        record = self.record_being_read()
        if record is None:
            return
        self.model.hold()
        self.by_link = False
        self.open(True)
        if self.resource.changes and self.detail.can_read_objects:
            self.detail.read(str(record.get("id")))
        self.detail.read_more(is_open=True, again=True)

    def open_record(self, record: Record, *, by_link: bool = False) -> None:
        """Open an object that the server returned, even if its row is not loaded."""
        index = self.model.window.index_of(record.get("id"))
        if index is not None:
            self.model.pin(None)
            self.table.go_to(index)
        else:
            self.record_list.remember(record)
            self.model.pin(record)
        self.action_open()
        self.by_link = by_link

    def _open_id(self, record_id: str) -> None:
        index = self.model.window.index_of(record_id)
        if index is not None:
            self.table.go_to(index)
            self.action_open()
        else:
            self._awaited_id = record_id
            self.detail.read(record_id, required=True)

    @handles(RecordLoaded)
    def take_record(self, message: RecordLoaded) -> None:
        message.stop()
        record = self.model.newest(message.record, message.sent_at)
        if record.get("id") in (self._awaited_id, (self.selected or {}).get("id")):
            self.show_record(record)
        else:  # the user has selected another object while this one was read
            self.model.replace(record)

    def action_locate(self) -> None:
        """Show the part of the list around the open object."""
        record = self.model.pinned
        if record is not None:
            self.open(False)
            self.record_list.open_at(record)

    def show_record(self, record: Record) -> None:
        """Show an object in the detail and, if the object's row is loaded, in this row."""
        self.record_list.remember(record)
        selection = self.selected
        is_awaited, self._awaited_id = self._awaited_id == record.get("id"), None
        if is_awaited:
            self.model.hold()
            self.filter_bar.display = False  # the user may have typed the id into the filter line
        if self.model.replace(record) and selection and selection.get("id") == record.get("id"):
            self.table.repaint()
        else:
            is_awaited = is_awaited or not self.opened or selection is not self.model.pinned
            self.model.pin(record)
        if is_awaited:
            self.open(True)
        self._show_detail()
        self._read_more()

    @handles(RecordFailed)
    def take_record_failure(self, message: RecordFailed) -> None:
        message.stop()
        bar, record_id = self.filter_bar, literal(message.record_id)
        if bar.display and self._awaited_id == message.record_id:
            bar.show(message.sentence, problem=True)
            return
        sentence = message.sentence if record_id in message.sentence else f"{record_id}: {message.sentence}"
        self.notify(sentence, severity="warning", markup=False)

    # ------------------------------------------------------------------ keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        marks = [] if self.opened else self.model.marked
        name = str(parameters[0]) if parameters else ""
        may_change = not self.context.session.forbids_changes
        match action:
            case "back":
                leads = self.opened or self.model.pinned or self.model.filters or self.resource.under
                return bool(leads) or self.record_list.has_state_to_clear()
            case "locate":
                return self.model.pinned is not None and self.resource.paging == "starting_after"
            case "act" if marks and (act := self.resource.action(name)) is not None:
                return True if may_change and any(map(act.allowed, marks)) else None
            case "look":
                return self.model.can_search or None
            case "filter":
                return not self.filter_bar.display
            case "open":
                return True if self.selected is not None and not self.opened else None
            case "switch":
                return self.selected is not None
            case "program":
                return True if self.selected is not None else None
            case "follow" if not self.resource.still:
                is_at_newest = self.model.window.following and not (self.opened or self.model.pinned)
                return None if is_at_newest else True
            case "widen":
                return True if self.panes.wide else None
            case "transfer" if (form := self.resource.transfer) is not None and may_change:
                account_id = form.prefill(self.selected, self.model.filters).get("account")
                return None if self.context.names.lacks_partner(account_id) else True
            case _:
                names = self.context.names
                return offers(self.resource, action, name, self.selected, names, not may_change)

    def key_text(self, binding: Binding) -> str:
        """Return the present description of a key in the key bar."""
        if binding.action == "back" and self.opened:
            return "back" if self.by_link else "list"
        if binding.action == "create" and self.opened and self.resource.form_inside is not None:
            return f"post to this {self.resource.singular}"
        if binding.action != "back" or not self.record_list.has_state_to_clear():
            return binding.description
        return "stop" if self.model.searching else "unmark" if self.model.marks else "all rows"

    def action_back(self) -> None:
        if not (self.opened or self.model.pinned):
            if self.record_list.has_state_to_clear():
                self.record_list.clear_one_state()
                self.refresh_bindings()
            else:
                super().action_back()
            return
        by_link, self.by_link = self.by_link, False
        self.open(False)
        if by_link:
            super().action_back()

    def action_follow(self) -> None:
        if self.opened or self.model.pinned:
            self.open(False)
        self.model.follow()
        self.table.repaint()
        self.poll_soon()
        self.changed()

    def action_act(self, name: str) -> None:
        if (action := self.resource.action(name)) is not None:
            self.request(action)

    def show_changed(self, record: Record, sent_at: float = ANY_TIME) -> bool:
        """Show the new state of an object in its row and its detail.

        `sent_at` is the time of the request whose answer contains `record`. If the object's state has changed
        since then, show nothing and return False, because it is unknown which state is newer.
        """
        if self.model.newest(record, sent_at) != record:
            return False
        self.model.show_changed(record)
        self.record_list.remember(record)
        self.table.repaint()
        self._show_detail()
        self.refresh_bindings()
        return True

    def show_created(self, record: Record | None) -> None:
        """Go to a created object as soon as the list contains the object.

        `record` is None if the dashboard does not know the object's id. In this case go to the newest row.
        """
        if self.resource.still:
            self.action_refresh()
        elif record is not None and not str(record.get("id")).startswith(self.resource.id_prefix):
            self.poll_soon()  # the object is in another list: a transfer creates a transaction
        else:
            self.action_follow()
            if record is not None and not self.model.hides(record):
                self.model.pin(record)  # until the row arrives, the next key must act on this object
            self.record_list.expect(record)
            self.changed()

    # ------------------------------------------------------------------ the filter line

    def action_filter(self) -> None:
        self._call_when_loaded = None
        self.filter_bar.open()

    @handles(FilterBar.Closed)
    def close_filter(self) -> None:
        self.filter_bar.display = False
        self.focus_content()

    @handles(FilterBar.Applied)
    def apply_filters(self, message: FilterBar.Applied) -> None:
        self.close_filter()
        self.open(False)
        self._call_when_loaded = None
        self.record_list.apply_filters(message.params, message.text)

    def set_filters(self, params: dict[str, str]) -> None:
        """Show the list with these filters."""
        self.open(False)
        self._call_when_loaded = None
        self.record_list.set_filters(params)

    def forget(self) -> None:
        super().forget()
        self.by_link = False
        self.set_filters({})

    @handles(FilterBar.OpenId)
    def open_typed_id(self, message: FilterBar.OpenId) -> None:
        message.stop()
        if self.model.window.index_of(message.record_id) is not None:
            self.close_filter()
        self._open_id(message.record_id)  # the line stays open, so that the user can correct a typo

    def shown_path(self) -> str:
        """Return the path and query of the open object, or of the list if no object is open."""
        if self.selected is not None and self.opened and self.detail.can_read_objects:
            return self.resource.object_path(self.selected.get("id"))
        return self.model.shown_path()

    @property
    def table(self) -> PagedTable:
        return self.record_list.table

    # ------------------------------------------------------------------ sorting, columns, times

    def action_arrange(self) -> None:
        """Sort the list and choose its columns, with a preview of each change."""
        self.record_list.choose_columns()

    def action_times(self) -> None:
        """Switch all screens to the next style of times."""
        problem = self.context.saved.next_times()
        for view in self.screen.query(ResourceView):
            view.times_changed()
        if problem:
            self.notify(problem, severity="warning", markup=False)
        else:
            self.notify(f"Times are written as {times.chosen.style.in_words}.")

    def times_changed(self) -> None:
        """Redraw all times in the style that the user has chosen."""
        self.record_list.times_changed()
        self.at_rest()

    # ------------------------------------------------------------------ panes

    def action_panes(self) -> None:
        """Show the next view (list, both panes, detail, list again), and a note that names this view."""
        self.open(self.panes.cycle(is_open=self.opened))
        self._read_more()
        self.notify(self.panes.in_words(is_open=self.opened))

    def action_switch(self) -> None:
        """Open the detail or, if it is open, go back to the list."""
        if self.opened:
            self.open(False)
        else:
            self.action_open()

    def on_descendant_focus(self) -> None:
        """Open or close the detail after a click on the other pane, so that the keys fit the focused pane."""
        focused = self.screen.focused
        if self.opened and focused is self.table:
            self.open(False)
        elif not self.opened and focused is not None and self.detail in focused.ancestors_with_self:
            self.action_open()
            self.focus_content()  # without a row, the detail cannot be opened

    def action_widen(self, step: int) -> None:
        self.panes.resize(step, self.size.width)
        self.panes.lay_out(self.size.width, is_open=self.opened)

    # ------------------------------------------------------------------ marks

    @handles(PagedTable.Marked)
    def marks_changed(self, message: PagedTable.Marked) -> None:
        message.stop()
        self.record_list.show_rows()
        self.refresh_bindings()

    def request(self, action: ResourceAction) -> None:
        """Request an action on the marked objects or, if no object is marked, on the selected object."""
        records = [record for record in self.model.marked if action.allowed(record)]
        selection = self.selected
        if len(records) > 1 and not self.opened and action.shows_once:
            # Each answer contains a secret that is shown only once, so the user must see each answer.
            self.notify(
                f"{action.label.capitalize()} only one at a time: each new {action.shows_once} is shown once."
            )
        elif records and not self.opened:
            self.model.hold()
            self.post_message(BulkRequested(action, records))
        elif selection is not None:
            is_sure = not self.model.has_arrived_just_now
            self.model.hold()
            if is_sure:
                self.post_message(ActionRequested(self.resource, action, selection))
            else:
                self.changed()
                words = words_for(self.resource, selection, self.context.names)
                self.hint(f"A newer row came under the cursor. Press again to {action.label} {words}.")

    def why_not(self, binding: Binding) -> str:
        """Return the sentence that says why a greyed key does nothing now; "" if there is none."""
        action, _, argument = binding.action.rstrip(")").partition("(")
        match action:
            case "act" | "edit" | "open" | "program" | "mark" | "mark_all" | "look" if self.model.is_loading:
                return _LOADING
            case "mark" | "mark_all":
                return f"There is no {self.resource.singular} here to mark."
            case "act" | "edit":
                has_marks = bool(self.model.marks) and not self.opened
                name, record = argument.strip("'"), self.selected
                return why_not(self.resource, name, record, has_marks=has_marks, key_of=self.context.key_of)
            case "transfer" if (form := self.resource.transfer) is not None:
                account_id = form.prefill(self.selected, self.model.filters).get("account")
                source, names = self.context.names.get(account_id), self.context.names
                return why_no_transfer(source) if source and names.lacks_partner(account_id) else ""
            case "program":
                return f"There is no {self.resource.singular} here to show."
            case "look":
                return self.model.why_no_search
            case "widen":
                return "The list and the detail are not side by side, so no width can change."
            case _:
                return ""

    def action_go(self, name: str) -> None:
        to = self.resource.related_view(name)
        link = to.link(self.selected, self.model.filters) if to is not None else None
        if to is not None and link is not None and (link.record_id or link.filters):
            # The link starts from the selected object.
            link = to.link(self.record_being_read(), self.model.filters)
            self.model.hold()
        if link is not None:
            self.post_message(LinkFollowed(link))

    # ------------------------------------------------------------------ searching older rows

    def action_look(self) -> None:
        """Load older pages until the list shows one more row."""
        self.record_list.search()
