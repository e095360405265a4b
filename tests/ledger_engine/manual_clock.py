"""A clock that the test moves."""

from __future__ import annotations


class ManualClock:
    """A ledger's clock that stands still until it is moved."""

    def __init__(self, moment: int) -> None:
        self._moment = moment

    def now(self) -> int:
        return self._moment

    def advance(self, milliseconds: int) -> None:
        """Move forward by so many milliseconds, at least 0."""
        if milliseconds < 0:
            raise ValueError("a ledger's clock does not go back")
        self._moment += milliseconds

    def machine(self) -> int:
        return self._moment

    def advance_past(self, moment: int) -> None:
        self._moment = max(self._moment, moment + 1)
