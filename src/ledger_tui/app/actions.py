"""What the main screen does for its views: actions on an object, and the test helpers.

An action, such as paying an invoice, asks first, is sent, and shows its result.
"""

from __future__ import annotations

from typing import Any

from textual.screen import Screen

from ledger_tui.app.navigation import Navigation
from ledger_tui.client.api import new_idempotency_key
from ledger_tui.client.errors import LedgerError, NotConnected, NotOffered
from ledger_tui.client.records import Record
from ledger_tui.client.session import Mode
from ledger_tui.features.test_helpers import MISSING, PART, ROOT, HelperRequest, outcome_of
from ledger_tui.formats.text import literal
from ledger_tui.forms.submission import question
from ledger_tui.lists.resource_view import ResourceView
from ledger_tui.ui.dialogs import ShownOnceScreen, confirm
from ledger_tui.ui.view import ActionRequested, Context


class ObjectActions:
    """Acts on objects for the main screen."""

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
        confirm(self._screen.app, text, typed, mode, lambda: self._act(message))

    def _act(self, wanted: ActionRequested) -> None:
        self._screen.app.run_worker(self._send(wanted), group="act", exit_on_error=False)

    async def _send(self, wanted: ActionRequested) -> None:
        action = wanted.action
        path = wanted.resource.action_path(action, wanted.record)
        key = new_idempotency_key() if action.creates else None
        try:
            answer = await self._context.api.write(action.method, path, None, key, part=action.part)
        except NotOffered as error:
            sentence = f"this server does not offer it, or has no such object ({literal(error)})"
            self._failed(wanted, sentence)
        except NotConnected as error:
            text = f"No answer ({literal(error)}): it may have succeeded. Check before you try again."
            self._screen.notify(text, severity="error", markup=False)
        except LedgerError as error:
            self._failed(wanted, literal(error))
        else:
            # The secret is removed from the record at once: it is shown in one dialog and stored nowhere.
            record = dict(answer.record)
            secret = record.pop(action.shows_once, None) if action.shows_once else None
            self._screen.call_later(self._done, wanted, record, secret if isinstance(secret, str) else None)

    def _done(self, wanted: ActionRequested, record: Record, secret: str | None) -> None:
        """Show what has changed: `record` is the object as it is now; and a new secret once."""
        answered_id = record.get("id")
        another = answered_id not in (None, wanted.record.get("id"))
        made = another and str(answered_id).startswith(wanted.resource.id_prefix)
        sentence = f"{wanted.action.done} {literal(wanted.record.get('id'))}"
        if made:
            sentence += f": {literal(answered_id)}"
        self._screen.notify(sentence, markup=False)
        for view in self._screen.query(f"#{wanted.resource.kind}").results(ResourceView):
            if answered_id == wanted.record.get("id"):
                view.show_changed(record)
            if made:
                view.show_created(record)
            elif another:
                view.action_follow()
        self._navigation.view.poll_soon()
        if secret is not None:
            note = ""
            if wanted.action.name == "roll" and self._context.tokens.is_own(wanted.record):
                self._context.tokens.replace_key(secret)
                note = "It was this dashboard's own key: the new one is in use already."
            self._screen.app.push_screen(ShownOnceScreen(sentence, secret, note))

    def _failed(self, wanted: ActionRequested, sentence: str) -> None:
        text = f"Could not {wanted.action.label}: {sentence}"
        self._screen.notify(text, severity="error", markup=False)


class TestHelping:
    """Sends requests to test helpers for the main screen."""

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
        mode = self._context.session.mode  # live keys have no test helpers, so nothing has to be typed
        if request.question:
            confirm(self._screen.app, request.question, None, mode, lambda: self._start(request))
        else:
            self._start(request)

    def _start(self, request: HelperRequest) -> None:
        self._screen.app.run_worker(self._send(request), group="act", exit_on_error=False)

    async def _send(self, request: HelperRequest) -> None:
        api = self._context.api
        try:
            # Asked first, as a 404 of the request itself may mean that there is no such snapshot.
            await api.call("GET", f"{ROOT}/clock", part=PART)
            answer = await api.write(request.method, request.path, request.body, None)
            clock = await api.call("GET", f"{ROOT}/clock", part=PART)
        except NotOffered:
            self._fail(MISSING)
        except NotConnected as error:
            self._fail(f"No answer ({literal(error)}): it may have succeeded.")
        except LedgerError as error:
            self._fail(literal(error))
        else:
            self._screen.call_later(self._done, request, answer.record, clock.record)

    def _fail(self, sentence: str) -> None:
        self._screen.notify(sentence, severity="error", markup=False)

    async def _done(self, request: HelperRequest, answer: Record, clock: Record) -> None:
        """Say what was done; after the ledger went back or was emptied, read everything anew."""
        self._context.session.saw_clock(clock.get("offset_ms"))
        if request.rewinds:
            await self._navigation.forget()
        self._screen.notify(outcome_of(request, answer), markup=False)
        self._navigation.view.poll_soon()
