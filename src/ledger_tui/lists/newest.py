"""The newest states of the objects of a list, to drop an answer that a newer answer has overtaken.

Answers can arrive in another order than the server has made them: the answer to an action may be slower than
a poll that was sent later. An answer is surely newer than a state only if its request was sent after this
state had arrived. Otherwise the state stays, and a later request reads the object again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping

from ledger_tui.client.records import Record

_KEPT = 1_000  # the maximum number of objects; an answer is never overtaken by this many changes
ANY_TIME = float("inf")  # stands for the time of a request whose answer is known to be the newest


class NewestStates:
    """The objects whose states have changed last, each with its newest state and the time of its arrival."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._states: OrderedDict[object, tuple[float, Record]] = OrderedDict()

    def newest(self, record: Record, sent_at: float) -> Record:
        """Return the state of an object to show: `record`, or the known state if it may be newer.

        `sent_at` is the time when the request was sent whose answer contains `record`.
        """
        arrived_at, known = self._states.get(record.get("id"), (sent_at, record))
        return known if arrived_at > sent_at else record

    def note(self, record: Record) -> None:
        """Note a new state of an object."""
        self._states[record.get("id")] = self._clock(), record
        self._states.move_to_end(record.get("id"))
        while len(self._states) > _KEPT:
            self._states.popitem(last=False)

    def note_changes(self, rows: Iterable[Record], known: Mapping[object, Record]) -> None:
        """Note each row that differs from the known state of its object. `known` contains states by id."""
        for row in rows:
            before = known.get(row.get("id"))
            _arrived_at, state = self._states.get(row.get("id"), (0.0, before))
            if any(each is not None and each != row for each in (before, state)):
                self.note(row)
