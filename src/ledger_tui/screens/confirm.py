"""A dialog that asks for confirmation of what cannot be undone.

In live mode the user types the object's id, or the amount.
"""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from ledger_tui.screens.dialog import Dialog
from ledger_tui.state.session import Mode
from ledger_tui.widgets.key_bar import KeyBar


class ConfirmScreen(Dialog[bool]):
    """Returns True when confirmed. `typed` is the text to type first; with None, pressing `y` is enough."""

    BINDINGS = [
        Binding("y", "yes", "yes", show=True),
        Binding("escape,n", "no", "no", show=True),
    ]

    def __init__(self, question: str, typed: str | None, mode: Mode, *, what: str = "id") -> None:
        super().__init__()
        self._mode = mode
        self._question = question
        self._typed = typed
        self._what = what  # names what is to be typed

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog", id="confirm") as box:
            box.border_title = "◆ LIVE · Are you sure?" if self._mode is Mode.LIVE else "Are you sure?"
            yield Static(Content(self._question))
            if self._typed is not None:
                yield Static(
                    Content.assemble("\nType ", (self._typed, "bold"), " to confirm, then press enter.")
                )
                yield Input(compact=True)
                yield Static(id="confirm-note")
            yield KeyBar()

    def on_mount(self) -> None:
        self.set_class(self._mode is Mode.LIVE, "-live")

    def check_action(self, action: str, _parameters: tuple[object, ...]) -> bool | None:
        return action != "yes" or self._typed is None

    @on(Input.Submitted)
    def compare(self, event: Input.Submitted) -> None:
        if event.value.strip() == self._typed:
            self.dismiss(True)
        else:
            self.query_one("#confirm-note", Static).update(
                Content.styled(f"✕ This is not the {self._what}.", "bold $error")
            )

    def action_yes(self) -> None:
        self.dismiss(True)

    def action_no(self) -> None:
        self.dismiss(False)
