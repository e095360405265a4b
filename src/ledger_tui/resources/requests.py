"""The request log: requests to the server and its answers.

If the server offers no request log, the screen shows the dashboard's own requests.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from ledger_tui.client.api import Api
from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record
from ledger_tui.client.traffic import OWN_PREFIX, SentRequest
from ledger_tui.formats.money import localised
from ledger_tui.formats.text import literal
from ledger_tui.resources.base import (
    Cell,
    Column,
    Detail,
    Fact,
    Filter,
    FilterContext,
    Filters,
    Link,
    More,
    Resource,
    Section,
)
from ledger_tui.resources.cells import clock_of, text_of, time_of
from ledger_tui.resources.drawings import body_section
from ledger_tui.resources.filtering import check_date, choice, has_http_status, http_status
from ledger_tui.resources.links import to_objects_in

_EVENTS_SHOWN = 10
_MASKED = re.compile(r"_(test|live)_•+")


def _status(record: Record) -> Cell:
    """Return the status of the answer with a glyph for success or failure."""
    status = record.get("status")
    if not isinstance(status, int):
        return Cell("✕ none", "bad")
    if status < 400:
        return Cell(f"✓ {status}", "plus")
    return Cell(f"✕ {status}", "bad" if status >= 500 else "minus")


def _duration(record: Record) -> Cell:
    value = record.get("duration_ms")
    if not isinstance(value, int | float):
        return text_of(record, "duration_ms")
    return Cell(localised(f"{value:,.1f}"), "dim")


def _short_credential(record: Record) -> Cell:
    """Return the kind and the last characters of a credential, enough to tell the keys of a project apart."""
    cell = text_of(record, "credential", "dim")
    return cell._replace(text=_MASKED.sub("_…", cell.text))


def _path(record: Record) -> Cell:
    query = record.get("query")
    path = literal(record.get("path", "–"))
    return Cell(f"{path}?{literal(query)}" if query else path)


def _detail(record: Record, _names: AccountNames) -> Detail:
    facts = [
        Fact("status", _status(record)),
        Fact("error", text_of(record, "error_code", "minus")),
        Fact("took", Cell(f"{_duration(record).text} ms")),
        Fact("time", time_of(record, "created")),
        Fact("credential", text_of(record, "credential", "dim")),
        Fact("address", text_of(record, "address", "dim")),
        Fact("idempotency", text_of(record, "idempotency_key", "dim")),
    ]
    sections = [
        Section("", tuple(facts)),
        body_section("request", record.get("request_body")),
        body_section("answer", record.get("response_body")),
    ]
    return Detail(
        Cell(f"{literal(record.get('method', ''))} {_path(record).text}", "strong"),
        tuple(sections),
        (*to_objects_in(str(record.get("path"))), *_to_events(record, record.get("events"))),
    )


async def _read_events(api: Api, record: Record) -> Any:
    """Return the ids of the events that a request caused.

    The list of requests does not contain these ids, so this function reads the single request.
    """
    if str(record.get("id", "")).startswith(OWN_PREFIX):
        return []
    path = f"/v1/requests/{quote(str(record.get('id')), safe='')}"
    return (await api.read(path, part="requests")).record.get("events")


def _events_section(_record: Record, events: Any, _names: AccountNames) -> tuple[Section, ...]:
    if not isinstance(events, list):
        return ()
    if not events:
        return (Section("", (Fact("events", Cell("it caused none", "dim")),)),)
    facts = [
        Fact("events" if n == 0 else "", Cell(literal(event), "accent")) for n, event in enumerate(events)
    ]
    return (Section("", tuple(facts[:_EVENTS_SHOWN])),)


def _to_events(_record: Record, events: Any) -> tuple[Link, ...]:
    event_ids = events[:_EVENTS_SHOWN] if isinstance(events, list) else []
    return tuple(Link(f"Its event {literal(event)}", "events", record_id=str(event)) for event in event_ids)


def own_request(number: int, exchange: SentRequest) -> Record:
    """Return one of the dashboard's own requests as a row of the request log."""
    path, _, query = exchange.url.partition("?")
    return {
        "id": f"{OWN_PREFIX}{number:08d}",
        "method": exchange.method,
        "path": "/" + path.split("/", 3)[-1] if path.count("/") >= 3 else path,
        "query": query,
        "status": exchange.status,
        "duration_ms": exchange.duration_ms,
        "error_code": exchange.error or None,
        "idempotency_key": exchange.idempotency_key,
        "request_body": exchange.body,
        "created": exchange.at,
    }


def as_exchange(record: Record, root: str) -> SentRequest:
    """Return a request of the log as a `SentRequest`, which can be copied as a curl command.

    The parts of the request that are masked in the log stay masked.
    """
    query = record.get("query")
    url = f"{root}{record.get('path', '')}" + (f"?{query}" if query else "")
    body, key = record.get("request_body"), record.get("idempotency_key")
    return SentRequest(
        method=str(record.get("method", "GET")),
        url=url,
        body=body if isinstance(body, str) and body else None,
        idempotency_key=key if isinstance(key, str) else None,
        status=None,
        duration_ms=0.0,
        request_id=None,
    )


def requests_resource(is_own: Callable[[object], bool]) -> Resource:
    """Return the screen of the request log.

    `is_own` returns whether an id belongs to one of the dashboard's own requests.
    """

    def shown(record: Record, value: str, _context: FilterContext) -> bool:
        return value == "yes" or not is_own(record.get("id"))

    own = choice("own", ("yes", "no"), "yes", matches=shown, default="no")
    return replace(_LOG, filters=(*_LOG.filters, own))


def fits(record: Record, filters: Filters) -> bool:
    """Return whether one of the dashboard's own requests matches the filters.

    If the server has no request log, this function replaces the server's filters.
    """
    path = filters.get("path", "").rstrip("/")
    return (
        has_http_status(record, filters.get("status", ""))
        and filters.get("method", "").upper() in ("", record.get("method"))
        and (not path or str(record.get("path")) == path or str(record.get("path")).startswith(f"{path}/"))
    )


_METHODS = ("GET", "POST", "PATCH", "DELETE")
_LOG = Resource(
    kind="requests",
    key="8",
    title="Requests",
    short="Reqs",
    singular="request",
    path="/v1/requests",
    id_prefix="req_",
    columns=(
        Column("time (UTC)", 14, lambda r, _n: clock_of(r, "created"), by="created", rank=1),
        Column("status", 6, lambda r, _n: _status(r)),
        Column("method", 6, lambda r, _n: text_of(r, "method")),
        Column("path", 20, lambda r, _n: _path(r), grow=1),
        Column("ms", 7, lambda r, _n: _duration(r), align="right"),
        Column("error", 16, lambda r, _n: text_of(r, "error_code", "minus"), rank=2),
        Column("credential", 12, lambda r, _n: _short_credential(r), rank=3),
        Column("id", 30, lambda r, _n: text_of(r, "id", "dim"), rank=4),
    ),
    detail=_detail,
    filters=(
        http_status("status", "404", lambda record: (record,), is_sent=str.isdigit),
        Filter("method", "method", "POST", suggests=lambda: _METHODS),
        Filter("path", "path", "/v1/accounts"),
        Filter("before", "at", "2026-11-20T07:18", check_date),
    ),
    more=More(_read_events, _events_section, links=_to_events),
    part="requests",
    missing_text="This server keeps no request log; these are this dashboard's own requests.",
    empty="No other program sent a request. own:yes shows the dashboard's requests.",
)

REQUESTS = requests_resource(lambda _id: False)
