"""The actions on one object, such as paying an invoice: asking first, sending, and showing the result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from textual.message import Message
from textual.screen import Screen

from ledger_tui.app.navigation import Navigation
from ledger_tui.client.api import new_idempotency_key
from ledger_tui.client.errors import ClientError, NotOffered, Unreachable
from ledger_tui.client.records import Record
from ledger_tui.client.session import Mode
from ledger_tui.formats.text import literal
from ledger_tui.forms.submission import question
from ledger_tui.lists.resource_view import ResourceView
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
