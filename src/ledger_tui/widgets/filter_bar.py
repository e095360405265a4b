"""The line a filter, an id or part of a name is typed into, with how it is written under it."""

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
from ledger_tui.resources.filtering import BadFilter, filter_line, is_filter_line, parse_filters, usage
from ledger_tui.state.names import AccountNames
from ledger_tui.state.text import literal


class FilterBar(Vertical):
    """Hidden until asked for. Says `Applied` with query parameters, `OpenId`, `Find`, or `Closed`.

    It stays open, with what was typed, until whoever hears it closes it.
    """

    BINDINGS = [Binding("escape", "close", "close", show=True, key_display="esc", id="filter.close")]

    class Applied(Message):
        def __init__(self, params: dict[str, str]) -> None:
            super().__init__()
            self.params = params

    class OpenId(Message):
        def __init__(self, record_id: str) -> None:
            super().__init__()
            self.record_id = record_id

    class Find(Message):
        """Look for a text in the rows at hand; `again` when it was looked for just before."""

        def __init__(self, text: str, *, again: bool) -> None:
            super().__init__()
            self.text = text
            self.again = again

    class Closed(Message):
        pass

    def __init__(self, filters: Sequence[Filter], id_prefix: str, names: AccountNames) -> None:
        super().__init__()
        self._filters = filters
        self._id_prefix = id_prefix
        self._names = names
        self._found = ""  # the text looked for last: `/` and enter go on with it

    def compose(self) -> ComposeResult:
        yield Input(compact=True, select_on_focus=False)
        yield Static(id="filter-hint")

    def open(self, params: dict[str, str]) -> None:
        """Show the line with the filter there is, or with the text looked for last."""
        self.display = True
        line = self.query_one(Input)
        there = filter_line(params, self._filters)
        line.value = f"{there} " if there else self._found  # what is typed next is another word
        line.focus()
        if line.value == self._found:
            line.action_select_all()
        else:
            line.cursor_position = len(line.value)
        self.tell()

    def tell(self, sentence: str = "", *, problem: bool = False) -> None:
        """Say something under the line; with nothing to say, how the line is written."""
        text = f"✕ {sentence}" if problem else sentence or self._usage()
        style = "bold $error" if problem else "$muted"
        self.query_one("#filter-hint", Static).update(Content.styled(text, style))

    def _usage(self) -> str:
        own = usage(self._filters)
        if own:
            return f"{own}  or {self._id_prefix}… or any text" if self._id_prefix else own
        if self._id_prefix:
            return "This list has no filters; type an id to open it or part of a name to find it"
        return "This list has no filters; type part of a row to find it"

    @on(Input.Changed)
    def clear_problem(self) -> None:
        self.tell()

    @on(Input.Submitted)
    def apply(self, event: Input.Submitted) -> None:
        event.stop()
        line = event.value.strip()
        if self._id_prefix and line.startswith(self._id_prefix) and " " not in line:
            self.tell("Opening…")
            self.post_message(self.OpenId(line))
        elif is_filter_line(line, self._filters):
            self._filter(line)
        else:
            again, self._found = line == self._found, line
            self.post_message(self.Find(line, again=again))

    def _filter(self, line: str) -> None:
        try:
            params = parse_filters(line, self._filters, self._names)
        except BadFilter as error:
            self.tell(literal(error), problem=True)
        else:
            self._found = ""
            self.post_message(self.Applied(params))

    def action_close(self) -> None:
        self.post_message(self.Closed())
