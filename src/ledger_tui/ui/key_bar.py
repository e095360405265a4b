"""The key bar, a line of the keys that do something now, and the order of these keys by use."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

from textual import events
from textual.binding import Binding
from textual.content import Content
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widget import Widget

from ledger_tui.ui.keys import usefulness
from ledger_tui.ui.layer import Layer

_GAP = "   "
# A bar of at least `_STAYS_FROM` cells always shows these actions, because they lead to everything else. A
# narrower bar shows the first two, or only the help if the screen has actions that come first.
_STAY = ("help", "command_line", "step(")
_STAYS_FROM = 98  # a screen of 100 columns without the padding of the bar
_OPPOSITE = {"move(1)": "move(-1)", "cursor_down": "cursor_up"}  # the bar shows these two keys as one


def by_use(screen: Screen[Any]) -> list[tuple[DOMNode, Binding]]:
    """Return one binding for each action that is possible now, the most useful action first."""
    first = [*screen.first_actions] if isinstance(screen, Layer) else []
    possible: dict[str, tuple[DOMNode, Binding]] = {}
    for active in screen.active_bindings.values():
        if active.enabled:
            possible.setdefault(active.binding.action, (active.node, active.binding))

    def place(action: str) -> tuple[int, int]:
        return first.index(action) if action in first else len(first), usefulness(action)

    return sorted(possible.values(), key=lambda each: place(each[1].action))


@runtime_checkable
class NamesItsKeys(Protocol):
    """A widget that changes the descriptions of its keys."""

    def key_text(self, binding: Binding) -> str:
        """Return the description of a key as it is now."""


def caption(node: DOMNode, binding: Binding) -> str:
    """Return the description that a key of a widget has now."""
    return node.key_text(binding) if isinstance(node, NamesItsKeys) else binding.description


class _BarKey(NamedTuple):
    """One key of the bar: its text, and the action of a click on it."""

    key: str
    caption: str
    action: str
    node: DOMNode

    @property
    def text(self) -> Content:
        # A caption after the key of the command line is a command to type, and not a description.
        style = "italic" if self.action == "command_line" else "$muted"
        return Content.assemble((self.key, "bold $accent"), (f" {self.caption}", style))

    @property
    def width(self) -> int:
        """The number of cells of the text and the gap after the text."""
        return self.text.cell_length + len(_GAP)


class KeyBar(Widget):
    """A line of the keys that do something now, the most useful first. A click on a key presses the key.

    If the line is too narrow, it leaves out the last keys, but never the key of the help.
    """

    def __init__(self) -> None:
        super().__init__()
        self._keys: list[_BarKey] = []

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _screen: self.refresh())

    def render(self) -> Content:
        bindings = [each for each in by_use(self.screen) if each[1].show]
        has_first = isinstance(self.screen, Layer) and bool(self.screen.first_actions)
        stay = _STAY if self.size.width >= _STAYS_FROM else _STAY[: 1 if has_first else 2]
        keys = {each: self._bar_key(*each) for each in bindings if each[1].action.startswith(stay)}
        room = self.size.width + len(_GAP) - sum(each.width for each in keys.values())
        for each in bindings:
            if each not in keys:
                shown = self._bar_key(*each)
                room -= shown.width
                if room < 0:
                    break
                keys[each] = shown
        self._keys = [keys[each] for each in bindings if each in keys]
        return Content(_GAP).join([each.text for each in self._keys])

    def _bar_key(self, node: DOMNode, binding: Binding) -> _BarKey:
        key, text = self.app.get_key_display(binding), caption(node, binding)
        if opposite := _OPPOSITE.get(binding.action):
            bindings = [active.binding for active in self.screen.active_bindings.values()]
            up = next((each for each in bindings if each.action == opposite), None)
            key = f"{self.app.get_key_display(up)}{key}" if up is not None else key
        return _BarKey(key, text, binding.action, node)

    def on_click(self, event: events.Click) -> None:
        left = self.styles.padding.left
        for each in self._keys:
            right = left + each.text.cell_length
            if left <= event.x < right:
                self.screen.call_later(self.app.run_action, each.action, each.node)
                return
            left = right + len(_GAP)
