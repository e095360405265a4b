"""The route of what changed between two moments."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from ledger_engine.core.errors import InvalidRequest
from ledger_engine.http.lists import GenericList, moment_until_now
from ledger_engine.http.operations import Call, Routes
from ledger_engine.ledger import past
from ledger_engine.ledger.past import Change, Summary

routes = Routes("diff", "/v1")


class Between(GenericList):
    from_: str = Field(alias="from")
    to: str


@dataclass(slots=True)
class Difference:
    """What changed between two moments; `summary` counts all of it, whatever the page."""

    data: list[Change]
    has_more: bool
    next_cursor: str | None
    summary: Summary


@routes.add("GET", "/diff", needs="read:projects")
async def get_diff(call: Call, query: Between) -> Difference:
    """List what changed between two moments, each object as it was at both."""
    now = call.engine.clock.now()
    start = moment_until_now(query.from_, "from", now)
    end = moment_until_now(query.to, "to", now)
    if start > end:
        raise InvalidRequest("invalid_value", "from must not be later than to.", "from")
    page, summary = await call.read(past.changes, start, end, query.page())
    return Difference(page.items, page.has_more, page.next_cursor, summary)
