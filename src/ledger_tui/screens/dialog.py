"""What all dialogs share: each is closed once."""

from __future__ import annotations

from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen, ScreenResultType


class Dialog(ModalScreen[ScreenResultType]):
    """A dialog that is closed stays closed: a second click or a late answer finds nothing to close."""

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        if self not in self.app.screen_stack:
            return AwaitComplete()
        while self.app.screen is not self:  # what was opened over it goes with it
            self.app.pop_screen()
        return super().dismiss(result)
