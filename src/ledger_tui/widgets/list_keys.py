"""The keys of a list beyond opening and filtering: sorting, marking, looking further, panes, times."""

from __future__ import annotations

from abc import abstractmethod

from textual.binding import Binding

from ledger_tui.handlers import handles
from ledger_tui.list_messages import (
    BatchRequested,
    BulkRequested,
    ColumnsRequested,
    ProgramRequested,
    TimesChanged,
)
from ledger_tui.messages import ActionRequested, CreateRequested, EditRequested, LinkFollowed
from ledger_tui.resources.base import Action, Resource
from ledger_tui.resources.offers import why_not
from ledger_tui.state import times
from ledger_tui.state.window import Record
from ledger_tui.widgets.paged_table import PagedTable
from ledger_tui.widgets.panes import Panes
from ledger_tui.widgets.record_list import RecordList
from ledger_tui.widgets.view import View

_AGES_SECONDS = 10.0  # how often relative times are drawn again


class ListKeys(View):
    """What `ResourceView` does on these keys; that one makes the parts."""

    resource: Resource
    record_list: RecordList
    panes: Panes
    opened: bool
    _ages_drawn_at = 0.0

    @property
    def table(self) -> PagedTable:
        return self.record_list.table

    @abstractmethod
    def open_pane(self, opened: bool) -> None:
        """Show and focus the detail, or the list."""

    # ------------------------------------------------------------------ sorting, columns, times

    def action_arrange(self) -> None:
        self.post_message(ColumnsRequested())

    def action_times(self) -> None:
        self.post_message(TimesChanged())

    def times_changed(self) -> None:
        """Draw all times again."""
        self.record_list.times_changed()
        self.at_rest()

    def draw_ages(self) -> None:
        """Draw relative times again when they have grown old."""
        now = self.context.session.clock()
        if times.chosen.style is times.TimeStyle.RELATIVE and now - self._ages_drawn_at >= _AGES_SECONDS:
            self._ages_drawn_at = now
            self.record_list.times_changed()

    # ------------------------------------------------------------------ panes

    def action_panes(self) -> None:
        """Go on from the list to list and detail to the detail."""
        self.open_pane(self.panes.cycle(opened=self.opened))

    def action_widen(self, step: int) -> None:
        self.panes.resize(step, self.size.width)
        self.panes.lay_out(self.size.width, opened=self.opened)

    # ------------------------------------------------------------------ marks

    @property
    def marked(self) -> list[Record]:
        """The marked records, in the order they were marked, as they are loaded now."""
        if not self.is_mounted or not self.table.marked:
            return []
        now = {str(record.get("id")): record for _index, record in self.record_list.window.at_hand()}
        return [now.get(record_id, record) for record_id, record in self.table.marked.items()]

    @handles(PagedTable.Marked)
    def marks_changed(self, message: PagedTable.Marked) -> None:
        message.stop()
        self.record_list.show_rows()
        self.refresh_bindings()

    def request(self, action: Action) -> None:
        """Ask for an action on the marked objects, else on the selected one."""
        allowed = [record for record in self.marked if action.allowed(record)]
        selected = self.selected
        if len(allowed) > 1 and not self.opened and action.shows_once:
            # The answers' secrets are shown nowhere else, so none of them may pass unseen.
            self.notify(
                f"{action.label.capitalize()} one at a time: each shows its {action.shows_once} once."
            )
        elif allowed and not self.opened:
            self.record_list.window.hold()
            self.post_message(BulkRequested(self.resource, action, allowed))
        elif selected is not None:
            self.record_list.window.hold()
            self.post_message(ActionRequested(self.resource, action, selected))

    def may_act_on_marked(self, action_name: str) -> bool | None:
        """Return whether an action is possible on the marked objects; None where none is marked."""
        action, marked = self.resource.action(action_name), self.marked
        if action is None or not marked or self.opened:
            return None
        return any(map(action.allowed, marked)) and not self.context.session.forbids_changes

    def why_not(self, binding: Binding) -> str:
        """Return why a greyed key does nothing to the selected or the marked objects."""
        action, _, argument = binding.action.partition("(")
        if action not in ("act", "edit"):
            return ""
        marked = bool(self.marked) and not self.opened
        return why_not(self.resource, argument.strip("')"), self.selected, marked=marked)

    def action_go(self, name: str) -> None:
        to = self.resource.related_view(name)
        link = to.link(self.selected, self.record_list.filters) if to is not None else None
        if link is not None:
            if link.record_id or link.filters:  # it leads from the selected object
                self.record_list.window.hold()
            self.post_message(LinkFollowed(link))

    def action_create(self) -> None:
        self.post_message(CreateRequested())

    def action_edit(self) -> None:
        record = self.selected
        if record is not None:
            self.record_list.window.hold()
            self.post_message(EditRequested(record))

    # ------------------------------------------------------------------ looking further

    def action_look(self) -> None:
        """Load older pages until one more row is found."""
        self.record_list.look()

    def leaves_something(self) -> bool:
        """Return whether esc has something to end before it goes back."""
        list_ = self.record_list
        return self.is_mounted and bool(list_.looking or self.table.marked or list_.text)

    def leave_one(self) -> None:
        """End the search, or remove the marks, or show all rows again."""
        list_ = self.record_list
        if list_.looking:
            list_.stop_looking()
        elif self.table.marked:
            self.table.unmark()
        else:
            list_.narrow("")
        self.refresh_bindings()

    # ------------------------------------------------------------------ other programs and files

    def action_program(self, variable: str) -> None:
        if self.selected is not None:
            self.post_message(ProgramRequested(variable, self.selected))

    def action_batch(self) -> None:
        self.post_message(BatchRequested())

    def offers_key(self, action: str) -> bool | None:
        """Return whether one of these keys is active; None to grey it."""
        list_ = self.record_list
        match action:
            case "batch":
                if not self.resource.batch:
                    return False
                return None if self.context.session.forbids_changes else True
            case "look":
                return list_.window.arranged and list_.window.has_older
            case "program":
                return True if self.selected is not None else None
            case "widen":
                return True if self.panes.wide else None
            case _:
                return True
