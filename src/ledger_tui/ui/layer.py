"""The base class of all screens. Any screen may lie behind a dialog, and stays visible around the dialog."""

from __future__ import annotations

from textual import events
from textual.geometry import Region
from textual.screen import Screen, ScreenResultType

from ledger_tui.ui.handlers import while_running

_BEHIND_SECONDS = 1.0


class Layer(Screen[ScreenResultType]):
    """A screen that is drawn at most once a second while it lies behind a dialog."""

    _changed_behind: frozenset[Region] = frozenset()

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        event.refresh_styles = False  # the widgets already got their styles when they were mounted

    def _compositor_refresh(self) -> None:
        """Draw what has changed; behind a dialog, collect it until `_draw_behind`.

        Textual's own method makes the dialog draw each change at once, and also marks this screen for another
        drawing. The next frame finds the mark and sets it again, so one change would be drawn in every frame
        for ever. Small changes also cost more behind a dialog, because the dialog draws each changed line
        from its beginning.
        """
        if self is self.app.screen:
            super()._compositor_refresh()
            return
        regions = self._compositor._dirty_regions
        if regions and not self._changed_behind:
            self.set_timer(_BEHIND_SECONDS, self._draw_behind)
        self._changed_behind |= regions
        regions.clear()
        self._dirty_widgets.clear()

    @while_running
    def _draw_behind(self) -> None:
        """Make the dialog on top draw the collected changes of this screen."""
        regions, self._changed_behind = self._changed_behind, frozenset()
        if self is not self.app.screen and self.is_current:
            self.app.screen.refresh(*regions)
