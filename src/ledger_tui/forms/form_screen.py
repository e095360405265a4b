"""The form to create or change an object: it sends the request, and shows the outcome."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from textual import events
from textual.binding import Binding
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input
from textual.widgets.input import Selection

from ledger_tui.client.records import Record
from ledger_tui.forms.editing import ChangedScreen, OtherChanges
from ledger_tui.forms.fields import LinesField, PickerField
from ledger_tui.forms.form_fields import FormFields
from ledger_tui.forms.outcomes import Created, outcome_of_form
from ledger_tui.forms.questions import question_of_form
from ledger_tui.forms.submission import (
    FormRefused,
    FormSent,
    FormUnanswered,
    PreparedForm,
    Result,
    SentBefore,
    Submission,
)
from ledger_tui.ui.dialogs import LEAVE, ConfirmScreen
from ledger_tui.ui.handlers import asks, while_running
from ledger_tui.ui.view import Context

_DISCARD = "What you typed is lost."
_NOT_TAKEN = "The form was being sent, so it takes no text until you press tab."
_CHECK_NAME = "Check the name that was filled in, then send the form again."
_LEAVE_UNANSWERED = "The change may have been made."
_LEAVE_IN_FLIGHT = "It was sent and may still succeed."
_LOOK_FIRST = "The change may have been made: check before you send it again."


class FormScreen(FormFields):
    """A form that sends one request. Sending the request again cannot create a second object.

    While the request is running, the user cannot change a field, so the screen shows the sent values.
    """

    BINDINGS = [
        Binding("enter", "next", "next", show=True, priority=True),
        Binding("tab", "go(1)", "next field", show=False, priority=True),
        Binding("ctrl+s", "send", "send", show=True, priority=True),
        Binding("ctrl+n", "add_line", "add a line", show=True, priority=True),
        Binding("ctrl+r", "remove_line", "remove it", show=True, priority=True),
        Binding("escape", "cancel", "cancel", show=True),
        Binding("shift+tab", "go(-1)", "previous field", show=True, priority=True),
    ]

    def __init__(self, submission: Submission, context: Context, about: str = "") -> None:
        super().__init__(submission, context)
        self._about = about  # a text that names the edited object
        self._session = context.session
        self._focus_as_sent: Widget | None = None
        self._selection_as_sent = Selection.cursor(0)
        self._question: ConfirmScreen | None = None
        # The form drops text that the user types or pastes during a request. If it has dropped text, no field
        # has the focus after the request, because a field with the focus would take the rest of the text.
        # With tab, the user goes on to the widget `_focus_after`.
        self._has_dropped = False

    # ------------------------------------------------------------------ sending

    def action_next(self) -> None:
        """Choose the object that the picker highlights, and move to the next field.

        An error keeps the focus in its field. In the last field, send the form, unless there was an object
        to choose.
        """
        picker = self.focused_picker()
        took = picker is not None and picker.take_offered()
        if not took and self._in_last_field():
            self.action_send()
        elif not self._shows_fault(self._field_around(self.focused)):
            self.action_go(1)

    def key_text(self, binding: Binding) -> str:
        """Return the label of a key in the key bar; enter's label depends on the field."""
        picker = self.focused_picker()
        offers = picker is not None and picker.offers
        if binding.action == "cancel" and offers and not self.working:
            return "close the list"
        if binding.action != "next":
            return binding.description
        if offers:
            return "choose"
        return "send" if self._in_last_field() else "next"

    def _in_last_field(self) -> bool:
        return self.focused is not None and self.focused is self.focus_chain[-1]

    def action_send(self) -> None:
        guesses = [entry for entry in self.query(PickerField) if entry.take_only()]
        if guesses:  # the user sees the chosen object before the form is sent
            self.set_focus(guesses[0].query_one(Input))
            self._values_with_note = self.typed()
            self.notes.update(Content.styled(_CHECK_NAME, "bold $warning"))
            return
        self._show_errors({})
        self.note("Sending…")
        values = self.typed()
        for lines in self.query(LinesField):
            values["lines"] = lines.value_to_send
        self._has_dropped = False
        self._focus_as_sent = self.focused or self._focus_after
        if isinstance(self.focused, Input):
            self._selection_as_sent = self.focused.selection
        self._lock(sending=True)
        self._send(values)

    def check_action(self, action: str, _parameters: tuple[object, ...]) -> bool | None:
        is_locked = self.working or self._result is not None
        if action in ("add_line", "remove_line") and not self._has_lines:
            return False
        if action == "remove_line":
            in_a_line = any(lines.has_focus_within for lines in self.query(LinesField))
            return True if in_a_line and not is_locked else None
        return None if is_locked and action in ("next", "go", "send", "add_line") else True

    def _lock(self, *, sending: bool) -> None:
        """Disable all fields: while the request is running (`sending`), or because the form has succeeded."""
        self.working = sending
        self.query_one("#fields").disabled = True
        self.refresh_bindings()

    def rest(self, text: str, *, problem: bool = False) -> None:
        """Enable the fields again, and restore the focus."""
        question, self._question = self._question, None
        if question is not None:
            question.dismiss(False)
        self.query_one("#fields").disabled = False
        if self._focus_as_sent is not None:
            self.set_focus(self._focus_as_sent)
        if isinstance(self._focus_as_sent, Input):  # `set_focus` has selected all its text: undo this
            self._focus_as_sent.call_later(setattr, self._focus_as_sent, "selection", self._selection_as_sent)
        super().rest(text, problem=problem)

    @asks("form")
    async def _send(self, values: Mapping[str, str]) -> None:
        request = await self.submission.prepare(values)
        if not isinstance(request, PreparedForm):
            self.call_later(self._take, request)
            return
        mode = self._session.mode
        body, currency = request.body, request.currency
        question = question_of_form(
            self._form, values, body, currency, self._names, mode, self._about, self.submission.balances
        )
        if question is not None:
            confirm = ConfirmScreen(*question, mode, what="amount")
            if not await self.app.push_screen_wait(confirm):
                self.call_later(self._take, None)
                return
        result = await self.submission.send(request, partial(self.call_later, self._show_in_flight))
        self.call_later(self._take, result)

    @while_running
    def _show_in_flight(self, in_flight: bool) -> None:
        if self.working:
            self.note("Sending…" if in_flight else "Waiting for the rate limit; esc cancels.")

    @while_running
    def _take(self, result: Result | None) -> None:
        """Show the outcome of the request. `result` is None if the user did not confirm."""
        match result:
            case FormSent(record):
                self._close_with(dict(record))
            case OtherChanges():
                self.rest("Nothing was sent: somebody else has changed the object.", problem=True)
                self._ask_about(result)
            case SentBefore():
                self._finish_after_earlier_request(result)
            case FormUnanswered(sentence):
                self.rest(f"{sentence} Sending again is safe: it takes effect only once.", problem=True)
            case FormRefused(errors):
                self.rest(errors.get("", ""), problem=True)
                typed = self.typed()
                for field in self._form.fields:
                    self._show_error(field, errors.get(field.name) or self.submission.fault_of(field, typed))
                if names := [field.name for field in self._form.fields if field.name in errors]:
                    self._focus_field(names[0])
            case None:
                # The user has answered the question, so the text that was typed too early has ended.
                self._has_dropped = False
                self.rest("Nothing was sent.")
        if self._has_dropped:
            self._focus_after = self.focused
            self.set_focus(None)

    def _ask_about(self, changes: OtherChanges) -> None:
        """Ask whether to overwrite the changes of other people, or to take the changes into the form."""

        async def answered(overwrite: bool | None) -> None:
            if overwrite is None:
                return
            self.submission.edited.accept(changes)
            if overwrite:
                self.action_send()
            else:
                await self._take_theirs(changes)

        screen = ChangedScreen(changes, self.typed(), self._names, self._session.mode)
        self.app.push_screen(screen, answered)

    async def _take_theirs(self, changes: OtherChanges) -> None:
        """Put the values of other people into the fields that they have changed."""
        fields = self.query_one("#fields")
        for field in changes.fields:
            old = self.query_one(f"#row-{field.name}")
            at = fields.children.index(old)
            await old.remove()
            after = {"before": at} if at < len(fields.children) else {}
            await fields.mount(self._row(field, changes.now.get(field.name, "")), **after)
        self._show_amount_or_lines()
        self._focus_field(changes.fields[0].name)
        self.note("The form now shows their values; ^s sends your other changes.")

    def _close_with(self, record: Record) -> None:
        # Remove the secret from the record at once: one dialog shows it, and the dashboard stores it nowhere.
        secret = record.pop(self._form.shows_once, None) if self._form.shows_once else None
        self.dismiss(
            Created(
                record,
                self._outcome(record),
                secret if isinstance(secret, str) else None,
                edited=self._form.method == "PATCH",
            )
        )

    def _outcome(self, record: Record) -> str:
        return outcome_of_form(self._form, self.submission.kind, record, self._names)

    def _finish_after_earlier_request(self, before: SentBefore) -> None:
        """Close the form, because an earlier request succeeded.

        But if the user must know other facts too, show them after the outcome, and keep the form open with
        its fields disabled.
        """
        did = "An earlier try succeeded" if before.record is None else self._outcome(before.record)
        sentence = f"Already done. {did}"
        notes = [before.otherwise] if before.otherwise else []
        if self._form.shows_once:
            notes.append(f"Its {self._form.shows_once} cannot be shown any more: roll it to get another.")
        self._result = Created(before.record, sentence)
        if not notes:
            self.dismiss(self._result)
            return
        self.rest(f"{sentence}. {' '.join(notes)}", problem=True)
        self._lock(sending=False)

    # ------------------------------------------------------------------ leaving

    @property
    def unfinished(self) -> str:
        if self.working and self.submission.in_flight:
            return _LEAVE_IN_FLIGHT
        if self._result is not None:
            return ""
        if self.submission.unanswered:
            return _LEAVE_UNANSWERED
        return _DISCARD if self.typed() != self._typed_at_first else ""

    def action_cancel(self) -> None:
        """Close the list of suggestions; if none is open, leave the form, or stop a request that waits."""
        picker = self.focused_picker()
        if picker is not None and picker.offers and not self.working:
            picker.close_list()
        else:
            self._cancel()

    async def action_interrupt(self) -> None:
        """Handle ctrl+c: leave the form, even if a list of suggestions is open."""
        self._cancel()

    def _cancel(self) -> None:
        if self.working and not self.submission.in_flight:
            self.workers.cancel_group(self, "form")
            if self._has_dropped:
                self.app.clear_notifications()  # the warning that the fields take no text
            self.rest("Nothing was sent.")
        elif loss := self.unfinished:
            self._ask_to_leave(loss)
        else:
            self.dismiss(self._result)

    def on_key(self, event: events.Key) -> None:
        """Warn that the fields ignore keys during the request, and after it until the user presses tab."""
        if event.is_printable:
            self._warn_of_dropped_text()

    def on_paste(self, event: events.Paste) -> None:
        """Warn that the fields ignore pasted text, at the same times as they ignore keys."""
        if event.text and self._warn_of_dropped_text():
            event.stop()

    def _warn_of_dropped_text(self) -> bool:
        """Warn if the form drops text now; return whether it does."""
        drops = self.working or (self.focused is None and self._focus_after is not None)
        if drops:
            self._has_dropped = True
            self.notify(_NOT_TAKEN, severity="warning")
        return drops

    def _ask_to_leave(self, loss: str) -> None:
        self._question = ConfirmScreen(f"Leave the form? {loss}", labels=LEAVE)
        self.app.push_screen(self._question, self._leave_answered)

    def _leave_answered(self, leave: bool | None) -> None:
        has_answered, self._question = self._question is not None, None  # `rest` closes the question too
        if leave:
            may_be_done = self.submission.unanswered or (self.working and self.submission.in_flight)
            self.dismiss(None)
            if may_be_done:
                self.app.notify(_LOOK_FIRST, severity="warning")
        elif has_answered and self._focus_after is not None and not self.working and self.focused is None:
            self.action_go(1)  # the text that was typed too early has ended, so the field takes text again
