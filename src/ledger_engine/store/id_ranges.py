"""Rows read in the order of their ids, some thousands at a time.

To find the id with which so many rows end takes a sixth of the time of reading them. Ids contain their time,
so where a part ends is guessed from how many rows there were in the time of the part before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from ledger_engine.core.ids import first_at, moment_of

TEXT_MAX = 2_000_000  # bytes of a column that are read at once of rows not counted: the ids of some 65,000
LONGER_AT_MOST = 2  # times the time of the part before: a busy hour may follow a quiet one

Read = TypeVar("Read")


class TooLong(Exception):
    """A part has so many rows that they are not to be read at once."""


class Parts(Generic[Read]):
    """Parts of about `rows` rows, each after the one before, until nothing follows.

    `read` returns the rows after one id up to another, and their number. It may raise TooLong when its third
    argument is true: the end was guessed. `end` returns the id with which the part after an id ends, or None
    when nothing follows. Unless `guessing`, all ends are those of `end`.
    """

    def __init__(
        self,
        read: Callable[[str, str, bool], tuple[Read, int]],
        end: Callable[[str], str | None],
        rows: int,
        *,
        after: str = "",
        guessing: bool = True,
    ) -> None:
        self._read = read
        self._end = end
        self._rows = rows
        self._after = after
        self._guessing = guessing
        self._ms_per_row = 0.0  # 0 while it is not known

    def __iter__(self) -> Iterator[Read]:
        while True:
            guessed = self._guess()
            last = guessed or self._end(self._after)
            if last is None:
                return
            try:
                part, rows = self._read(self._after, last, guessed is not None)
            except TooLong:
                self._ms_per_row = 0.0
                continue
            self._learn(last, rows)
            self._after = last
            if rows:
                yield part

    def _guess(self) -> str | None:
        """Return an id with which the next part could end, None when nothing is known of the rows."""
        if not self._ms_per_row:
            return None
        prefix = self._after.partition("_")[0]
        guess = first_at(prefix, moment_of(self._after) + int(self._ms_per_row * self._rows))
        return guess if guess > self._after else None

    def _learn(self, last: str, rows: int) -> None:
        """Note how many rows there were in the time of the part that ends with `last`."""
        before, self._ms_per_row = self._ms_per_row, 0.0
        if not (self._guessing and self._after and rows):
            return
        try:
            now = (moment_of(last) - moment_of(self._after)) / rows
        except ValueError:  # an id that the ledger has not made
            return
        self._ms_per_row = min(now, before * LONGER_AT_MOST) if before else now
