"""A new object, typed in. What the server says against a field stands under that field."""

from __future__ import annotations

from collections.abc import Mapping

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static
from textual.widgets.input import Selection

from ledger_tui.handlers import hears
from ledger_tui.messages import (
    Created,
    FieldChanged,
    FormOnItsWay,
    FormRefused,
    FormSent,
    FormUnanswered,
    FormWasSentBefore,
)
from ledger_tui.resources.base import Field
from ledger_tui.screens.dialog import Dialog
from ledger_tui.screens.submission import Submission
from ledger_tui.state.names import AccountNames
from ledger_tui.state.session import Mode, Session
from ledger_tui.state.text import literal
from ledger_tui.widgets.choice_field import ChoiceField
from ledger_tui.widgets.key_bar import KeyBar
from ledger_tui.widgets.picker_field import AccountField

_DISCARD = "Discard what you typed?"
_LEAVE_UNANSWERED = "No answer came: it may have been done. Leave it?"
_LEAVE_ON_ITS_WAY = "It is on its way and may be done all the same. Leave without the answer?"
_LOOK_FIRST = "It may have been done: look for it before you type it again."


class DiscardScreen(Dialog[bool]):
    """Asks before a form is left: True on a second esc, False on any other key."""

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog", id="discard"):
            yield Static(Content(f"{self._question}  esc again / any other key to go on"))

    def on_key(self, event: events.Key) -> None:
        event.stop()
        self.dismiss(event.key == "escape")


class FormScreen(Dialog[Created | None]):
    """One opening is one intent: trying again cannot do it twice.

    While it is sent nothing can be changed, so that what is on the screen is what is sent.
    """

    BINDINGS = [
        Binding("enter", "next", "next", show=True, priority=True),
        Binding("tab", "go(1)", "next field", show=False, priority=True),
        Binding("shift+tab", "go(-1)", "previous field", show=False, priority=True),
        Binding("ctrl+s", "send", "send", show=True, priority=True),
        Binding("escape", "cancel", "cancel", show=True),
    ]

    def __init__(self, submission: Submission, session: Session, names: AccountNames) -> None:
        super().__init__()
        self.submission = submission
        self._form = submission.form
        self._prefill = submission.prefill
        self._session = session
        self._names = names
        self.sending = False
        self._done: Created | None = None  # what is told as the form is left: it was done before
        self._typed_at_first: dict[str, str] = {}
        self._typed_as_sent: dict[str, str] = {}
        self._focus_as_sent: Widget | None = None
        self._selection_as_sent = Selection.cursor(0)
        self._question: DiscardScreen | None = None

    # ------------------------------------------------------------------ look

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog", id="form") as box:
            box.border_title = self._title()
            with VerticalScroll(id="fields", can_focus=False):
                for field in self._form.fields:
                    with Horizontal(classes="field"):
                        yield Static(Content(field.label + (" *" if field.required else "")), classes="label")
                        with Vertical(classes="entry"):
                            yield self._entry(field)
                            yield Static(id=f"error-{field.name}", classes="error")
            yield Static(id="form-note")
            yield KeyBar()

    def _title(self) -> str:
        # Text of our own only: a border title is read as markup.
        mode = {Mode.LIVE: " · ◆ LIVE", Mode.TEST: " · test mode"}.get(self._session.mode, "")
        return self._form.title + mode

    def _entry(self, field: Field) -> Widget:
        value = self._prefill.get(field.name, "")
        if field.kind == "choice":
            return ChoiceField(field.choices, value, id=f"field-{field.name}")
        if field.kind == "account":
            return AccountField(self._names, value, field.hint, id=f"field-{field.name}")
        return Input(value, placeholder=field.hint, compact=True, id=f"field-{field.name}")

    def on_mount(self) -> None:
        self.set_class(self._session.mode is Mode.LIVE, "-live")
        self._typed_at_first = self.typed()
        edits = self._form.method == "PATCH"  # what is edited is what stands there
        empty = next((f for f in self._form.fields if edits or not self._prefill.get(f.name)), None)
        if empty is not None:
            self._focus_field(empty.name)

    def typed(self) -> dict[str, str]:
        """What stands in each field."""
        return {field.name: self._value(field) for field in self._form.fields}

    def _value(self, field: Field) -> str:
        entry = self.query_one(f"#field-{field.name}")
        assert isinstance(entry, Input | ChoiceField | AccountField)
        return entry.value

    def _focus_field(self, name: str) -> None:
        entry = self.query_one(f"#field-{name}")
        (entry.query_one(Input) if isinstance(entry, AccountField) else entry).focus()

    def _note(self, text: str, style: str = "$muted") -> None:
        self.query_one("#form-note", Static).update(Content.styled(text, style))

    # ------------------------------------------------------------------ sending

    def action_next(self) -> None:
        """Enter takes the account offered, else goes on; in the last field it sends."""
        entry = self._focused_entry()
        if isinstance(entry, AccountField) and entry.take_offered():
            self.focus_next()
        elif entry is not None and entry.id == f"field-{self._form.fields[-1].name}":
            self.action_send()
        else:
            self.focus_next()

    def action_go(self, step: int) -> None:
        if step > 0:
            self.focus_next()
        else:
            self.focus_previous()

    def _focused_entry(self) -> Widget | None:
        focused = self.focused
        for node in focused.ancestors_with_self if focused is not None else ():
            if isinstance(node, Widget) and (node.id or "").startswith("field-"):
                return node
        return None

    def action_send(self) -> None:
        for entry in self.query(AccountField):
            entry.take_only()
        self._show_errors({})
        self._note("Sending…")
        self._typed_as_sent = self.typed()
        self._focus_as_sent = self.focused
        if isinstance(self.focused, Input):
            self._selection_as_sent = self.focused.selection
        self._lock(sending=True)
        self._send(self._typed_as_sent)

    def check_action(self, action: str, _parameters: tuple[object, ...]) -> bool | None:
        locked = self.sending or self._done is not None
        return None if locked and action in ("next", "go", "send") else True

    def _lock(self, *, sending: bool) -> None:
        """Nothing can be changed: it is being sent, or it is done."""
        self.sending = sending
        self.query_one("#fields").disabled = True
        self.refresh_bindings()

    def _unlock(self) -> None:
        self.sending = False
        self.query_one("#fields").disabled = False
        if self._focus_as_sent is not None:
            self.set_focus(self._focus_as_sent)
        if isinstance(self._focus_as_sent, Input):  # which selects all its text: the cursor was where it was
            self._focus_as_sent.call_later(setattr, self._focus_as_sent, "selection", self._selection_as_sent)
        self.refresh_bindings()

    @work(group="form", exclusive=True, exit_on_error=False)
    async def _send(self, typed: Mapping[str, str]) -> None:
        self.post_message(await self.submission.send(typed, self.post_message))

    # ------------------------------------------------------------------ leaving

    def action_cancel(self) -> None:
        if self.sending and not self.submission.on_its_way:
            self.workers.cancel_group(self, "form")
            self._unlock()
            self._note("Nothing was sent.")
        elif self.sending:
            self._ask_to_leave(_LEAVE_ON_ITS_WAY)
        elif self._done is not None:
            self.dismiss(self._done)
        elif self.submission.unanswered:
            self._ask_to_leave(_LEAVE_UNANSWERED)
        elif self.typed() != self._typed_at_first:
            self._ask_to_leave(_DISCARD)
        else:
            self.dismiss(None)

    def _ask_to_leave(self, question: str) -> None:
        self._question = DiscardScreen(question)
        self.app.push_screen(self._question, self._leave_answered)

    def _leave_answered(self, leave: bool | None) -> None:
        self._question = None
        if leave:
            if self.submission.unanswered or (self.sending and self.submission.on_its_way):
                self.notify(_LOOK_FIRST, severity="warning")
            self.dismiss(None)

    def _answered(self) -> None:
        """Whether to leave without the answer is no question any more."""
        if self._question is not None:
            self._question.dismiss(False)

    # ------------------------------------------------------------------ the answer

    @hears(FormSent)
    def sent(self, message: FormSent) -> None:
        # A secret is taken out of the record at once: it is shown in one dialog and kept nowhere.
        record = dict(message.record)
        secret = record.pop(self._form.shows_once, None) if self._form.shows_once else None
        self.dismiss(
            Created(
                record,
                f"{self._form.done} {literal(record.get('id'))}",
                secret if isinstance(secret, str) else None,
                edited=self._form.method == "PATCH",
            )
        )

    @hears(FormOnItsWay)
    def tell_whether_it_left(self, message: FormOnItsWay) -> None:
        if self.sending:
            self._note(
                "Sending…" if message.on_its_way else "The rate limit holds it back; esc takes it back."
            )

    @hears(FormWasSentBefore)
    def sent_before(self, message: FormWasSentBefore) -> None:
        """An earlier try went through. It stays to be read where that is not all there is to say."""
        done = f"Already done: {literal(message.original or 'an earlier try went through')}"
        told = [message.otherwise] if message.otherwise else []
        if self._form.shows_once:
            told.append(f"Nobody has seen its {self._form.shows_once}: roll it to get another.")
        self._done = Created(None, done)
        if not told:
            self.dismiss(self._done)
            return
        self._answered()
        self._lock(sending=False)
        self._note(f"✕ {done}. {' '.join(told)}", "bold $error")

    @hears(FormUnanswered)
    def unanswered(self, message: FormUnanswered) -> None:
        self._answered()
        self._unlock()
        self._note(f"✕ {message.sentence} Sending again is safe: it cannot be done twice.", "bold $error")

    @hears(FormRefused)
    def refused(self, message: FormRefused) -> None:
        self._answered()
        self._unlock()
        self._show_errors(message.errors)
        general = message.errors.get("")
        self._note(f"✕ {general}" if general else "", "bold $error")
        named = [field.name for field in self._form.fields if field.name in message.errors]
        if named:
            self._focus_field(named[0])

    @on(Input.Changed)
    def text_changed(self, event: Input.Changed) -> None:
        self.post_message(FieldChanged(event.input.id))

    @hears(FieldChanged)
    def field_changed(self, message: FieldChanged) -> None:
        """What was said of a field was said of what was sent, and goes when something else stands there."""
        message.stop()
        for field in self._form.fields:
            as_sent = self._typed_as_sent.get(field.name)
            if message.entry == f"field-{field.name}" and self._value(field) != as_sent:
                self._show_error(field, "")

    def _show_errors(self, errors: Mapping[str, str]) -> None:
        for field in self._form.fields:
            self._show_error(field, errors.get(field.name, ""))

    def _show_error(self, field: Field, text: str) -> None:
        line = self.query_one(f"#error-{field.name}", Static)
        line.update(Content.styled(f"✕ {text}" if text else "", "bold $error"))
        line.display = bool(text)
