"""The form to create or change an object. An error about a field is shown below this field."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static
from textual.widgets.input import Selection

from ledger_client.errors import LedgerError
from ledger_tui.client.names import AccountName
from ledger_tui.client.records import Record
from ledger_tui.client.session import Mode
from ledger_tui.formats.money import amount_hint
from ledger_tui.forms.editing import ChangedScreen, OtherChanges
from ledger_tui.forms.fields import ChoiceField, FieldChanged, FieldList, LinesField, PickerField
from ledger_tui.forms.outcomes import Created, outcome_of_form
from ledger_tui.forms.questions import movement_effect, question_of_form
from ledger_tui.forms.submission import (
    FormRefused,
    FormSent,
    FormUnanswered,
    PreparedForm,
    Result,
    SentBefore,
    Submission,
    missing,
)
from ledger_tui.resources.base import Field
from ledger_tui.ui.dialogs import LEAVE, ConfirmScreen, Dialog
from ledger_tui.ui.handlers import asks, handles, while_running
from ledger_tui.ui.view import Context, NamesLoaded

_TYPING_SECONDS = 0.3  # after the user stops typing for this time, the form asks the server for unknown names

# On a screen with fewer than _ROOMY_ROWS rows, a form with more than _FEW_FIELDS fields has no empty lines
# between its fields.
_ROOMY_ROWS, _FEW_FIELDS = 30, 4
_DISCARD = "What you typed is lost."
_NOT_TAKEN = "The form was being sent, so it takes no text until you press tab."
_CHECK_NAME = "Check the name that was filled in, then send the form again."
_LEAVE_UNANSWERED = "The change may have been made."
_LEAVE_IN_FLIGHT = "It was sent and may still succeed."
_LOOK_FIRST = "The change may have been made: check before you send it again."


class FormScreen(Dialog[Created | None]):
    """A form that sends one request. Sending the request again cannot create a second object.

    While the request is running, the user cannot change a field, so the screen shows the sent values.
    """

    _looked_for: frozenset[str] = frozenset()  # parts of names that the form has asked the server for
    _balances_read: frozenset[str] = frozenset()  # the accounts whose balances the form has read

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
        session = context.session
        mode_text = " · test mode" if session.mode is Mode.TEST else ""
        super().__init__("form", submission.form.title + mode_text, session.mode)
        self.submission = submission
        self._form = submission.form
        self._about = about  # a text that names the edited object
        self._prefill = submission.prefill
        self._session = session
        self._names = context.names
        # the result to return when the user leaves the form, if an earlier request succeeded
        self._result: Created | None = None
        self._typed_at_first: dict[str, str] = {}
        # the fields' values when the form last showed a note
        self._values_with_note: dict[str, str] = {}
        self._wrong: dict[str, str] = {}  # each field's value when its error was last shown or removed
        self._focus_as_sent: Widget | None = None
        self._selection_as_sent = Selection.cursor(0)
        self._question: ConfirmScreen | None = None
        # The form drops text that the user types or pastes during a request. If it has dropped text, no field
        # has the focus after the request, because a field with the focus would take the rest of the text.
        # With tab, the user goes on to the widget `_focus_after`.
        self._has_dropped = False
        self._focus_after: Widget | None = None

    # ------------------------------------------------------------------ look

    def content(self) -> ComposeResult:
        with FieldList(id="fields"):
            for field in self._form.fields:
                yield self._row(field, self._prefill.get(field.name, ""))
        yield self.notes

    def _row(self, field: Field, value: str) -> Widget:
        return Horizontal(
            Static(Content(field.label + " *" * field.required), classes="label"),
            Vertical(
                self._entry(field, value), Static(id=f"error-{field.name}", classes="error"), classes="entry"
            ),
            classes="field",
            id=f"row-{field.name}",
        )

    def _entry(self, field: Field, value: str) -> Widget:
        if field.kind == "choice":
            return ChoiceField(field.choices, value, id=f"field-{field.name}")
        if field.kind == "account":
            source = self._source if field.name == "destination" else lambda: None
            return PickerField(self._names, value, field.hint, source, id=f"field-{field.name}")
        if field.kind == "user":
            return PickerField(self._names.users, value, field.hint, id=f"field-{field.name}")
        if field.kind == "lines":
            return LinesField(value, field.hint, self._currency, id=f"field-{field.name}")
        return Input(value, placeholder=field.hint, compact=True, id=f"field-{field.name}")

    def on_mount(self) -> None:
        # On a small screen, a picker's matches would push the keys out of view, so make the form dense.
        small = self.app.size.height < _ROOMY_ROWS
        dense = self._has_lines or (small and len(self._form.fields) > _FEW_FIELDS)
        self.query_one("#form").set_class(dense, "-dense")
        self._typed_at_first = self.typed()
        # to edit, start in the first field; to create, start in the first empty field
        edits = self._form.method == "PATCH"
        empty = next((f for f in self._form.fields if edits or not self._prefill.get(f.name)), None)
        self._show_amount_or_lines()
        self._adapt_to_account()
        if empty is not None:
            self._focus_field(empty.name)
        if any(field.kind == "user" for field in self._form.fields):
            # read the newest users of the ledger, so that the form can offer their names
            self._learn_names("", users=True)

    def typed(self) -> dict[str, str]:
        """Return the value of each field."""
        return {field.name: self._value(field) for field in self._form.fields}

    def _value(self, field: Field) -> str:
        entry = self.query_one(f"#field-{field.name}")
        assert isinstance(entry, Input | ChoiceField | PickerField | LinesField)
        if field.kind == "amount" and self._lines_are_given:
            return ""  # the form sends the lines instead of an amount
        return entry.value

    def _focus_field(self, name: str) -> None:
        entry = self.query_one(f"#field-{name}")
        if isinstance(entry, LinesField) and entry.focus_fault():
            return
        inputs = entry.query(Input)
        # Call `set_focus`, because Textual's `focus` moves the focus later, possibly after the next key.
        self.set_focus(inputs.first() if inputs else entry)

    def _source(self) -> AccountName | None:
        """Return the account that a transfer takes the money from; None if no known account is chosen."""
        return self._names.get(self.query_one("#field-account", PickerField).value)

    def _currency(self) -> str | None:
        """Return the currency of the chosen account; None if no known account is chosen."""
        return self._names.currency(self.query_one("#field-account", PickerField).value)

    # ------------------------------------------------------------------ lines

    @property
    def _has_lines(self) -> bool:
        return any(field.kind == "lines" for field in self._form.fields)

    @property
    def _lines_are_given(self) -> bool:
        return any(lines.has_rows for lines in self.query(LinesField))

    def _show_amount_or_lines(self) -> None:
        """Hide the amount while the user types lines, because the form sends either an amount or lines."""
        if self._has_lines:
            self.query_one("#row-amount").display = not self._lines_are_given

    async def action_add_line(self) -> None:
        await self.query_one(LinesField).add_row()
        self._lines_changed()

    async def action_remove_line(self) -> None:
        await self.query_one(LinesField).remove_row()
        self._lines_changed()
        if not self._lines_are_given:
            self._focus_field("amount")

    def _lines_changed(self) -> None:
        """Check the amount or the lines again, because an error may be about a removed line."""
        self._show_amount_or_lines()
        for field in self._form.fields:
            if field.kind in ("amount", "lines") and field.name in self._wrong:
                self._show_error(field, self.submission.fault_of(field, self.typed()))

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

    def _shows_fault(self, field: Field | None) -> bool:
        """Check the value of a field, and return whether the field shows an error now.

        Of the lines of an invoice, check only the focused input, because enter moves inside a line too.
        """
        if field is None:
            return False
        if field.kind == "lines":
            fault = self.query_one(LinesField).fault_of_focused
            self._show_fault(field, fault)
            return bool(fault)
        if field.name not in self._form.either:
            self._show_fault(field, missing(field, self._form, self.typed()))
        entry = self.query_one(f"#field-{field.name}")
        if isinstance(entry, PickerField) and entry.is_unknown:
            self._check(field, entry.value, goes_on=True)
            return True
        self._check_value(field)
        return self.query_one(f"#error-{field.name}").display

    def _field_around(self, widget: Widget | None) -> Field | None:
        """Return the field that a widget belongs to."""
        rows = [] if widget is None else [node.id for node in widget.ancestors]
        return next((field for field in self._form.fields if f"row-{field.name}" in rows), None)

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

    def action_go(self, step: int) -> None:
        """Move to the next or the previous field. If a required field is left empty, it shows an error."""
        if self.focused is None and self._focus_after is not None:
            self.set_focus(self._focus_after)
            self._focus_after = None
            self.app.clear_notifications()  # the warning that the fields take no text until tab
        elif step > 0:
            field = self._field_around(self.focused)
            if field and field.name not in self._form.either:
                self._show_fault(field, missing(field, self._form, self.typed()))
            self.focus_next()
        else:
            self.focus_previous()

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

    def note(self, text: str, *, problem: bool = False) -> None:
        super().note(text, problem=problem)
        self._values_with_note = self.typed() if text else {}

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

    # ------------------------------------------------------------------ the fields

    @on(Input.Changed)
    def text_changed(self, event: Input.Changed) -> None:
        self.post_message(FieldChanged(event.input.id))

    @handles(FieldChanged)
    def field_changed(self, message: FieldChanged) -> None:
        """Remove a field's error once the field's value differs from the value with the error."""
        message.stop()
        self.set_timer(_TYPING_SECONDS, self._look_for_names)
        self.refresh_bindings()  # the new value may change what enter does
        for lines in self.query(LinesField):
            lines.show_sum()
        self._adapt_to_account()
        self._show_effect()
        if message.entry == "field-account":
            for picker in self.query(PickerField):
                picker.directory_changed()  # the note under the destination is about the source's currency
        for field in self._form.fields:
            if message.entry == f"field-{field.name}" and self._value(field) != self._wrong.get(field.name):
                self._show_error(field, "")
            elif (
                message.entry == "field-account"
                and (field.kind in ("amount", "lines") or field.name == "destination")
                and self._value(field)
            ):  # the typed amounts or the destination may be invalid in the currency of the new account
                self._show_error(field, self.submission.fault_of(field, self.typed()))

    def _show_effect(self) -> None:
        """If a value has changed since the last note, show the form's effect instead of the note."""
        values = self.typed()
        is_new = values != self._values_with_note
        if is_new and not (self.working or self.submission.unanswered or self._result):
            effect = movement_effect(self._form, values, self._names, self.submission.balances)
            self.notes.update(Content.styled(effect, "bold"))

    def _adapt_to_account(self) -> None:
        """Show an example of the amount in the account's currency.

        If the form moves money, also read the account's balance, once for each account.
        """
        account = self._names.get(self.typed().get("account"))
        for field in self._form.fields:
            if field.kind == "amount":
                hint = amount_hint(account.currency) if account is not None else field.hint
                self.query_one(f"#field-{field.name}", Input).placeholder = hint
        if account and self._form.moves_money and account.id not in self._balances_read:
            self._balances_read |= {account.id}
            self._read_balance(account.id)

    @asks("balance")
    async def _read_balance(self, account_id: str) -> None:
        await self.submission.read_balance(account_id)
        self.call_later(self._show_read_balance)

    @while_running
    def _show_read_balance(self) -> None:
        self._show_effect()

    def _show_errors(self, errors: Mapping[str, str]) -> None:
        for field in self._form.fields:
            self._show_error(field, errors.get(field.name, ""))

    def _show_error(self, field: Field, text: str) -> None:
        self._wrong[field.name] = self._value(field)
        line = self.query_one(f"#error-{field.name}", Static)
        line.update(Content.styled(f"✕ {text}" if text else "", "bold $error"))
        line.display = bool(text)

    def focused_picker(self) -> PickerField | None:
        return next((picker for picker in self.query(PickerField) if picker.has_focus_within), None)

    @while_running
    def _look_for_names(self) -> None:
        """Ask the server for the name that the user types into a picker, once for each text."""
        picker = self.focused_picker()
        text = picker.looks_for if picker is not None else ""
        if picker is not None and text and text not in self._looked_for:
            self._looked_for |= {text}
            users = [f"field-{field.name}" for field in self._form.fields if field.kind == "user"]
            self._learn_names(text, users=picker.id in users)

    @asks("names")
    async def _learn_names(self, name: str, *, users: bool) -> None:
        with suppress(LedgerError):
            if await self.submission.learn_named(name, users=users):
                self.post_message(NamesLoaded())

    @handles(events.DescendantBlur)
    def check_left_field(self, event: events.DescendantBlur) -> None:
        """Check the value of a field when the user leaves it.

        If the field names an account or user that the dashboard does not know, ask the server.
        """
        field = self._field_around(event.widget)
        # If no field has the focus now, check nothing: the terminal has lost the focus, or the form is being
        # sent.
        if field is None or self.focused is None or field is self._field_around(self.focused):
            return
        self._check_value(field)

    def _check_value(self, field: Field) -> None:
        entry = self.query_one(f"#field-{field.name}")
        if isinstance(entry, PickerField) and entry.is_unknown:
            self._check(field, entry.value)
        elif isinstance(entry, PickerField) and entry.is_ambiguous:
            self._show_fault(field, f"Several {field.kind}s match: choose one.")
        else:
            self._show_fault(field, self.submission.fault_of(field, self.typed()))

    def _show_fault(self, field: Field, fault: str) -> None:
        """Show a fault of a field. If `fault` is "", the field keeps the error that it shows."""
        if fault:
            self._show_error(field, fault)

    @asks("check")
    async def _check(self, field: Field, text: str, *, goes_on: bool = False) -> None:
        error = await self.submission.refusal_of(field, text)
        self.call_later(self._take_check, field, text, error, goes_on)

    @while_running
    def _take_check(self, field: Field, text: str, error: str, goes_on: bool) -> None:
        """Show why the server does not know a name. If it knows the name, and enter asked, go on."""
        if self._value(field) != text or self.working:
            return
        if error:
            self._show_error(field, error)
        elif goes_on and field is self._field_around(self.focused):
            picker = self.query_one(f"#field-{field.name}", PickerField)
            picker.directory_changed()
            if not picker.offers:
                self.action_go(1)

    @handles(NamesLoaded)
    def names_loaded(self) -> None:
        for picker in self.query(PickerField):
            picker.directory_changed()
        self._adapt_to_account()
