"""The screens and their keys on one line, with short names where it is narrow."""

from __future__ import annotations

from textual import events
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from ledger_tui.resources.base import Place
from ledger_tui.resources.registry import PLACES


class ScreenTabs(Widget):
    """The tabs: the current screen, and the key of each other one."""

    shown: reactive[str] = reactive("")

    def render(self) -> Content:
        for tight in range(3):
            line = self._line(tight)
            if line.cell_length <= self.size.width:
                break
        return line

    def on_click(self, event: events.Click) -> None:
        end = 0
        for place, tab in zip(PLACES, self._tabs, strict=True):
            end += tab.cell_length
            if event.x < end:
                self.screen.call_later(self.screen.run_action, f"show({place.kind!r})")
                return

    def _line(self, tight: int) -> Content:
        """Return the tabs with full names (0), with the current screen's only (1), or short and dense (2)."""
        self._tabs = [self._tab(place, tight) for place in PLACES]
        return Content("").join(self._tabs)

    def _tab(self, place: Place, tight: int) -> Content:
        here = place.kind == self.shown
        name = place.title if tight == 0 or (tight == 1 and here) else place.short
        space = " " if tight < 2 else ""
        return Content.assemble(
            (f"{space}{place.key} ", "bold $tab-text on $tab" if here else "bold $accent"),
            (f"{name} ", "bold $tab-text on $tab" if here else "$muted"),
        )
