"""A dialog for a secret that the server returns once. It can be copied and is stored nowhere."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from ledger_tui.screens.dialog import Dialog
from ledger_tui.state.text import literal
from ledger_tui.widgets.key_bar import KeyBar


class ShownOnceScreen(Dialog[None]):
    """Only `esc` closes it, so that no accidental key, such as enter, loses the secret."""

    BINDINGS = [
        Binding("y", "copy", "copy", show=True),
        Binding("escape", "close", "I have it", show=True),
    ]

    def __init__(self, sentence: str, secret: str, note: str = "") -> None:
        super().__init__()
        self._sentence = sentence
        self._secret = secret
        self._note = note

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog", id="shown-once") as box:
            box.border_title = "Shown once"
            yield Static(Content(self._sentence))
            yield Static(Content.styled(f"\n{literal(self._secret)}\n", "bold $accent"))
            advice = "Store it now: it cannot be shown again. Keep it on a server, never in public code."
            yield Static(Content.styled(f"{self._note}\n{advice}".strip() + "\n", "$muted"))
            yield KeyBar()

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self._secret)
        self.notify("Copied; it is on your clipboard until you copy something else")

    def action_close(self) -> None:
        self.dismiss(None)
