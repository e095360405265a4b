"""The keys that matter here, as many as fit, at most seven; the rest is behind `?`."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from textual.binding import Binding
from textual.content import Content
from textual.widget import Widget

from ledger_tui.actions import MOST_KEYS_IN_BAR, importance

_GAP = "   "


@runtime_checkable
class NamesItsKeys(Protocol):
    """A part whose keys do something else as things are."""

    def key_text(self, binding: Binding) -> str:
        """Return what the key bar calls a key of this part now."""


class KeyBar(Widget):
    """One line made from the bindings that are active at the focus."""

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
            # What is not possible now goes first, then what matters least.
            ranks[binding.action] = (not enabled, importance(binding.action))
        while len(shown) > MOST_KEYS_IN_BAR or (len(shown) > 1 and self._width(shown) > self.size.width):
            del shown[max(reversed(shown), key=ranks.__getitem__)]
        return Content(_GAP).join([*shown.values()])

    @staticmethod
    def _width(shown: dict[str, Content]) -> int:
        return sum(text.cell_length for text in shown.values()) + len(_GAP) * (len(shown) - 1)
