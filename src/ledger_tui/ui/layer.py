"""The base class of all screens. Any screen may lie behind a dialog, and stays visible around the dialog."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.screen import Screen, ScreenResultType


class Layer(Screen[ScreenResultType]):
    """A screen that stays up to date while it lies behind a dialog."""

    is_question = False  # if True, repeats of the key that answers must not act on the next screen

    def is_too_early(self, event: events.Key | events.Paste) -> bool:
        """Whether the key or the pasted text confirms a question, and came before the question was drawn."""
        return False

    def drop_early(self) -> None:
        """Tell the user that a key came too early."""

    @property
    def first_actions(self) -> Sequence[str]:
        """The actions that come before all others in the key bar."""
        return ()

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        event.refresh_styles = False  # the widgets already got their styles when they were mounted

    def _compositor_refresh(self) -> None:
        """Draw the changes; behind a dialog, make the dialog draw them.

        Textual's own method also marks a screen behind a dialog for another drawing. The next frame finds the
        mark and sets it again, so one change would be drawn in every frame for ever.
        """
        if self is self.app.screen:
            super()._compositor_refresh()
            return
        regions = self._compositor._dirty_regions
        if regions and self.is_current:
            self.app.screen.refresh(*regions)
        regions.clear()
        self._dirty_widgets.clear()
