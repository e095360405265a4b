"""The line of active keys: as many as fit, at most seven; `?` shows the rest."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from textual.binding import Binding
from textual.content import Content
from textual.widget import Widget

from ledger_tui.actions import MOST_KEYS_IN_BAR, importance

_GAP = "   "


@runtime_checkable
class NamesItsKeys(Protocol):
    """A widget whose keys have descriptions that change."""

    def key_text(self, binding: Binding) -> str:
        """Return the description of a key as it is now."""


class KeyBar(Widget):
    """One line made from the bindings that are active at the focused widget."""

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _screen: self.refresh())

    def render(self) -> Content:
        shown: dict[str, Content] = {}
        ranks: dict[str, tuple[bool, int]] = {}
        for node, binding, enabled, _tip in self.screen.active_bindings.values():
            if not binding.show or binding.action in shown:
                continue
            key = self.app.get_key_display(binding)
            caption = node.key_text(binding) if isinstance(node, NamesItsKeys) else binding.description
            style = "bold $accent" if enabled else "$faint"
            text = "$muted" if enabled else "$faint"
            shown[binding.action] = Content.assemble((key, style), (f" {caption}", text))
            # Disabled keys are left out first, then the least important.
            ranks[binding.action] = (not enabled, importance(binding.action))
        while len(shown) > MOST_KEYS_IN_BAR or (len(shown) > 1 and self._width(shown) > self.size.width):
            del shown[max(reversed(shown), key=ranks.__getitem__)]
        return Content(_GAP).join([*shown.values()])

    @staticmethod
    def _width(shown: dict[str, Content]) -> int:
        return sum(text.cell_length for text in shown.values()) + len(_GAP) * (len(shown) - 1)
