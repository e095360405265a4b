"""The help: all keys that are active where it was opened, from the bindings themselves."""

from __future__ import annotations

from collections.abc import Mapping

from textual import on
from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static

from ledger_tui.ui.dialogs import Dialog

_KEY_WIDTH = 14


class HelpScreen(Dialog[None]):
    """`/` searches: only keys whose description or name has the typed text are shown."""

    BINDINGS = [
        Binding("escape,question_mark,q", "dismiss", "close", show=True),
        Binding("slash", "search", "search", show=True),
    ]

    def __init__(self, bindings: Mapping[str, ActiveBinding]) -> None:
        super().__init__()
        self._active = bindings

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="help", classes="dialog") as box:
            box.border_title = "Keys"
            box.border_subtitle = "esc closes, / searches"
            line = Input(compact=True, placeholder="part of a key's description")
            line.display = False
            yield line
            yield Static(self._lines())

    def action_search(self) -> None:
        line = self.query_one(Input)
        line.display = True
        line.focus()

    @on(Input.Changed)
    def search(self, event: Input.Changed) -> None:
        self.query_one(Static).update(self._lines(event.value.strip().casefold()))

    def _lines(self, wanted: str = "") -> Content:
        keys: dict[tuple[str, str, bool], list[str]] = {}
        # The palette first, in which all other actions can be found. It is Textual's own, as are the bindings
        # without an id, which are left out.
        for active in sorted(self._active.values(), key=lambda each: not _is_palette(each.binding)):
            binding = active.binding
            if binding.id or _is_palette(binding):
                key = (binding.action, binding.description, active.enabled)
                keys.setdefault(key, []).append(self.app.get_key_display(binding))
        lines = []
        for (_action, description, enabled), names in keys.items():
            shown = " ".join(dict.fromkeys(names)).rjust(_KEY_WIDTH)
            if wanted not in f"{shown} {description}".casefold():
                continue
            # Disabled keys are faint, as in the key bar.
            style, text = ("bold $accent", "$foreground") if enabled else ("$faint", "$faint")
            lines.append(Content.assemble((shown, style), (f"  {description}", text)))
        return Content("\n").join(lines)


def _is_palette(binding: Binding) -> bool:
    return binding.action.endswith("command_palette")
