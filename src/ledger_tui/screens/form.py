"""A new object, typed in. What the server says against a field stands under that field."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from urllib.parse import quote

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Static

from ledger_tui.client.api import Api, new_idempotency_key
from ledger_tui.client.errors import AlreadyDone, ClientError, NotFound, Refusal, Unreachable
from ledger_tui.hearing import hears
from ledger_tui.messages import Created, FieldChanged, FormRefused, FormSent, FormWasSentBefore
from ledger_tui.resources.base import Field, Form, Resource
from ledger_tui.resources.forms import FieldErrors, body_of, changes_of
from ledger_tui.state.names import AccountNames
from ledger_tui.state.session import Mode, Session
from ledger_tui.state.text import literal
from ledger_tui.widgets.account_field import AccountField
from ledger_tui.widgets.choice_field import ChoiceField
from ledger_tui.widgets.key_bar import KeyBar

_NO_ACCOUNT = "There is no such account. Type part of its name."


class DiscardScreen(ModalScreen[bool]):
    """Asks before what was typed is thrown away: True on a second esc, False on any other key."""

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog", id="discard"):
            yield Static("Discard what you typed?  esc again / any other key to go on")

    def on_key(self, event: events.Key) -> None:
        event.stop()
        self.dismiss(event.key == "escape")


class FormScreen(ModalScreen[Created | None]):
    """One opening is one intent, with one idempotency key: trying again cannot do it twice."""

    # With priority, and each waits until the keys before it are in their field: however fast they come
    # (a slow line delivers them in bunches), a key never overtakes another.
    BINDINGS = [
        Binding("enter", "next", "next", show=True, priority=True),
        Binding("tab", "go(1)", "next field", show=False, priority=True),
        Binding("shift+tab", "go(-1)", "previous field", show=False, priority=True),
        Binding("ctrl+s", "send", "send", show=True, priority=True),
        Binding("escape", "cancel", "cancel", show=True),
    ]

    def __init__(
        self,
        resource: Resource,
        form: Form,
        prefill: Mapping[str, str],
        api: Api,
        session: Session,
        names: AccountNames,
    ) -> None:
        super().__init__()
        self._resource = resource
        self._form = form
        self._prefill = prefill
        self._api = api
        self._session = session
        self._names = names
        self.idempotency_key = new_idempotency_key()
        self.sending = False
        self._typed_at_first: dict[str, str] = {}

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

    async def action_next(self) -> None:
        """Enter takes the account offered, else goes on; in the last field it sends."""
        await self._keys_are_in()
        entry = self._focused_entry()
        if isinstance(entry, AccountField) and entry.take_offered():
            self.focus_next()
        elif entry is not None and entry.id == f"field-{self._form.fields[-1].name}":
            await self.action_send()
        else:
            self.focus_next()

    async def action_go(self, step: int) -> None:
        await self._keys_are_in()
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

    async def _keys_are_in(self) -> None:
        """Wait until the focused entry has taken in every key that was pressed before this one."""
        if self.focused is not None:
            taken_in = asyncio.Event()
            if self.focused.call_later(taken_in.set):
                await taken_in.wait()

    async def action_send(self) -> None:
        await self._keys_are_in()
        if self.sending:
            return
        self.sending = True
        for entry in self.query(AccountField):
            entry.take_only()
        self._show_errors({})
        self._note("Sending…")
        self._send(self.typed())

    def action_cancel(self) -> None:
        if self.sending or self.typed() == self._typed_at_first:
            self.dismiss(None)
        else:
            self.app.push_screen(DiscardScreen(), self._discard_answered)

    def _discard_answered(self, discard: bool | None) -> None:
        if discard:
            self.dismiss(None)

    @work(group="form", exclusive=True, exit_on_error=False)
    async def _send(self, typed: Mapping[str, str]) -> None:
        try:
            currency = await self._currency(typed)
            if self._form.method == "PATCH":
                body, key = changes_of(self._form, typed, self._prefill, currency), None
            else:
                body, key = body_of(self._form, typed, currency), self.idempotency_key
            answer = await self._api.write(self._form.method, self._form.path, body, key)
        except FieldErrors as error:
            self.post_message(FormRefused(error.errors))
        except AlreadyDone as error:
            self.post_message(FormWasSentBefore(error.original))
        except Unreachable as error:
            again = f"No answer ({literal(error)}). Sending again is safe: it cannot be done twice."
            self.post_message(FormRefused({"": again}))
        except Refusal as error:
            self.post_message(FormRefused({self._field_of(error.param): literal(error)}))
        except ClientError as error:
            self.post_message(FormRefused({"": literal(error)}))
        else:
            self.post_message(FormSent(answer.record))

    async def _currency(self, typed: Mapping[str, str]) -> str | None:
        """The currency of the form's account, asked for if not known. Raises FieldErrors for no account."""
        if not any(field.kind == "amount" for field in self._form.fields):
            return None
        account_id = typed.get("account", "").strip()
        if not account_id:
            return None
        if self._names.get(account_id) is None:
            try:
                answer = await self._api.read(f"/v1/accounts/{quote(account_id, safe='')}")
            except NotFound:
                several = self._names.search(account_id)
                said = "Several have that in their name: choose one." if several else _NO_ACCOUNT
                raise FieldErrors({"account": said}) from None
            self._names.learn([answer.record])
        return self._names.currency(account_id)

    def _field_of(self, param: str | None) -> str:
        """The field a server's `param` is about; a dotted path is about its first part."""
        name = (param or "").partition(".")[0]
        return name if any(field.name == name for field in self._form.fields) else ""

    @hears(FormSent)
    def sent(self, message: FormSent) -> None:
        # A secret is taken out of the record at once: it is shown in one dialog and kept nowhere.
        record = dict(message.record)
        secret = record.pop(self._form.shows_once, None) if self._form.shows_once else None
        record_id = record.get("id")
        shown = literal(record_id) if isinstance(record_id, str) else self._resource.singular
        self.dismiss(
            Created(
                record if isinstance(record_id, str) else None,
                f"{self._form.done} {shown}",
                secret if isinstance(secret, str) else None,
                edited=self._form.method == "PATCH",
            )
        )

    @hears(FormWasSentBefore)
    def sent_before(self, message: FormWasSentBefore) -> None:
        original = literal(message.original) if message.original else "an earlier try went through"
        self.dismiss(Created(None, f"Already done: {original}"))

    @hears(FormRefused)
    def refused(self, message: FormRefused) -> None:
        self.sending = False
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
        """What was said of a field was said of what stood there before."""
        message.stop()
        for field in self._form.fields:
            if message.entry == f"field-{field.name}":
                self._show_error(field, "")

    def _show_errors(self, errors: Mapping[str, str]) -> None:
        for field in self._form.fields:
            self._show_error(field, errors.get(field.name, ""))

    def _show_error(self, field: Field, text: str) -> None:
        line = self.query_one(f"#error-{field.name}", Static)
        line.update(Content.styled(f"✕ {text}" if text else "", "bold $error"))
        line.display = bool(text)
