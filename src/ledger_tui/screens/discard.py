"""A dialog that asks before what the user typed is discarded."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from ledger_tui.screens.dialog import Dialog


class DiscardScreen(Dialog[bool]):
    """Returns True on a second esc, False on any other key."""

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog", id="discard"):
            yield Static(Content(f"{self._question}  esc again / any other key to go on"))

    def on_key(self, event: events.Key) -> None:
        event.stop()
        self.dismiss(event.key == "escape")
