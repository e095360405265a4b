"""The request log: requests with their answers, kept for 7 days (docs/decisions.md#request-log)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from typing import ClassVar, NamedTuple

from ledger_engine.access import projects
from ledger_engine.core.errors import InvalidRequest
from ledger_engine.core.ids import first_at
from ledger_engine.core.records import Moment
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.events.outbox import Event
from ledger_engine.store import Row, Unit, Value
from ledger_engine.store.pages import Listing, Page, PageRequest

# The clock that dates events and the one that measures a request's duration may differ by this much.
_CLOCKS_DIFFER_MS = 50
# A range and not LIKE, in which characters of the path such as `_` would be wildcards.
_AT_OR_BELOW = "(path = :path OR (path >= :below AND path < :beyond))"
_AFTER_SLASH = chr(ord("/") + 1)


class Entry(NamedTuple):
    """A row of the table `requests`, with its columns. A tuple is inserted in less time than a dict."""

    project: str
    livemode: bool
    id: str
    method: str
    path: str
    query: str
    status: int
    duration_us: int
    credential_id: str
    credential: str
    address: str
    error_code: str | None
    idempotency_key: str | None
    request_body: str | None
    response_body: str | None
    created: int


@dataclass(slots=True)
class LoggedRequest:
    """A request and its answer. `duration_ms` is the time until the answer was sent. `credential` is masked;
    `credential_id` is the API key or app that was used. The first 4 KB of each body are kept, without
    secrets; in live mode no body is kept. A credential that may not read everything does not see them."""

    OBJECT: ClassVar[str] = "request"

    id: str
    method: str
    path: str
    query: str
    status: int
    duration_ms: float
    credential_id: str
    credential: str
    address: str
    error_code: str | None
    idempotency_key: str | None
    request_body: str | None
    response_body: str | None
    created: Moment
    livemode: bool


@dataclass(slots=True)
class RequestWithEvents(LoggedRequest):
    """A request with the ids of the events it caused."""

    events: list[str]


def add(unit: Unit, entries: Sequence[Sequence[Value]], doubtful: int = 0) -> None:
    """Add entries, each with the values of an `Entry`; of the first `doubtful` those that are not there."""
    new = [each for each in entries[:doubtful] if not _is_there(unit, each)]
    unit.insert_many("requests", Entry._fields, [*new, *entries[doubtful:]])


def _is_there(unit: Unit, entry: Sequence[Value]) -> bool:
    key = dict(zip(("project", "livemode", "id"), entry, strict=False))  # an entry begins with them
    found = unit.first(
        "SELECT 1 AS there FROM requests WHERE project = :project AND livemode = :livemode AND id = :id", key
    )
    return found is not None


def get(unit: Unit, tenant: Tenant, id: str) -> RequestWithEvents:
    """Return the request with the events it caused. Raises NotFound, also while it is not logged yet."""
    row = _LISTING.row(unit, tenant, id)
    return RequestWithEvents(**asdict(_shown(tenant, _read(row))), events=_caused(unit, tenant, row))


def events_of(unit: Unit, tenant: Tenant, wanted: PageRequest, id: str) -> Page[Event]:
    """Return the events that the request caused, newest first. Raises NotFound as `get` does."""
    caused = _caused(unit, tenant, _LISTING.row(unit, tenant, id))[::-1]
    if wanted.after is not None:
        if wanted.after not in caused:
            raise InvalidRequest(
                "invalid_cursor", "cursor must be the id of an event of this list.", "cursor"
            )
        caused = caused[caused.index(wanted.after) + 1 :]
    shown, more = caused[: wanted.limit], len(caused) > wanted.limit
    return Page(outbox.with_ids(unit, tenant, shown), more, shown[-1] if more else None)


def page(
    unit: Unit,
    tenant: Tenant,
    wanted: PageRequest,
    *,
    status: int | None = None,
    method: str | None = None,
    path: str | None = None,
) -> Page[LoggedRequest]:
    """Return requests, newest first, with this status and method, of this path or one below it.

    `/v1/invoices` also finds `/v1/invoices/inv_…/finalize`; `/v1/invoices/` finds only what is below. A page
    with a filter is bounded (docs/decisions.md#request-log-filters): an index would cost every request.
    """
    equal: dict[str, Value] = {"status": status, "method": method}
    if path is None:
        bounded = status is not None or method is not None
        found = _LISTING.page(unit, tenant, wanted, equal, bounded=bounded)
    else:
        below = path.removesuffix("/") + "/"
        given = {"path": path, "below": below, "beyond": below[:-1] + _AFTER_SLASH}
        found = _LISTING.page(unit, tenant, wanted, equal, where=_AT_OR_BELOW, given=given, bounded=True)
    return replace(found, items=[_shown(tenant, item) for item in found.items])


def newest(unit: Unit) -> list[str]:
    """Return the id of the newest entry of each project and mode."""
    found = []
    for project in projects.every(unit):
        for livemode in (False, True):
            row = unit.first(
                "SELECT max(id) AS id FROM requests WHERE project = :project AND livemode = :livemode",
                {"project": project.id, "livemode": livemode},
            )
            if row is not None and row["id"] is not None:
                found.append(row["id"])
    return found


def purge(unit: Unit, project: str, livemode: bool, before_id: str, limit: int) -> int:
    """Delete up to `limit` entries whose id is less than `before_id`; return how many."""
    deleted = unit.execute(
        "DELETE FROM requests WHERE project = :project AND livemode = :livemode AND id IN"
        " (SELECT id FROM requests WHERE project = :project AND livemode = :livemode AND id < :before"
        " ORDER BY id LIMIT :limit) RETURNING id",
        {"project": project, "livemode": livemode, "before": before_id, "limit": limit},
    )
    return len(deleted)


def _caused(unit: Unit, tenant: Tenant, row: Row) -> list[str]:
    """Return the ids of the events that the request in `row` caused, oldest first."""
    ended = row["created"] + row["duration_us"] // 1000 + _CLOCKS_DIFFER_MS
    first, end = first_at("evt", row["created"]), first_at("evt", ended)
    return outbox.between(unit, tenant, first, end, row["id"])


def _shown(tenant: Tenant, request: LoggedRequest) -> LoggedRequest:
    """Return the entry, without its bodies unless the tenant may read everything."""
    return request if tenant.may_see_bodies() else replace(request, request_body=None, response_body=None)


def _read(row: Row) -> LoggedRequest:
    return LoggedRequest(
        id=row["id"],
        method=row["method"],
        path=row["path"],
        query=row["query"],
        status=row["status"],
        duration_ms=row["duration_us"] / 1000,
        credential_id=row["credential_id"],
        credential=row["credential"],
        address=row["address"],
        error_code=row["error_code"],
        idempotency_key=row["idempotency_key"],
        request_body=row["request_body"],
        response_body=row["response_body"],
        created=row["created"],
        livemode=bool(row["livemode"]),
    )


_LISTING = Listing("requests", "request", _read, attrgetter("id"))
