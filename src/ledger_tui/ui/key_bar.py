"""The line of active keys: as many as fit, at most seven; `?` shows the rest."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

from textual import events
from textual.binding import Binding
from textual.content import Content
from textual.dom import DOMNode
from textual.widget import Widget

from ledger_tui.ui.keys import MOST_KEYS_IN_BAR, importance

_GAP = "   "


@runtime_checkable
class NamesItsKeys(Protocol):
    """A widget whose keys have descriptions that change."""

    def key_text(self, binding: Binding) -> str:
        """Return the description of a key as it is now."""


class _Shown(NamedTuple):
    """One key of the bar: the text, its rank, and what a click on it runs."""

    text: Content
    rank: tuple[bool, int]  # the highest is left out first
    action: str
    node: DOMNode
    enabled: bool


class KeyBar(Widget):
    """One line made from the bindings that are active at the focused widget. A click presses the key."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: list[_Shown] = []

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _screen: self.refresh())

    def render(self) -> Content:
        shown: dict[str, _Shown] = {}
        for node, binding, enabled, _tip in self.screen.active_bindings.values():
            if not binding.show or binding.action in shown:
                continue
            key = self.app.get_key_display(binding)
            caption = node.key_text(binding) if isinstance(node, NamesItsKeys) else binding.description
            style = "bold $accent" if enabled else "$faint"
            text = "$muted" if enabled else "$faint"
            drawn = Content.assemble((key, style), (f" {caption}", text))
            # Disabled keys are left out first, then the least important.
            rank = (not enabled, importance(binding.action))
            shown[binding.action] = _Shown(drawn, rank, binding.action, node, enabled)
        while len(shown) > MOST_KEYS_IN_BAR or (len(shown) > 1 and self._width(shown) > self.size.width):
            del shown[max(reversed(shown), key=lambda action: shown[action].rank)]
        self._shown = [*shown.values()]
        return Content(_GAP).join([each.text for each in self._shown])

    def on_click(self, event: events.Click) -> None:
        left = self.styles.padding.left
        for each in self._shown:
            right = left + each.text.cell_length
            if left <= event.x < right:
                if each.enabled:
                    self.screen.call_later(self.app.run_action, each.action, each.node)
                return
            left = right + len(_GAP)

    @staticmethod
    def _width(shown: dict[str, _Shown]) -> int:
        return sum(each.text.cell_length for each in shown.values()) + len(_GAP) * (len(shown) - 1)
