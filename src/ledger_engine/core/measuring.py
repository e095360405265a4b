"""Measurements of a server at work, for `upkeep/metrics.py`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

# The writer's thread calls this after each commit, with the number of changes in the commit and the seconds
# that the commit took.
CommitObserver = Callable[[int, float], None]

log = logging.getLogger("ledger_engine.store")


def log_commit(works: int, seconds: float) -> None:
    """Log a commit, at the level debug."""
    log.debug("changes committed: %d, in %.1f ms", works, seconds * 1000)


class RequestMeter(Protocol):
    """Counts the requests that a server has answered, and the requests that exceeded a limit."""

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answered request, which took `seconds`.

        `route` is the path of the operation, such as `/v1/accounts/{id}`; '' if no operation has the path.
        """
        ...

    def refused(self, limit: str) -> None:
        """Count a request that exceeded the limit with this name."""
        ...
