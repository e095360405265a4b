"""The names that a form's pickers know: users are read when it opens, others while they are typed."""

from __future__ import annotations

from contextlib import suppress

from textual import work

from ledger_tui.client.errors import ClientError
from ledger_tui.handlers import handles, while_running
from ledger_tui.messages import Created, NamesLoaded
from ledger_tui.resources.base import Form
from ledger_tui.screens.dialog import Dialog
from ledger_tui.screens.submission import Submission
from ledger_tui.widgets.picker_field import PickerField

_TYPING_SECONDS = 0.3  # after the last key, a name that is not known is looked for


class FormNames(Dialog[Created | None]):
    """The part of a form that reads names. What cannot be read can still be given by its id."""

    submission: Submission
    _form: Form
    _looked_for: frozenset[str] = frozenset()  # parts of names for which the server was asked

    def read_names(self) -> None:
        """Read the newest users if the form has a field for one."""
        if any(field.kind == "user" for field in self._form.fields):
            self._learn_users()

    @work(group="names", exit_on_error=False)
    async def _learn_users(self) -> None:
        with suppress(ClientError):
            if await self.submission.learn_users():
                self.post_message(NamesLoaded())

    def focused_picker(self) -> PickerField | None:
        return next((picker for picker in self.query(PickerField) if picker.has_focus_within), None)

    def look_for_typed(self) -> None:
        """Look for what is typed in a picker, unless more is typed at once."""
        self.set_timer(_TYPING_SECONDS, self._look_for_names)

    @while_running
    def _look_for_names(self) -> None:
        picker = self.focused_picker()
        wanted = picker.looks_for if picker is not None else ""
        if picker is not None and wanted and wanted not in self._looked_for:
            self._looked_for |= {wanted}
            users = [f"field-{field.name}" for field in self._form.fields if field.kind == "user"]
            self._learn_names(wanted, users=picker.id in users)

    @work(group="names", exclusive=True, exit_on_error=False)
    async def _learn_names(self, name: str, *, users: bool) -> None:
        with suppress(ClientError):
            if await self.submission.learn_named(name, users=users):
                self.post_message(NamesLoaded())

    @handles(NamesLoaded)
    def names_loaded(self) -> None:
        for picker in self.query(PickerField):
            picker.directory_changed()
