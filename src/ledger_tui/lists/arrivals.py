"""The rows that were under the cursor of a list, until newer rows replaced them."""

from __future__ import annotations

from collections.abc import Callable

# A key that only reads acts on the row that was under the cursor this long before the user pressed the key,
# because a person needs about a second to press a key for a row that they see.
_REACTION_SECONDS = 1.0
# An action on a row needs a second press if the row has been under the cursor for less than this time.
_NEW_SECONDS = 2.0


class Arrivals:
    """The ids of the last rows under the cursor, each with the time at which a newer row replaced it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._replaced: list[tuple[float, object]] = []  # the latest comes last

    def note(self, replaced_id: object) -> None:
        """Note that a newer row has just replaced the row with this id."""
        now = self._clock()
        recent = [each for each in self._replaced if now - each[0] < max(_REACTION_SECONDS, _NEW_SECONDS)]
        self._replaced = [*recent, (now, replaced_id)]

    def forget(self) -> None:
        """Forget all rows, because the user has chosen the row under the cursor."""
        self._replaced.clear()

    @property
    def is_new(self) -> bool:
        """Whether the row under the cursor came there so recently that the user may mean another row."""
        return bool(self._replaced) and self._clock() - self._replaced[-1][0] < _NEW_SECONDS

    @property
    def id_being_read(self) -> object:
        """The id of the row that was under the cursor a second ago; None if this row is still there."""
        then = self._clock() - _REACTION_SECONDS
        return next((replaced_id for until, replaced_id in self._replaced if until > then), None)
