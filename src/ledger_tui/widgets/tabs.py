"""The screens and their keys on one line; short names where the room is short."""

from __future__ import annotations

from textual import events
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from ledger_tui.resources.base import Resource
from ledger_tui.resources.registry import RESOURCES


class ScreenTabs(Widget):
    """Which screen this is, and which key leads to each other one."""

    shown: reactive[str] = reactive("")

    def render(self) -> Content:
        line = self._line(short=False)
        return line if line.cell_length <= self.size.width else self._line(short=True)

    def on_click(self, event: events.Click) -> None:
        end = 0
        for resource, tab in zip(RESOURCES, self._tabs, strict=True):
            end += tab.cell_length
            if event.x < end:
                self.screen.call_later(self.screen.run_action, f"show({resource.kind!r})")
                return

    def _line(self, *, short: bool) -> Content:
        self._tabs = [self._tab(resource, short) for resource in RESOURCES]
        return Content("").join(self._tabs)

    def _tab(self, resource: Resource, short: bool) -> Content:
        here = resource.kind == self.shown
        name = resource.short if short and not here else resource.title
        return Content.assemble(
            (f" {resource.key} ", "bold $tab-text on $tab" if here else "bold $accent"),
            (f"{name} ", "bold $tab-text on $tab" if here else "$muted"),
        )
