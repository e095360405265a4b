"""The tabs, and the view class of each screen. The rarer ones are imported when first shown."""

from __future__ import annotations

from importlib import import_module

from textual import events
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from ledger_tui.lists.resource_view import ResourceView
from ledger_tui.resources.base import Place, Resource
from ledger_tui.resources.registry import PLACES
from ledger_tui.ui.view import Context, View


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


_RARER = ("overview.view", "token.view", "events.view", "requests", "trace.view", "test_helpers.view")


def load_rarer_views() -> None:
    """Import the rarer views in advance, off the event loop, once the first screen is drawn."""
    for name in _RARER:
        import_module(f"ledger_tui.features.{name}")


def make_view(place: Place, context: Context) -> View:
    """Return a new view of a screen."""
    if place.kind == "overview":
        from ledger_tui.features.overview.view import Overview

        return Overview(place, context)
    if place.kind == "token":
        from ledger_tui.features.token.view import TokenView

        return TokenView(place, context)
    if place.kind == "trace":
        from ledger_tui.features.trace.view import TraceView

        return TraceView(place, context)
    if place.kind == "test_helpers":
        from ledger_tui.features.test_helpers.view import HelpersView

        return HelpersView(place, context)
    assert isinstance(place, Resource)
    if place.kind == "events":
        from ledger_tui.features.events.view import EventsView

        return EventsView(context)
    if place.kind == "requests":
        from ledger_tui.features.requests import RequestsView

        return RequestsView(context)
    return ResourceView(place, context)
