"""What the main screen does for lists: sorting, several objects at once, files, other programs."""

from __future__ import annotations

from textual.screen import Screen

from ledger_tui.handlers import handles
from ledger_tui.list_messages import (
    BatchRequested,
    BulkRequested,
    ColumnsRequested,
    ProgramRequested,
    TimesChanged,
)
from ledger_tui.state.list_settings import ListSettings
from ledger_tui.state.window import Record
from ledger_tui.widgets.navigation import Navigation
from ledger_tui.widgets.resource_view import ResourceView
from ledger_tui.widgets.view import Context


class ListDialogs(Screen[None]):
    """The part of the main screen that opens the dialogs of lists. They are imported when first opened."""

    _view_context: Context
    navigation: Navigation

    @property
    def resource_view(self) -> ResourceView:
        """The view on screen, which must be a resource's: only those open forms and dialogs of lists."""
        view = self.navigation.view
        assert isinstance(view, ResourceView)
        return view

    def _warn(self, sentence: str) -> None:
        if sentence:
            self.notify(sentence, severity="warning", markup=False)

    # ------------------------------------------------------------------ how lists are shown

    @handles(ColumnsRequested)
    def open_columns(self) -> None:
        from ledger_tui.screens.columns import ColumnsScreen

        view, kept = self.resource_view, self._view_context.kept
        kind = view.resource.kind
        before = kept.of(kind)

        def preview(settings: ListSettings) -> None:
            kept.use(kind, settings)
            view.record_list.settings_changed()

        def closed(settings: ListSettings | None) -> None:
            if settings is not None and settings != before:
                self._warn(kept.save(kind))

        self.app.push_screen(ColumnsScreen(view.resource, before, preview), closed)

    @handles(TimesChanged)
    def change_times(self) -> None:
        from ledger_tui.state import times

        problem = self._view_context.kept.next_times()
        for view in self.query(ResourceView):
            view.times_changed()
        if problem:
            self._warn(problem)
        else:
            self.notify(f"Times are written as {times.chosen.style.in_words}.")

    # ------------------------------------------------------------------ several objects

    @handles(BulkRequested)
    def ask_before_acting_on_all(self, message: BulkRequested) -> None:
        from ledger_tui.resources.bulk_questions import bulk_question
        from ledger_tui.screens.bulk import BulkScreen

        view, action, context = self.resource_view, message.action, self._view_context
        left_out = len(view.marked) - len(message.records)
        text = bulk_question(message.resource, action, message.records, left_out, context.names)
        if action.name == "revoke" and any(map(context.tokens.is_own, message.records)):
            text += "\n\nAmong them is the key of this dashboard, which will lose access."

        def done(changed: list[Record] | None) -> None:
            for record in changed or ():
                view.show_changed(record)
            if changed is not None and screen.began:
                view.table.unmark()
                view.poll_soon()

        screen = BulkScreen(message.resource, action, message.records, text, context.api, context.session)
        self.app.push_screen(screen, done)

    # ------------------------------------------------------------------ files and other programs

    @handles(BatchRequested)
    def open_batch(self) -> None:
        from ledger_tui.screens.batch import BatchScreen

        view, context = self.resource_view, self._view_context

        def closed(posted: int | None) -> None:
            if posted:
                view.show_created(None)

        path = view.resource.batch
        self.app.push_screen(BatchScreen(path, context.api, context.session, context.names), closed)

    @handles(ProgramRequested)
    def open_program(self, message: ProgramRequested) -> None:
        from ledger_tui.screens.programs import show_in_program

        self._warn(show_in_program(self.app, message.variable, message.record))
