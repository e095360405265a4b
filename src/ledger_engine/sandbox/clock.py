"""A ledger's clock that a test can move forward and stop (docs/testing.md).

The clock's state is stored in a file next to the ledger, so that a restarted server continues from it.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from pathlib import Path

from ledger_engine.core.clock import Clock, SystemClock
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.store.files import write_private


@dataclass(frozen=True, slots=True)
class ClockState:
    """The state of a clock: its time in milliseconds, and whether it is frozen."""

    now: int
    frozen: bool


class MovableClock:
    """A clock that a test moves ahead of the machine's clock, or freezes.

    It begins `offset_ms` ahead of the machine's clock, or frozen at `frozen_at`. It never goes back, except
    by `go_back` when the whole ledger is set back to a snapshot. If a test moves the clock, `monotonic` moves
    too, so that the time also passes for code that measures with `monotonic`.
    """

    def __init__(
        self, machine: Clock | None = None, *, offset_ms: int = 0, frozen_at: int | None = None
    ) -> None:
        self._lock = threading.Lock()
        self._machine = machine or SystemClock()
        self._offset = offset_ms
        self._frozen_at = frozen_at

    def now(self) -> int:
        with self._lock:
            return self._now()

    def advance_past(self, moment: int) -> None:
        with self._lock:
            if self._now() <= moment:
                self._set_time(moment + 1)

    def machine(self) -> int:
        """Return the result of `now`: a ledger under test uses this clock in place of the machine's clock."""
        return self.now()

    def monotonic(self) -> float:
        """Return the result of `now` in seconds, so that a test moves or freezes `monotonic` too."""
        return self.now() / 1000

    def state(self) -> ClockState:
        """Return the state of the clock."""
        with self._lock:
            return ClockState(self._now(), self._frozen_at is not None)

    def offset_ms(self) -> int:
        """Return how far the clock is ahead of the machine's clock; negative if it was frozen for long."""
        with self._lock:
            return self._offset if self._frozen_at is None else self._frozen_at - self._machine.now()

    def arguments(self) -> dict[str, int | None]:
        """Return the arguments for the constructor of a new clock that continues from this clock's state."""
        with self._lock:
            return {"offset_ms": self._offset, "frozen_at": self._frozen_at}

    def move_to(self, moment: int) -> None:
        """Move the clock forward to `moment` (milliseconds); a past moment changes nothing."""
        with self._lock:
            if moment > self._now():
                self._set_time(moment)

    def raise_offset(self, offset_ms: int) -> None:
        """Make this clock at least `offset_ms` ahead of the machine's clock, unless this clock is frozen."""
        with self._lock:
            if self._frozen_at is None:
                self._offset = max(self._offset, offset_ms)

    def freeze(self) -> None:
        """Stop the clock."""
        with self._lock:
            self._frozen_at = self._now()

    def unfreeze(self) -> None:
        """Let a frozen clock continue from the time at which it stands."""
        with self._lock:
            now, self._frozen_at = self._now(), None
            self._set_time(now)

    def go_back(self, state: ClockState) -> None:
        """Set the clock back to its state at the time of a snapshot, together with the ledger."""
        with self._lock:
            self._frozen_at = state.now if state.frozen else None
            self._set_time(state.now)

    def _now(self) -> int:
        return self._machine.now() + self._offset if self._frozen_at is None else self._frozen_at

    def _set_time(self, moment: int) -> None:
        if self._frozen_at is None:
            self._offset = moment - self._machine.now()
        else:
            self._frozen_at = moment


def clock_of(database: Path) -> MovableClock:
    """Return the clock of a ledger, in the state in which the last server with test helpers left it.

    Without such a state, or if the ledger does not exist yet, return a clock with the machine's time. Raises
    StorageUnavailable if the file with the state cannot be read.
    """
    file = _file(database)
    if not database.exists():  # a deleted ledger must not pass its time on to a new ledger
        file.unlink(missing_ok=True)
        return MovableClock()
    try:
        state = json.loads(file.read_text(encoding="utf-8"))
        return MovableClock(offset_ms=int(state["offset_ms"]), frozen_at=_optional(state["frozen_at"]))
    except FileNotFoundError:
        return MovableClock()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StorageUnavailable(
            f"{file} has no valid state of the test clock ({error!r});"
            " delete it to start with the machine's time"
        ) from error


def store_clock(database: Path, clock: MovableClock) -> None:
    """Store the state of the clock. Raises StorageUnavailable."""
    file = _file(database)
    try:
        write_private(file, json.dumps(clock.arguments()))
    except OSError as error:
        raise StorageUnavailable(f"{file} cannot be written: {error.strerror}") from error


def _file(database: Path) -> Path:
    return database.with_name(f"{database.name}.clock")


def _optional(moment: object) -> int | None:
    return None if moment is None else int(str(moment))
