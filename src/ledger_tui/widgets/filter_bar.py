"""The line to type a filter, an id or part of a name into, with a hint below it."""

from __future__ import annotations

from contextlib import suppress

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static
from textual.worker import Worker, WorkerState

from ledger_tui.client.errors import ClientError
from ledger_tui.client.lists import learn_accounts_until
from ledger_tui.handlers import handles
from ledger_tui.messages import AccountsRead, PartFailed
from ledger_tui.resources.filtering import (
    BadFilter,
    UnknownAccount,
    filter_line,
    is_filter_line,
    parse_filters,
    usage,
)
from ledger_tui.state.text import literal
from ledger_tui.widgets.record_list import RecordList


class FilterBar(Vertical):
    """Hidden until opened. Posts `Applied` with query parameters, `OpenId` or `Closed`; searches text itself.

    It stays open, with what was typed, until the view closes it.
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

    class Closed(Message):
        pass

    def __init__(self, record_list: RecordList) -> None:
        super().__init__()
        self._list = record_list
        self._filters = record_list.resource.filters
        self._id_prefix = record_list.resource.id_prefix
        self._looking_up = ""  # the typed line, while accounts are being read for it
        self._found = ""  # the text of the last search, which `/` and enter continue

    def compose(self) -> ComposeResult:
        yield Input(compact=True, select_on_focus=False)
        yield Static(id="filter-hint")

    def open(self) -> None:
        """Show the line with the current filter, or with the text of the last search."""
        self.display = True
        line = self.query_one(Input)
        there = filter_line(self._list.filters, self._filters)
        line.value = f"{there} " if there else self._found  # with a space, as another word follows
        line.focus()
        if line.value == self._found:
            line.action_select_all()
        else:
            line.cursor_position = len(line.value)
        self.show()

    def show(self, sentence: str = "", *, problem: bool = False) -> None:
        """Show a sentence below the line, or the usage when it is empty."""
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
        self.show()

    @on(Input.Submitted)
    def apply(self, event: Input.Submitted) -> None:
        event.stop()
        line = event.value.strip()
        if self._id_prefix and line.startswith(self._id_prefix) and " " not in line:
            self.show("Opening…")
            self.post_message(self.OpenId(line))
        elif is_filter_line(line, self._filters):
            self._filter(line)
        else:
            again, self._found = line == self._found, line
            self._find(line, again=again)

    def _find(self, line: str, *, again: bool) -> None:
        found, text = self._list.find(line, again=again), literal(line)
        if not found:
            self.show(f"No loaded row matches “{text}”.", problem=True)
            return
        more = "; enter goes to the next" if found > 1 else ""
        self.show(f"{found:,} of {self._list.window.resident:,} loaded rows match “{text}”{more}")

    @work(group="accounts", exclusive=True, exit_on_error=False)
    async def _read_accounts_until(self, name: str) -> None:
        with suppress(ClientError):
            await learn_accounts_until(self._list.context.api, self._list.context.names, name)
        self.post_message(AccountsRead())

    @handles(Worker.StateChanged)
    def worker_ended(self, event: Worker.StateChanged) -> None:
        event.stop()
        if event.state is WorkerState.ERROR:
            self.post_message(PartFailed(event.worker.error))

    @handles(AccountsRead)
    def accounts_read(self, message: AccountsRead) -> None:
        """Apply the typed filter with the accounts known now."""
        message.stop()
        line = self.query_one(Input).value.strip()
        if self.display and line == self._looking_up:  # otherwise the line has changed
            self._filter(line, looked_up=True)

    def _filter(self, line: str, *, looked_up: bool = False) -> None:
        try:
            params = parse_filters(line, self._filters, self._list.context.names)
        except UnknownAccount as error:
            if looked_up:
                self.show(literal(error), problem=True)
            else:
                self._looking_up = line
                self.show("Looking the account up…")
                self._read_accounts_until(error.name)
        except BadFilter as error:
            self.show(literal(error), problem=True)
        else:
            self._found = ""
            self.post_message(self.Applied(params))

    def action_close(self) -> None:
        self.post_message(self.Closed())
