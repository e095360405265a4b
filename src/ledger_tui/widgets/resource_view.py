"""A list of one kind of object with everything that belongs to it: the detail of a row, actions, ways on."""

from __future__ import annotations

from textual import events, work
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from ledger_tui.actions import RESOURCE_KEYS
from ledger_tui.client.errors import ClientError
from ledger_tui.handlers import hears
from ledger_tui.messages import (
    ActWanted,
    CreateWanted,
    EditWanted,
    LinkFollowed,
    RecordCame,
    RecordFailed,
)
from ledger_tui.resources.base import Action, Resource, Way
from ledger_tui.state.history import recent_of
from ledger_tui.state.text import literal
from ledger_tui.state.window import Record
from ledger_tui.widgets.blank import Row, Stack
from ledger_tui.widgets.caption import Caption
from ledger_tui.widgets.detail_pane import DetailPane
from ledger_tui.widgets.detail_view import DetailView
from ledger_tui.widgets.filter_bar import FilterBar
from ledger_tui.widgets.paged_table import PagedTable, TableHeader
from ledger_tui.widgets.view import Desk

WIDE_COLUMNS = 120
_CHANGES = ("create", "edit", "act(")


class ResourceView(DetailView):
    """The screen of one `Resource`."""

    BINDINGS = RESOURCE_KEYS

    def __init__(self, resource: Resource, desk: Desk) -> None:
        super().__init__(resource, desk)
        self._awaited: str | None = None  # the object a typed id asked for, until it came
        self.by_link = False  # whether what is open was come to by a link, and one key leads back

    def compose(self) -> ComposeResult:
        yield Caption(self)
        yield Static(classes="problem")
        yield FilterBar(self.resource.filters, self.resource.id_prefix, self.desk.names)
        with Row():
            with Stack(id="list"):
                yield Static(classes="lacks")
                yield TableHeader()
                yield PagedTable(self.window, self.resource.columns, self.desk.names)
            yield DetailPane()

    def on_mount(self) -> None:
        self.query_one(FilterBar).display = False
        self.query_one(".lacks", Static).display = False
        self.query_one(".problem", Static).display = False
        self._show_detail()

    def on_resize(self, event: events.Resize) -> None:
        self.wide = event.size.width >= WIDE_COLUMNS
        self.set_class(self.wide, "-wide")
        self._arrange()
        self._say_problem()

    def _arrange(self) -> None:
        # Set here and not by a style rule: rules come true later, and a key must find its widget now.
        self.query_one("#list").display = self.wide or not self.opened
        self.query_one(DetailPane).display = self.wide or self.opened

    def _open(self, opened: bool) -> None:
        """Give the keys to the detail or to the list; where it is narrow only one of them is in sight."""
        self.opened = opened
        if not opened:
            self.pinned = None
        elif self.selected is not None:
            self.desk.recent.saw(recent_of(self.resource.kind, self.selected))
        self._arrange()
        self._show_detail()
        self.query_one(Caption).refresh()  # it tells which rows are in sight
        self.focus_content()
        self.refresh_bindings()

    def close(self) -> None:
        """Show the list."""
        self._open(False)

    def focus_content(self) -> None:
        if not self.display:  # the keys are those of the screen that is shown
            return
        if self.opened:
            self.query_one(DetailPane).focus_content()
        else:
            self.table.focus()

    def enter(self) -> None:
        super().enter()
        self._open(self.opened)
        self.fetch()

    # ------------------------------------------------------------------ drawing

    def changed(self) -> None:
        self._say_problem()
        super().changed()

    def _say_problem(self) -> None:
        """On a line of its own what is too long for the caption; what the server lacks is no alarm."""
        caption = self.query_one(Caption)
        lacks, problem = self.query_one(".lacks", Static), self.query_one(".problem", Static)
        lacks.display = self.lacks_list and bool(self.problem)
        problem.display = bool(self.problem) and not (lacks.display or caption.has_room_for(self.problem))
        if lacks.display:
            lacks.update(Content(self.problem))
        if problem.display:
            problem.update(Content(f"✕ {self.problem}"))
        caption.refresh()

    def at_rest(self) -> None:
        self._show_detail()
        self._read_more()
        self.refresh_bindings()
        super().at_rest()

    def names_came(self) -> None:
        super().names_came()
        self._show_detail()

    def on_key(self, event: events.Key) -> None:
        """A key of a change that this credential may not make is greyed, and says why when it is pressed."""
        why = self.desk.session.forbids_changes
        pressed = self.screen.active_bindings.get(event.key) if why else None
        if pressed and not pressed.enabled and pressed.binding.action.startswith(_CHANGES):
            self.notify(why, markup=False)

    def session_changed(self) -> None:
        self.query_one(Caption).session_changed()
        if self.desk.session.forbids_changes:
            self.refresh_bindings()

    def news(self) -> Content:
        """What the caption tells of beside the list; nothing here."""
        return Content("")

    @hears(PagedTable.Moved)
    def eye_moved(self, message: PagedTable.Moved) -> None:
        message.stop()
        if message.by_hand:
            self.pinned = None
        self.fetch()
        self.changed()

    @hears(PagedTable.Opened)
    def action_open(self) -> None:
        record = self.selected
        if record is None:
            return
        self.window.hold()
        self.by_link = False
        self._open(True)
        if self.resource.changes and self.resource.has_object_path:
            self._read(str(record.get("id")))
        self._read_more()

    def open_record(self, record: Record, *, by_link: bool = False) -> None:
        """Show an object that was read, whether or not its row is at hand."""
        index = self.window.index_of(record.get("id"))
        if index is not None:
            self.pinned = None
            self.table.go_to(index)
        else:
            self.remember(record)
            self.pinned = record
        self.action_open()
        self.by_link = by_link

    def _open_id(self, record_id: str) -> None:
        index = self.window.index_of(record_id)
        if index is not None:
            self.table.go_to(index)
            self.action_open()
        else:
            self._awaited = record_id
            self._read(record_id)

    @work(group="record", exclusive=True, exit_on_error=False)
    async def _read(self, record_id: str) -> None:
        resource = self.resource
        try:
            answer = await self.desk.api.read(resource.object_path(record_id))
        except ClientError as error:
            self.post_message(RecordFailed(record_id, literal(error)))
        else:
            self.post_message(RecordCame(answer.record))

    @hears(RecordCame)
    def take_record(self, message: RecordCame) -> None:
        message.stop()
        record_id = message.record.get("id")
        if record_id in (self._awaited, (self.selected or {}).get("id")):
            self.show_record(message.record)
        else:  # it was gone on from before it came
            self.window.replace(message.record)

    def action_locate(self) -> None:
        """Open the list around the object, wherever in it that stands."""
        record = self.pinned
        if record is not None:
            self.window.open_at(record)
            self.problem = ""
            self._open(False)
            self.table.start_over()
            self.changed()
            # The table has to have its place again before it can hold a row there.
            self.call_after_refresh(self.fetch)

    def show_record(self, record: Record) -> None:
        """Show an object in the detail; its row is another too, if it is at hand."""
        self.remember(record)
        selected = self.selected
        awaited, self._awaited = self._awaited == record.get("id"), None
        if awaited:
            self.window.hold()
            self.query_one(FilterBar).display = False  # where its id may have been typed
        if self.window.replace(record) and selected and selected.get("id") == record.get("id"):
            self.table.repaint()
        else:
            awaited = awaited or not self.opened or selected is not self.pinned
            self.pinned = record
        if awaited:
            self._open(True)
        self._show_detail()
        self._read_more()

    @hears(RecordFailed)
    def take_record_failure(self, message: RecordFailed) -> None:
        message.stop()
        bar, record_id = self.query_one(FilterBar), literal(message.record_id)
        if bar.display and self._awaited == message.record_id:
            bar.tell(message.sentence, problem=True)
            return
        named = message.sentence if record_id in message.sentence else f"{record_id}: {message.sentence}"
        self.notify(named, severity="warning", markup=False)

    # ------------------------------------------------------------------ keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        read_only = bool(self.desk.session.forbids_changes)
        if action == "back":
            return self.opened or bool(self.filters) or self.pinned is not None or bool(self.resource.under)
        if action == "act":
            return self._may_act(str(parameters[0]))
        if action == "go":
            return self._way(str(parameters[0])) is not None
        if action == "create":
            return False if self.resource.form is None else None if read_only else True
        if action == "edit":
            if not self.resource.edits:
                return False
            record = self.selected
            return True if record and not read_only and self.resource.edit(record, self.desk.names) else None
        if action == "follow":
            return not self.resource.still
        if action == "locate":
            return self.pinned is not None and self.resource.paging == "starting_after"
        return True

    def action_back(self) -> None:
        if not (self.opened or self.pinned):
            super().action_back()
            return
        by_link, self.by_link = self.by_link, False
        self._open(False)
        if by_link:
            super().action_back()

    def action_follow(self) -> None:
        if self.opened or self.pinned:
            self._open(False)
        super().action_follow()

    def _may_act(self, name: str) -> bool | None:
        """Not a key of this screen (False), greyed for this object's state (None), or possible (True)."""
        action = self._action(name)
        if action is None:
            return False
        record = self.selected
        return True if record and not self.desk.session.forbids_changes and action.allowed(record) else None

    def _action(self, name: str) -> Action | None:
        return next((action for action in self.resource.actions if action.name == name), None)

    def action_act(self, name: str) -> None:
        action, record = self._action(name), self.selected
        if action is not None and record is not None:
            self.window.hold()
            self.post_message(ActWanted(self.resource, action, record))

    def _way(self, name: str) -> Way | None:
        return next((way for way in self.resource.ways if way.name == name), None)

    def action_go(self, name: str) -> None:
        way = self._way(name)
        link = way.link(self.selected, self.filters) if way is not None else None
        if link is not None:
            if link.record_id or link.filters:  # it is about the object under the cursor
                self.window.hold()
            self.post_message(LinkFollowed(link))

    def show_changed(self, record: Record) -> None:
        """An object is another now; show it so wherever it stands."""
        if self.pinned and self.pinned.get("id") == record.get("id"):
            self.pinned = record
        self.window.replace(record)
        self.remember(record)
        self.table.repaint()
        self._show_detail()
        self.refresh_bindings()

    def action_create(self) -> None:
        self.post_message(CreateWanted())

    def action_edit(self) -> None:
        record = self.selected
        if record is not None:
            self.window.hold()
            self.post_message(EditWanted(record))

    @hears(FilterBar.OpenId)
    def open_typed_id(self, message: FilterBar.OpenId) -> None:
        message.stop()
        if self.window.index_of(message.record_id) is not None:
            self.close_filter()
        self._open_id(message.record_id)  # the line stays until it came, so that a slip can be mended

    def set_filters(self, params: dict[str, str]) -> None:
        self._open(False)
        super().set_filters(params)

    def shown_path(self) -> str:
        """The path, with its query, that reads what is shown: the open object, or the list."""
        if self.selected is not None and self.resource.has_object_path and self.opened:
            return self.resource.object_path(self.selected.get("id"))
        return super().shown_path()
