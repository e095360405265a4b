"""Counting requests where `serve --workers` answers them: a worker notes them, and its parent counts."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from ledger_engine.core.measuring import RequestMeter
from ledger_engine.server.workers.parent import Parent

REPORTED_AFTER_S = 1.0  # what a worker has noted is lost if it is killed within this time


class Measured(NamedTuple):
    """What a worker has answered and refused since its last report: arguments of calls of `RequestMeter`."""

    answered: list[tuple[str, str, int, float]]
    refused: list[str]

    def count_in(self, meter: RequestMeter) -> None:
        """Count all of it."""
        for request in self.answered:
            meter.answered(*request)
        for limit in self.refused:
            meter.refused(limit)


class ParentsMeter:
    """The `RequestMeter` of a worker: its parent counts, and gets a report at most once a second."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent
        self._loop = asyncio.get_running_loop()
        self._noted = Measured([], [])
        self._timer: asyncio.TimerHandle | None = None

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        self._noted.answered.append((method, route, status, seconds))
        self._report_soon()

    def refused(self, limit: str) -> None:
        self._noted.refused.append(limit)
        self._report_soon()

    def report(self) -> None:
        """Send the parent what was noted, at once; for the end of the worker."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            noted, self._noted = self._noted, Measured([], [])
            self._parent.tell("measured", noted)

    def _report_soon(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(REPORTED_AFTER_S, self.report)
