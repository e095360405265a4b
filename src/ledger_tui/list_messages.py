"""Messages of lists: what the user wants done with a list, or with several of its objects."""

from __future__ import annotations

from collections.abc import Sequence

from textual.message import Message

from ledger_tui.resources.base import Action, Resource
from ledger_tui.state.window import Record


class ColumnsRequested(Message):
    """The user wants to sort a list or to choose its columns."""


class BulkRequested(Message):
    """The user wants an action on several objects, which it is possible on."""

    def __init__(self, resource: Resource, action: Action, records: Sequence[Record]) -> None:
        super().__init__()
        self.resource = resource
        self.action = action
        self.records = records


class BatchRequested(Message):
    """The user wants to post the transactions of a file."""


class ProgramRequested(Message):
    """The user wants a record shown by another program; `variable` is PAGER or EDITOR."""

    def __init__(self, variable: str, record: Record) -> None:
        super().__init__()
        self.variable = variable
        self.record = record


class TimesChanged(Message):
    """The user wants times written in the next style."""


class BulkProgressed(Message):
    """One object of several is done; `problem` says why it failed, "" when it did not."""

    def __init__(self, record: Record, changed: Record | None, problem: str) -> None:
        super().__init__()
        self.record = record
        self.changed = changed
        self.problem = problem


class BulkEnded(Message):
    """All objects were tried, or the user stopped it."""
