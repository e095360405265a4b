"""Requests that workers have answered are counted by their parent."""

from __future__ import annotations

from typing import Any

from ledger_engine.server.workers.parent import Measured, ParentsMeter


class Told:
    """What a worker tells its parent, and what the parent's meter counts of it."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, Measured]] = []
        self.counted: list[tuple[Any, ...]] = []

    def tell(self, kind: str, content: Measured) -> None:
        self.reports.append((kind, content))

    def answered(self, *request: Any) -> None:
        self.counted.append(request)

    def refused(self, limit: str) -> None:
        self.counted.append((limit,))


async def test_each_request_is_reported_once_and_counted_as_it_was_noted() -> None:
    told: Any = Told()
    meter = ParentsMeter(told)
    meter.report()
    assert told.reports == [], "nothing was noted"
    meter.answered("GET", "/v1/accounts", 200, 0.5)
    meter.answered("POST", "/v1/accounts", 429, 0.25)
    meter.refused("minute")
    meter.report()
    meter.report()
    ((kind, noted),) = told.reports
    assert kind == "measured"
    noted.count_in(told)
    assert told.counted == [
        ("GET", "/v1/accounts", 200, 0.5), ("POST", "/v1/accounts", 429, 0.25), ("minute",),
    ]  # fmt: skip
