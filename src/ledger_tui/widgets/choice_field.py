"""A field with a few values, all visible: the arrows or space change it, a first letter chooses one."""

from __future__ import annotations

from textual import events
from textual.binding import Binding
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from ledger_tui.messages import FieldChanged


class ChoiceField(Widget, can_focus=True):
    BINDINGS = [
        Binding("left,up", "step(-1)", "previous", show=False),
        Binding("right,down,space", "step(1)", "next", show=False),
    ]

    index: reactive[int] = reactive(0)

    def __init__(self, choices: tuple[tuple[str, str], ...], value: str, *, id: str) -> None:
        super().__init__(id=id)
        self._choices = choices
        values = [choice for choice, _text in choices]
        self.set_reactive(ChoiceField.index, values.index(value) if value in values else 0)

    @property
    def value(self) -> str:
        return self._choices[self.index][0]

    def render(self) -> Content:
        parts = []
        for number, (_value, text) in enumerate(self._choices):
            chosen = number == self.index
            parts.append(Content.styled(f"{'●' if chosen else '○'} {text}", "bold" if chosen else "$muted"))
        if self.has_focus:
            letters = " ".join(value[0] for value, _text in self._choices)
            parts.append(Content.styled(f"{letters} or ← →", "$muted"))
        return Content("    ").join(parts)

    def watch_index(self) -> None:
        self.post_message(FieldChanged(self.id))

    def on_key(self, event: events.Key) -> None:
        first = [value[:1] for value, _text in self._choices]
        if event.character and event.character in first:
            event.stop()
            self.index = first.index(event.character)

    def action_step(self, step: int) -> None:
        self.index = (self.index + step) % len(self._choices)

    def on_click(self, _event: events.Click) -> None:
        self.focus()
        self.action_step(1)
