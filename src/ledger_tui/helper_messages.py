"""Messages about the server's test helpers."""

from __future__ import annotations

from textual.message import Message

from ledger_tui.client.test_helpers import HelperState
from ledger_tui.resources.test_helpers import HelperRequest
from ledger_tui.state.window import Record


class HelpersLoaded(Message):
    """The helpers were read, or `problem` says why not."""

    def __init__(self, state: HelperState | None, problem: str) -> None:
        super().__init__()
        self.state = state
        self.problem = problem


class HelperRequested(Message):
    """The user wants a test helper to do something."""

    def __init__(self, request: HelperRequest) -> None:
        super().__init__()
        self.request = request


class HelperLineRequested(Message):
    """The user wants the command line with the beginning of a line."""

    def __init__(self, line: str) -> None:
        super().__init__()
        self.line = line


class HelperDone(Message):
    """A test helper has done what was asked; `clock` is the ledger's after it."""

    def __init__(self, request: HelperRequest, answer: Record, clock: Record) -> None:
        super().__init__()
        self.request = request
        self.answer = answer
        self.clock = clock
