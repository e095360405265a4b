"""The fields of a form: what they look like, their values, and the errors below them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static

from ledger_client.errors import LedgerError
from ledger_tui.client.names import AccountName
from ledger_tui.client.session import Mode
from ledger_tui.formats.money import amount_hint
from ledger_tui.forms.fields import ChoiceField, FieldChanged, FieldList, LinesField, PickerField
from ledger_tui.forms.outcomes import Created
from ledger_tui.forms.questions import movement_effect
from ledger_tui.forms.submission import Submission, missing
from ledger_tui.resources.base import Field
from ledger_tui.ui.dialogs import Dialog
from ledger_tui.ui.handlers import asks, handles, while_running
from ledger_tui.ui.view import Context, NamesLoaded

_TYPING_SECONDS = 0.3  # after the user stops typing for this time, the form asks the server for unknown names

# On a screen with fewer than _ROOMY_ROWS rows, a form with more than _FEW_FIELDS fields has no empty lines
# between its fields.
_ROOMY_ROWS, _FEW_FIELDS = 30, 4


class FormFields(Dialog[Created | None]):
    """A dialog with the fields of a form, which shows the error about a field below this field."""

    _looked_for: frozenset[str] = frozenset()  # parts of names that the form has asked the server for
    _balances_read: frozenset[str] = frozenset()  # the accounts whose balances the form has read

    def __init__(self, submission: Submission, context: Context) -> None:
        session = context.session
        mode_text = " · test mode" if session.mode is Mode.TEST else ""
        super().__init__("form", submission.form.title + mode_text, session.mode)
        self.submission = submission
        self._form = submission.form
        self._prefill = submission.prefill
        self._names = context.names
        # the result to return when the user leaves the form, if an earlier request succeeded
        self._result: Created | None = None
        self._typed_at_first: dict[str, str] = {}
        # the fields' values when the form last showed a note
        self._values_with_note: dict[str, str] = {}
        self._wrong: dict[str, str] = {}  # each field's value when its error was last shown or removed
        self._focus_after: Widget | None = None  # the widget to which tab leads if no field has the focus

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

    # ------------------------------------------------------------------ moving between the fields

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

    def _shows_fault(self, field: Field | None) -> bool:
        """Check the value of a field, and return whether the field shows an error now.

        Of the lines of an invoice, check only the focused input, because enter moves inside a line too.
        """
        if field is None:
            return False
        if self._value(field) != self._wrong.get(field.name):
            self._show_error(field, "")  # the shown error is about an earlier value
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

    # ------------------------------------------------------------------ checks

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

    def note(self, text: str, *, problem: bool = False) -> None:
        super().note(text, problem=problem)
        self._values_with_note = self.typed() if text else {}
