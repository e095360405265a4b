"""Routes of the request log; all of them go beyond the contract."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ledger_engine.events import request_log
from ledger_engine.events.outbox import Event
from ledger_engine.events.request_log import LoggedRequest, RequestWithEvents
from ledger_engine.http.lists import DIGITS, GenericList, LookingBack
from ledger_engine.http.operations import Call, Routes
from ledger_engine.store.pages import Page

routes = Routes("requests", "/v1")


class ListRequests(GenericList, LookingBack):
    status: Annotated[int, Field(ge=100, le=599), DIGITS] | None = None
    method: str | None = None
    path: str | None = None


@routes.add("GET", "/requests", needs="read:projects")
async def list_requests(call: Call, query: ListRequests) -> Page[LoggedRequest]:
    """List the requests of the last 7 days, newest first."""
    at = query.moment(call.engine.clock)
    return await call.read(
        request_log.page, query.page(), status=query.status, method=query.method, path=query.path, at=at
    )


@routes.add("GET", "/requests/<id>", needs="read:projects")
async def get_request(call: Call, id: str) -> RequestWithEvents:
    """Get one request with the events it caused."""
    return await call.read(request_log.get, id)


@routes.add("GET", "/requests/<id>/events", needs="read:projects")
async def list_request_events(call: Call, id: str, query: GenericList) -> Page[Event]:
    """List the events that one request caused, newest first."""
    return await call.read(request_log.events_of, query.page(), id)
