"""The keys that matter here, at most seven; the rest is behind `?`."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from ledger_tui.actions import MOST_KEYS_IN_BAR


class KeyBar(Widget):
    """One line made from the bindings that are active at the focus."""

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _screen: self.refresh())

    def render(self) -> Content:
        shown: dict[str, Content] = {}
        for _node, binding, enabled, _tip in self.screen.active_bindings.values():
            if not binding.show or binding.action in shown:
                continue
            key = self.app.get_key_display(binding)
            style = "bold $accent" if enabled else "$faint"
            text = "$muted" if enabled else "$faint"
            shown[binding.action] = Content.assemble((key, style), (f" {binding.description}", text))
        if len(shown) > MOST_KEYS_IN_BAR and "help" in shown:  # the way to the others is never left out
            keys = [text for action, text in shown.items() if action != "help"]
            return Content("   ").join([*keys[: MOST_KEYS_IN_BAR - 1], shown["help"]])
        return Content("   ").join(list(shown.values())[:MOST_KEYS_IN_BAR])
