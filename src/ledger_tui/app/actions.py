"""What the main screen does for its views: actions on an object, the dialogs of lists, the test helpers.

An action, such as paying an invoice, asks first, is sent, and shows its result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from textual.message import Message
from textual.screen import Screen

from ledger_tui.app.navigation import Navigation
from ledger_tui.client.api import new_idempotency_key
from ledger_tui.client.errors import ClientError, NotOffered, Unreachable
from ledger_tui.client.records import Record
from ledger_tui.client.session import Mode
from ledger_tui.features.test_helpers import MISSING, PART, ROOT, HelperRequest, outcome_of
from ledger_tui.formats.text import literal
from ledger_tui.forms.submission import question
from ledger_tui.lists.resource_view import BulkRequested, ProgramRequested, ResourceView
from ledger_tui.resources.filtering import filter_line
from ledger_tui.settings.config import ListSettings
from ledger_tui.ui.dialogs import ConfirmScreen, ShownOnceScreen
from ledger_tui.ui.view import ActionRequested, Context


@dataclass
class ActionDone(Message):
    """An action succeeded; `record` is the object as the server has it now, `secret` is shown once."""

    wanted: ActionRequested
    record: Record
    secret: str | None = None


@dataclass
class ActionFailed(Message):
    """An action failed; with `unanswered` no answer came, so that it may have succeeded."""

    wanted: ActionRequested
    sentence: str
    unanswered: bool = field(default=False, kw_only=True)


class ObjectActions:
    """Acts on objects for the main screen, which hands it the messages of actions."""

    def __init__(self, screen: Screen[Any], navigation: Navigation, context: Context) -> None:
        self._screen = screen
        self._navigation = navigation
        self._context = context

    def ask(self, message: ActionRequested) -> None:
        """Ask first when the action cannot be undone or money is live, then act."""
        action, record, mode = message.action, message.record, self._context.session.mode
        if not action.final and mode is Mode.TEST:
            self._act(message)
            return
        record_id = literal(record.get("id"))
        text = question(message.resource, action, record, self._context.names)
        if action.name == "revoke" and self._context.tokens.is_own(record):
            text += "\n\nIt is the key of this dashboard, which will lose access."
        # In live mode also what can be undone is confirmed, but nothing has to be typed for it.
        typed = record_id if action.final and mode is not Mode.TEST else None

        def answered(yes: bool | None) -> None:
            if yes:
                self._act(message)

        self._screen.app.push_screen(ConfirmScreen(text, typed, mode), answered)

    def _act(self, wanted: ActionRequested) -> None:
        self._screen.run_worker(self._send(wanted), group="act", exit_on_error=False)

    async def _send(self, wanted: ActionRequested) -> None:
        action = wanted.action
        path = wanted.resource.object_path(wanted.record.get("id")) + action.suffix
        if action.target is not None:
            path = action.target(wanted.record)
        key = new_idempotency_key() if action.creates else None
        try:
            answer = await self._context.api.write(action.method, path, None, key, part=action.part)
        except NotOffered as error:
            sentence = f"this server does not offer it, or has no such object ({literal(error)})"
            self._screen.post_message(ActionFailed(wanted, sentence))
        except ClientError as error:
            lost = isinstance(error, Unreachable)
            self._screen.post_message(ActionFailed(wanted, literal(error), unanswered=lost))
        else:
            # The secret is removed from the record at once: it is shown in one dialog and stored nowhere.
            record = dict(answer.record)
            secret = record.pop(action.shows_once, None) if action.shows_once else None
            self._screen.post_message(ActionDone(wanted, record, secret if isinstance(secret, str) else None))

    def done(self, message: ActionDone) -> None:
        """Show what has changed, and a new secret once."""
        wanted = message.wanted
        answered_id = message.record.get("id")
        another = answered_id not in (None, wanted.record.get("id"))
        made = another and str(answered_id).startswith(wanted.resource.id_prefix)
        sentence = f"{wanted.action.done} {literal(wanted.record.get('id'))}"
        if made:
            sentence += f": {literal(answered_id)}"
        self._screen.notify(sentence, markup=False)
        for view in self._screen.query(f"#{wanted.resource.kind}").results(ResourceView):
            if message.record.get("id") == wanted.record.get("id"):
                view.show_changed(message.record)
            if made:
                view.show_created(message.record)
            elif another:
                view.action_follow()
        self._navigation.view.poll_soon()
        if message.secret is not None:
            note = ""
            if wanted.action.name == "roll" and self._context.tokens.is_own(wanted.record):
                self._context.tokens.replace_key(message.secret)
                note = "It was this dashboard's own key: the new one is in use already."
            self._screen.app.push_screen(ShownOnceScreen(sentence, message.secret, note))

    def failed(self, message: ActionFailed) -> None:
        """Say why an action failed."""
        text = f"Could not {message.wanted.action.label}: {message.sentence}"
        if message.unanswered:
            text = f"No answer ({message.sentence}): it may have succeeded. Check before you try again."
        self._screen.notify(text, severity="error", markup=False)


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
        from ledger_tui.features.batch import BatchScreen

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


@dataclass
class HelperDone(Message):
    """A test helper has done what was asked; `clock` is the ledger's after it."""

    request: HelperRequest
    answer: Record
    clock: Record


class TestHelping:
    """Sends requests to test helpers for the main screen, which hands it the answers."""

    __test__ = False  # its name begins as those of pytest's classes do

    def __init__(self, screen: Screen[Any], navigation: Navigation, context: Context) -> None:
        self._screen = screen
        self._navigation = navigation
        self._context = context

    def ask(self, request: HelperRequest) -> None:
        """Ask first where something is lost, then send."""
        if why := self._context.session.forbids_changes:
            self._screen.notify(why, markup=False)
            return
        if not request.question:
            self._start(request)
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self._start(request)

        # Live keys have no test helpers, so nothing has to be typed.
        dialog = ConfirmScreen(request.question, None, self._context.session.mode)
        self._screen.app.push_screen(dialog, answered)

    def _start(self, request: HelperRequest) -> None:
        self._screen.run_worker(self._send(request), group="act", exit_on_error=False)

    async def _send(self, request: HelperRequest) -> None:
        api = self._context.api
        try:
            # Asked first, as a 404 of the request itself may mean that there is no such snapshot.
            await api.call("GET", f"{ROOT}/clock", part=PART)
            answer = await api.write(request.method, request.path, request.body, None)
            clock = await api.call("GET", f"{ROOT}/clock", part=PART)
        except NotOffered:
            self._fail(MISSING)
        except Unreachable as error:
            self._fail(f"No answer ({literal(error)}): it may have succeeded.")
        except ClientError as error:
            self._fail(literal(error))
        else:
            self._screen.post_message(HelperDone(request, answer.record, clock.record))

    def _fail(self, sentence: str) -> None:
        self._screen.notify(sentence, severity="error", markup=False)

    async def done(self, message: HelperDone) -> None:
        """Say what was done; after the ledger went back or was emptied, read everything anew."""
        self._context.session.saw_clock(message.clock.get("offset_ms"))
        if message.request.rewinds:
            await self._navigation.forget()
        self._screen.notify(outcome_of(message.request, message.answer), markup=False)
        self._navigation.view.poll_soon()
