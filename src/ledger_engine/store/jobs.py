"""Works on their way through a database's threads."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ledger_engine.limits import Outcome
from ledger_engine.store import Work


@dataclass(slots=True, eq=False)
class Job:
    """A work, its answer or error, and what gets that: a future, or another process's request."""

    work: Work[Any]
    outcome: Outcome
    loop: asyncio.AbstractEventLoop
    writes: bool
    long: bool = False
    answer: Any = None
    error: BaseException | None = None

    def settle(self) -> None:
        """Set the outcome, unless that is cancelled; call it in the event loop's thread."""
        if self.outcome.done():
            return
        if self.error is not None:
            self.outcome.set_exception(self.error)
        else:
            self.outcome.set_result(self.answer)


class Pending:
    """The unanswered jobs of one event loop; `give_up` is called with each that takes too long.

    One timer serves all of them, as one for each job would add to the cost of every request.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, limit_s: float, give_up: Callable[[Job], None]
    ) -> None:
        self._loop = loop
        self._limit_s = limit_s
        self._give_up = give_up
        self._due: dict[Job, float] = {}  # the earliest first
        self._timer: asyncio.TimerHandle | None = None

    def add(self, job: Job) -> None:
        """Limit the time of a job, until `remove`."""
        self._due[job] = self._loop.time() + self._limit_s
        if self._timer is None:
            self._timer = self._loop.call_later(self._limit_s, self._look)

    def remove(self, job: Job) -> None:
        """Forget a job that is settled."""
        self._due.pop(job, None)

    async def answer(self, job: Job, answered: asyncio.Future[Any]) -> Any:
        """Wait for a job whose outcome is this future, and return its result."""
        self.add(job)
        try:
            return await answered
        finally:
            self.remove(job)

    def _look(self) -> None:
        self._timer = None
        now = self._loop.time()
        for job, due in list(self._due.items()):
            if due > now:
                self._timer = self._loop.call_at(due, self._look)
                return
            if not job.outcome.done():
                self._give_up(job)
            self._due.pop(job, None)


def call_soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    """Run `call` in an event loop's thread; do nothing when the loop is closed."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call)
