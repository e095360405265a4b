"""The line a filter is typed into, with how it is written under it."""

from __future__ import annotations

from collections.abc import Sequence

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from ledger_tui.resources.base import Filter
from ledger_tui.resources.filtering import BadFilter, filter_line, parse_filters, usage
from ledger_tui.state.text import literal


class FilterBar(Vertical):
    """Hidden until asked for. Says `Applied` with query parameters, or `Closed`."""

    BINDINGS = [Binding("escape", "close", "close", show=True, key_display="esc", id="filter.close")]

    class Applied(Message):
        def __init__(self, params: dict[str, str]) -> None:
            super().__init__()
            self.params = params

    class Closed(Message):
        pass

    def __init__(self, filters: Sequence[Filter], id_prefix: str) -> None:
        super().__init__()
        self._filters = filters
        self._id_prefix = id_prefix

    def compose(self) -> ComposeResult:
        yield Input(compact=True, select_on_focus=False)
        yield Static(id="filter-hint")

    def open(self, params: dict[str, str]) -> None:
        """Show the line with the filter there is."""
        self.display = True
        line = self.query_one(Input)
        line.value = filter_line(params, self._filters)
        line.cursor_position = len(line.value)
        line.focus()
        self._hint()

    def _hint(self, problem: str = "") -> None:
        own = usage(self._filters) or "this list has no filters on the server"
        text = f"{own}   or an id {self._id_prefix}… to open it" if self._id_prefix else own
        style = "bold $error" if problem else "$muted"
        self.query_one("#filter-hint", Static).update(
            Content.styled(f"✕ {problem}" if problem else text, style)
        )

    @on(Input.Changed)
    def clear_problem(self) -> None:
        self._hint()

    @on(Input.Submitted)
    def apply(self, event: Input.Submitted) -> None:
        event.stop()
        line = event.value.strip()
        if self._id_prefix and line.startswith(self._id_prefix) and " " not in line:
            self.post_message(self.OpenId(line))
            return
        try:
            params = parse_filters(line, self._filters)
        except BadFilter as error:
            self._hint(literal(error))
            return
        self.post_message(self.Applied(params))

    class OpenId(Message):
        def __init__(self, record_id: str) -> None:
            super().__init__()
            self.record_id = record_id

    def action_close(self) -> None:
        self.post_message(self.Closed())
