"""What went over the wire lately, for the traffic log and copy as curl. Secrets are masked on the way in."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

KEPT = 500


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and what came of it; `status` is None when no answer came."""

    method: str
    url: str
    body: str | None
    idempotency_key: str | None
    status: int | None
    duration_ms: float
    request_id: str | None
    error: str = ""


class Traffic:
    """The latest exchanges, oldest first, at most `KEPT`."""

    def __init__(self) -> None:
        self._exchanges: deque[Exchange] = deque(maxlen=KEPT)
        self.count = 0

    def add(self, exchange: Exchange) -> None:
        self._exchanges.append(exchange)
        self.count += 1

    def __iter__(self) -> Iterator[Exchange]:
        return iter(self._exchanges)

    @property
    def last(self) -> Exchange | None:
        return self._exchanges[-1] if self._exchanges else None
