"""The base class of all dialogs."""

from __future__ import annotations

from textual import events
from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen, ScreenResultType


class Dialog(ModalScreen[ScreenResultType]):
    """A dialog that can be closed only once: a second click or a late answer has no effect."""

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        event.refresh_styles = False  # its widgets got their styles when they were mounted

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        if self not in self.app.screen_stack:
            return AwaitComplete()
        while self.app.screen is not self:  # dialogs opened over it close with it
            self.app.pop_screen()
        return super().dismiss(result)
