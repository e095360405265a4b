"""The dialog that asks for another API key for the server."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.widgets import Input

from ledger_client.addresses import is_key
from ledger_tui.ui.dialogs import Dialog


class KeyScreen(Dialog[str | None]):
    """A dialog that asks for an API key, hides it while the user types, and returns it."""

    BINDINGS = [Binding("escape", "dismiss", "cancel", show=True)]

    def __init__(self) -> None:
        super().__init__("ask-key", "Another API key for this server")

    def content(self) -> ComposeResult:
        yield Input(password=True, compact=True)
        yield self.notes

    def on_mount(self) -> None:
        self.set_focus(self.query_one(Input))
        self.note("It is used until you quit. :save NAME stores it in a profile.")

    @on(Input.Submitted)
    def take(self, event: Input.Submitted) -> None:
        event.stop()
        key = event.value.strip()
        if is_key(key):
            self.dismiss(key)
        else:
            self.note("The key is empty or contains an invalid character.", problem=True)
