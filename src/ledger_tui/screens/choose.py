"""A dialog to choose one line of a short list, such as an id to jump to or a theme."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from ledger_tui.screens.dialog import Dialog
from ledger_tui.widgets.key_bar import KeyBar


class ChooseScreen(Dialog[int | None]):
    """Returns the chosen line's number or None. `preview` is called with the number of a highlighted line."""

    BINDINGS = [Binding("escape,q", "none", "close", show=True)]

    def __init__(
        self,
        title: str,
        lines: Sequence[Content],
        at: int = 0,
        preview: Callable[[int], None] = lambda _number: None,
    ) -> None:
        super().__init__()
        self._title = title  # never data: Textual reads markup in a border title
        self._lines = lines
        self._at = at
        self._preview = preview

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog", id="choose") as box:
            box.border_title = self._title
            yield OptionList(*(Option(line) for line in self._lines), markup=False, compact=True)
            yield KeyBar()

    def on_mount(self) -> None:
        options = self.query_one(OptionList)
        options.highlighted = self._at if self._lines else None
        options.focus()

    @on(OptionList.OptionHighlighted)
    def show(self, event: OptionList.OptionHighlighted) -> None:
        self._preview(event.option_index)

    @on(OptionList.OptionSelected)
    def choose(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_index)

    def action_none(self) -> None:
        self.dismiss(None)
