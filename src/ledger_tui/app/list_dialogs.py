"""What the main screen does for lists: sorting, several objects at once, files, other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from textual.screen import Screen

from ledger_tui.app.navigation import Navigation
from ledger_tui.client.records import Record
from ledger_tui.formats.text import literal
from ledger_tui.lists.resource_view import BulkRequested, ProgramRequested, ResourceView
from ledger_tui.resources.filtering import filter_line
from ledger_tui.settings.config import ListSettings
from ledger_tui.ui.view import Context


class ListDialogs:
    """Opens the dialogs of lists over the main screen. They are imported when first opened."""

    def __init__(self, screen: Screen[Any], navigation: Navigation, context: Context) -> None:
        self._screen = screen
        self._navigation = navigation
        self._context = context

    def _warn(self, sentence: str) -> None:
        if sentence:
            self._screen.notify(sentence, severity="warning", markup=False)

    # ------------------------------------------------------------------ how lists are shown

    def choose_columns(self) -> None:
        """Sort the list and choose its columns, with a preview of each change."""
        from ledger_tui.lists.arranging import ColumnsScreen

        view, kept = self._navigation.resource_view, self._context.kept
        kind = view.resource.kind
        before = kept.of(kind)

        def preview(settings: ListSettings) -> None:
            kept.use(kind, settings)
            view.record_list.settings_changed()

        def closed(settings: ListSettings | None) -> None:
            if settings is not None and settings != before:
                self._warn(kept.save(kind))

        self._screen.app.push_screen(ColumnsScreen(view.resource, before, preview), closed)

    def change_times(self) -> None:
        """Write times in the next style."""
        from ledger_tui.formats import times

        problem = self._context.kept.next_times()
        for view in self._screen.query(ResourceView):
            view.times_changed()
        if problem:
            self._warn(problem)
        else:
            self._screen.notify(f"Times are written as {times.chosen.style.in_words}.")

    # ------------------------------------------------------------------ several objects

    def act_on_all(self, message: BulkRequested) -> None:
        """Ask once, then act on several objects one after the other."""
        from ledger_tui.features.bulk import BulkScreen, bulk_question

        view, action, context = self._navigation.resource_view, message.action, self._context
        left_out = len(view.marked) - len(message.records)
        text = bulk_question(message.resource, action, message.records, left_out, context.names)
        records = message.records
        if action.name == "revoke" and any(map(context.tokens.is_own, records)):
            text += "\n\nAmong them is the key of this dashboard, which will lose access."
            records = sorted(records, key=context.tokens.is_own)  # last: the others would be refused after it

        def done(changed: list[Record] | None) -> None:
            for record in changed or ():
                view.show_changed(record)
            if changed is not None and screen.began:
                view.table.unmark()
                view.poll_soon()

        screen = BulkScreen(message.resource, action, records, text, context.api, context.session)
        self._screen.app.push_screen(screen, done)

    # ------------------------------------------------------------------ files and other programs

    def post_file(self) -> None:
        """Post the transactions of a file."""
        from ledger_tui.features.batch.dialog import BatchScreen

        view, context = self._navigation.resource_view, self._context

        def closed(posted: int | None) -> None:
            if posted:
                view.show_created(None)

        path = view.resource.batch
        self._screen.app.push_screen(BatchScreen(path, context.api, context.session, context.names), closed)

    def show_in_program(self, message: ProgramRequested) -> None:
        """Show a record in another program."""
        from ledger_tui.features.raw import show_in_program

        keys = self._context.key_variables
        self._warn(show_in_program(self._screen.app, message.variable, message.record, keys))

    def export(self) -> None:
        """Write the list, or its marked rows, to a file."""
        view = self._navigation.view
        listed = view.resource.list_path(view.record_list.filters) if isinstance(view, ResourceView) else None
        if not isinstance(view, ResourceView) or listed is None:
            self._screen.notify("There is no list here to export.")
            return
        from ledger_tui.features.export import ExportRequest, ExportScreen

        path, params = listed
        resource = view.resource
        file = Path(f"{resource.kind}.csv")
        names = self._context.names
        list_ = view.record_list
        wanted = ExportRequest(
            path,
            resource.paging,
            params,
            resource.part,
            file,
            "csv",
            names=names,
            keep=list_.selects,
            rows=view.marked or None,
        )
        narrowed = " ".join(filter(None, (filter_line(list_.filters, resource.filters), list_.text)))
        what = f"{resource.title}, {literal(narrowed)}" if narrowed else f"All {resource.title.lower()}"
        total = len(view.window) if view.window.complete else view.window.total
        if view.marked:
            what, total = f"{resource.title}, the {len(view.marked):,} marked", len(view.marked)
        self._screen.app.push_screen(ExportScreen(self._context.api, wanted, what, total), self._exported)

    def _exported(self, sentence: str | None) -> None:
        if sentence is not None:
            self._screen.notify(sentence, markup=False)
