"""The object that a form edits, and the changes that other people make to the object at the same time.

Before the form sends its change, it reads the object again, and shows the fields that other people have
changed since the form was opened. Then it sends its change with the ETag of this read, so that the server
refuses the change if somebody has changed the object after the read (docs/decisions.md#invoices). If the
server sends no ETag, the form does not notice a change between the read and its own request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.widgets import Static

from ledger_client.errors import NotFound, PermissionDenied
from ledger_tui.client.api import Api
from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record
from ledger_tui.client.session import Mode
from ledger_tui.formats.text import fit, literal
from ledger_tui.resources.base import Field, Form, Resource
from ledger_tui.resources.invoices import load_lines
from ledger_tui.ui.dialogs import Dialog


class OtherChanges(NamedTuple):
    """Changes by other people: the fields that they have changed.

    `before` holds the values that the form knew, and `now` holds the object's present values, both by the
    name of the field.
    """

    fields: Sequence[Field]
    before: Mapping[str, str]
    now: Mapping[str, str]


class EditedObject:
    """The object that a form edits.

    `values` are the object's values when the form was opened, or the newer values that the user has accepted.
    The form sends only the fields that the user has changed from these values.
    """

    def __init__(
        self, resource: Resource, form: Form, values: Mapping[str, str], api: Api, names: AccountNames
    ) -> None:
        self._resource = resource
        self._form = form
        self.values = values
        self.etag: str | None = None
        self.record: Record = {}  # the object as last read
        self._api = api
        self._names = names

    async def find_other_changes(self, typed: Mapping[str, str]) -> OtherChanges | None:
        """Read the object, and return the changes of other people to the form's fields.

        Return None if there are no such changes. A field whose new value equals the typed value does not
        count. Raises LedgerError.
        """
        self.etag = None
        try:
            answer = await self._api.read(self._form.path)
        # Skip the check. If the object is gone, the answer to the change will report this. And a credential
        # that is not allowed to read may still be allowed to write.
        except (NotFound, PermissionDenied):
            return None
        self.etag, self.record = answer.headers.get("ETag"), answer.record
        form = self._resource.edit(answer.record, self._names)
        if form is None:
            return None
        now = form.prefill(answer.record, {})
        fields = [each for each in self._form.fields if self._differs(each.name, now, typed)]
        if fields:
            return OtherChanges(fields, self.values, now)
        self.values = now
        return None

    def _differs(self, name: str, now: Mapping[str, str], typed: Mapping[str, str]) -> bool:
        is_now = now.get(name, "").strip()
        return is_now not in (self.values.get(name, "").strip(), typed.get(name, "").strip())

    def accept(self, changed: OtherChanges) -> None:
        """From now on compare with the object's present values, because the user has seen the changes."""
        self.values = changed.now


_LABEL_WIDTH = 12
_VALUE_WIDTH = 28


class ChangedScreen(Dialog[bool | None]):
    """Shows the changes of other people.

    Returns True to overwrite the changes, False to take them into the form, None to do nothing.
    """

    is_question = True

    BINDINGS = [
        Binding("o", "dismiss(True)", "overwrite", show=True),
        Binding("k", "dismiss(False)", "keep their values", show=True),
        Binding("escape", "dismiss(None)", "back to the form", show=True),
    ]

    def __init__(
        self, other_changes: OtherChanges, values: Mapping[str, str], names: AccountNames, mode: Mode
    ) -> None:
        super().__init__("changed", "Changed by somebody else", mode)
        self._other_changes = other_changes
        self._values = values
        self._names = names

    def content(self) -> ComposeResult:
        yield Static("Somebody has changed this since you opened it. Nothing was sent.\n")
        for field in self._other_changes.fields:
            values = (self._other_changes.before, self._other_changes.now, self._values)
            was, now, yours = (self._in_words(field, each.get(field.name, "")) for each in values)
            yours = "" if yours == was else f"   yours: {yours}"
            yield Static(
                Content.assemble((fit(field.label, _LABEL_WIDTH), "$muted"), was, " → ", (now, "bold"), yours)
            )
        yield Static("\nOverwrite it with your values, or keep theirs and go on editing?")

        self.notes.display = False
        yield self.notes

    @property
    def answers(self) -> str:
        return "Press o to overwrite, k to keep their values."

    def _in_words(self, field: Field, value: str) -> str:
        """Return a field's value as people read it, such as an account's name; "–" for an empty value."""
        if field.kind == "account" and (account := self._names.get(value)):
            value = account.name
        elif field.kind == "lines":
            value = "; ".join(
                f"{row.quantity} × {row.description}" for row in load_lines(value) if not row.blank
            )
        text = literal(value) or "–"
        return fit(text, _VALUE_WIDTH).rstrip()
