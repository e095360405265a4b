"""All keys that work where the help was called, made from the bindings themselves."""

from __future__ import annotations

from collections.abc import Mapping

from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

_KEY_WIDTH = 14


class HelpScreen(ModalScreen[None]):
    BINDINGS = [Binding("escape,question_mark,q", "dismiss", "close", show=True, key_display="esc")]

    def __init__(self, bindings: Mapping[str, ActiveBinding]) -> None:
        super().__init__()
        self._active = bindings

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="help", classes="dialog") as box:
            box.border_title = "Keys"
            box.border_subtitle = "esc closes"
            yield Static(self._lines())

    def _lines(self) -> Content:
        keys: dict[tuple[str, str], list[str]] = {}
        for active in self._active.values():
            binding = active.binding
            if binding.id:  # ours; those without are Textual's own
                keys.setdefault((binding.action, binding.description), []).append(
                    self.app.get_key_display(binding)
                )
        lines = []
        for (_action, description), names in keys.items():
            shown = " ".join(dict.fromkeys(names))
            lines.append(Content.assemble((shown.rjust(_KEY_WIDTH), "bold $accent"), f"  {description}"))
        return Content("\n").join(lines)
