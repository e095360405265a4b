"""The request log: requests with their answers, kept for 7 days (docs/decisions.md#request-log).

The recorder queues each request and writes the queue in batches. Adding a request to the queue is cheap: the
log entry is made only when the batch with the request is written. Before the recorder queues a request, it
cuts off the text beyond the stored lengths, because thousands of requests may wait while the storage is
unavailable. If the queue is full, the recorder drops and counts further requests, so that logging never makes
a request wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from itertools import islice
from typing import Annotated, ClassVar, NamedTuple

from ledger_engine.access import projects
from ledger_engine.access.credentials import Credential
from ledger_engine.access.quotas import LOGS_KEPT_FOR
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.ids import CredentialId, EventId, RequestId, first_at
from ledger_engine.core.masking import MASK, masked, may_hold_secrets
from ledger_engine.core.records import Moment, Pattern
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.events.outbox import Event
from ledger_engine.store import OWN, BookWork, Row, Unit, Value
from ledger_engine.store.engine import Engine
from ledger_engine.store.pages import Listing, Page, PageRequest, bad_cursor, expires_with
from ledger_engine.store.rows import reader

# The search for the events that a request caused ends this many milliseconds after the end of the request. An
# event gets its time from the ledger's clock, but the duration of a request is measured with another clock,
# and the two clocks may differ by this much.
_CLOCKS_DIFFER_MS = 50
# A range is used instead of LIKE, because LIKE would read characters of the path, such as `_`, as wildcards.
_AT_OR_BELOW = "(path = :path OR (path >= :below AND path < :beyond))"
_AFTER_SLASH = chr(ord("/") + 1)
BODY_KEPT_MAX = 4096  # bytes (docs/decisions.md#request-log-entries)
WAITING_MAX = 10_000  # requests in the queue
BATCH_MAX = 200  # requests that one commit writes
EVERY_S = 0.1  # pause between two batches, so that more requests share a commit
RETRY_AFTER_S = 1.0  # pause after a batch that could not be written
PATH_MAX = 2048  # characters; a longer path is a mistake, and its beginning is enough to find the mistake
KEY_MAX = 255  # characters; the server refuses a longer idempotency key
# Beginnings of the paths whose requests are not logged: the paths of the request log itself, and the paths
# that receive passwords and authorization codes.
_NOT_LOGGED = ("/v1/requests", "/oauth/")

Traceparent = Annotated[str, Pattern(r"^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$")]

log = logging.getLogger("ledger_engine.http")


class Entry(NamedTuple):
    """A row of the table `requests`; the fields are the columns.

    It is a tuple, because inserting a tuple takes less time than inserting a dict.
    """

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
    traceparent: str | None
    request_body: str | None
    response_body: str | None
    created: int


@dataclass(slots=True)
class LoggedRequest:
    """A request and its answer.

    `duration_ms` is the time until the answer was sent. `credential` is masked; `credential_id` is the API
    key or app that was used. The first 4 KB of each body are kept, without secrets; in live mode no body is
    kept. A credential that may not read everything does not see the bodies.
    """

    OBJECT: ClassVar[str] = "request"

    id: RequestId
    method: str
    path: str
    query: str
    status: int
    duration_ms: float
    credential_id: CredentialId
    credential: str
    address: str
    error_code: str | None
    idempotency_key: str | None
    traceparent: Traceparent | None
    request_body: str | None
    response_body: str | None
    created: Moment
    livemode: bool


@dataclass(slots=True)
class RequestWithEvents(LoggedRequest):
    """A request with the ids of the events it caused."""

    events: list[EventId]


def add(unit: Unit, entries: Sequence[Sequence[Value]], doubtful: int = 0) -> None:
    """Store entries, each with the values of an `Entry` in the same order.

    An earlier commit may already have stored some of the first `doubtful` entries. So each of these entries
    is added only if it is missing.
    """
    new = [entry for entry in entries[:doubtful] if not _is_stored(unit, entry)]
    unit.insert_many("requests", Entry._fields, [*new, *entries[doubtful:]])


def _is_stored(unit: Unit, entry: Sequence[Value]) -> bool:
    # An entry begins with the primary key.
    key = dict(zip(("project", "livemode", "id"), entry, strict=False))
    row = unit.first(
        "SELECT 1 FROM requests WHERE project = :project AND livemode = :livemode AND id = :id", key
    )
    return row is not None


def get(unit: Unit, tenant: Tenant, id: str) -> RequestWithEvents:
    """Return a request with the ids of the events that it caused.

    Raises NotFound, also if the request is still in the queue.
    """
    row = _LISTING.row(unit, tenant, id)
    return RequestWithEvents(
        **asdict(_without_hidden_bodies(tenant, _read(row))), events=_event_ids(unit, tenant, row)
    )


def events_of(unit: Unit, tenant: Tenant, request: PageRequest, id: str) -> Page[Event]:
    """Return a page of the events that a request caused, newest first. Raises NotFound as `get` does."""
    events = _event_ids(unit, tenant, _LISTING.row(unit, tenant, id))[::-1]
    if request.after is not None:
        if request.after not in events:
            raise bad_cursor("cursor")
        events = events[events.index(request.after) + 1 :]
    listed_events, more = events[: request.limit], len(events) > request.limit
    return Page(outbox.with_ids(unit, tenant, listed_events), more, listed_events[-1] if more else None)


def page(
    unit: Unit,
    tenant: Tenant,
    request: PageRequest,
    *,
    status: int | None = None,
    method: str | None = None,
    path: str | None = None,
    at: int | None = None,
) -> Page[LoggedRequest]:
    """Return a page of requests, newest first; with `at`, only requests up to this millisecond.

    With `status` or `method`, return only requests with this value; with `path`, only requests to this path
    or a path below it. `/v1/invoices` also finds `/v1/invoices/inv_…/finalize`; `/v1/invoices/` finds only
    the paths below `/v1/invoices`.

    With a filter, a page reads only a limited number of requests (docs/decisions.md#request-log-filters). An
    index would make this limit unnecessary, but would slow down every request.
    """
    equal: dict[str, Value] = {"status": status, "method": method}
    until = None if at is None else first_at("req", at + 1)
    if path is None:
        is_bounded = status is not None or method is not None
        page = _LISTING.page(unit, tenant, request, equal, until=until, is_bounded=is_bounded)
    else:
        below = path.removesuffix("/") + "/"
        parameters = {"path": path, "below": below, "beyond": below[:-1] + _AFTER_SLASH}
        page = _LISTING.page(
            unit, tenant, request, equal, until=until, where=_AT_OR_BELOW, values=parameters, is_bounded=True
        )
    return replace(page, items=[_without_hidden_bodies(tenant, item) for item in page.items])


def newest(unit: Unit) -> list[str]:
    """Return the id of the newest entry of each project and mode."""
    entries = []
    for project in projects.every(unit):
        for livemode in (False, True):
            row = unit.first(
                "SELECT max(id) AS id FROM requests WHERE project = :project AND livemode = :livemode",
                {"project": project.id, "livemode": livemode},
            )
            if row is not None and row["id"] is not None:
                entries.append(row["id"])
    return entries


def purge(unit: Unit, project: str, livemode: bool, before_id: str, limit: int) -> int:
    """Delete up to `limit` entries whose id is less than `before_id`; return the number deleted."""
    rows = unit.execute(
        "DELETE FROM requests WHERE project = :project AND livemode = :livemode AND id IN"
        " (SELECT id FROM requests WHERE project = :project AND livemode = :livemode AND id < :before"
        " ORDER BY id LIMIT :limit) RETURNING id",
        {"project": project, "livemode": livemode, "before": before_id, "limit": limit},
    )
    return len(rows)


def _event_ids(unit: Unit, tenant: Tenant, row: Row) -> list[str]:
    """Return the ids of the events that the request in `row` caused, oldest first."""
    latest = row["created"] + row["duration_us"] // 1000 + _CLOCKS_DIFFER_MS
    first, end = first_at("evt", row["created"]), first_at("evt", latest)
    return outbox.between(unit, tenant, first, end, row["id"])


def _without_hidden_bodies(tenant: Tenant, request: LoggedRequest) -> LoggedRequest:
    """Return the request; remove its bodies if the tenant may not read everything."""
    return request if tenant.may_see_bodies() else replace(request, request_body=None, response_body=None)


def _read(row: Row) -> LoggedRequest:
    request = _read_columns(row)
    request.duration_ms /= 1000
    return request


_read_columns = reader(LoggedRequest, duration_ms="duration_us")
_LISTING = Listing("requests", "request", _read, was_listed=expires_with("req", LOGS_KEPT_FOR))


class SeenRequest(NamedTuple):
    """A request and its answer, in the form in which the HTTP gate passes them to the recorder.

    `created` is in milliseconds. `authorization` and `idempotency_key` are the values of the headers
    `Authorization` and `Idempotency-Key`.
    """

    request: str
    created: int
    duration_s: float
    caller: Credential
    method: str
    path: str
    query: bytes
    address: str
    authorization: bytes
    idempotency_key: bytes
    body: bytes
    status: int
    answer: bytes
    error_code: str | None = None
    traceparent: str | None = None


class RequestRecorder:
    """Writes the queued requests to the log, between `start` and `stop`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: deque[SeenRequest] = deque()
        self._queue_event = asyncio.Event()
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        # If the outcome of the last commit is unknown, this many requests at the front of the queue may
        # already be stored.
        self._doubtful = 0
        self._too_many = 0  # requests dropped since the last warning, because the queue was full
        self.dropped = 0

    def note(self, exchange: SeenRequest) -> None:
        """Queue a request, or drop it if the queue is full.

        A request without an answer is ignored, and so are requests to the paths that are never logged.
        """
        if not exchange.status or exchange.path.startswith(_NOT_LOGGED):
            return
        if len(self._waiting) < WAITING_MAX:
            if not self._waiting:
                self._queue_event.set()
            self._waiting.append(_shorten(exchange))
        else:
            self.dropped += 1
            self._too_many += 1

    def start(self) -> None:
        """Start writing. The recorder can start again after `stop`. This needs a running event loop."""
        self._stopping.clear()
        self._task = asyncio.create_task(self._write_until_stopped())

    async def stop(self) -> None:
        """Write the queued requests, then stop."""
        self._stopping.set()
        self._queue_event.set()
        if self._task is not None:
            await self._task

    async def _write_until_stopped(self) -> None:
        while not self._stopping.is_set() or self._waiting:
            if not self._waiting:
                await self._queue_event.wait()
                self._queue_event.clear()
                await self._pause(EVERY_S)
                continue
            if not await self._write_batch():
                if self._stopping.is_set():
                    log.warning(
                        "%d requests were not logged: the storage is not available", len(self._waiting)
                    )
                    self.dropped += len(self._waiting)
                    self._waiting.clear()
                    self._doubtful = 0
                await self._pause(RETRY_AFTER_S)
            elif len(self._waiting) < BATCH_MAX:
                await self._pause(EVERY_S)
            self._log_too_many()

    async def _write_batch(self) -> bool:
        batch = list(islice(self._waiting, BATCH_MAX))
        try:
            entries: list[tuple[Value, ...]] = [_entry(exchange) for exchange in batch]
            await self._engine.write(BookWork(partial(add, entries=entries, doubtful=self._doubtful), OWN))
        except StorageUnavailable:
            self._doubtful = len(batch)
            return False
        except Exception:
            # Drop the batch: an entry that raises an error must not block the entries after it.
            log.exception("%d requests could not be logged", len(batch))
            self.dropped += len(batch)
        for _ in batch:
            self._waiting.popleft()
        self._doubtful = 0
        return True

    async def _pause(self, seconds: float) -> None:
        if not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._stopping.wait()

    def _log_too_many(self) -> None:
        if self._too_many:
            log.warning("%d requests were not logged: too many at once", self._too_many)
            self._too_many = 0


def _shorten(exchange: SeenRequest) -> SeenRequest:
    if (
        len(exchange.body) <= BODY_KEPT_MAX
        and len(exchange.answer) <= BODY_KEPT_MAX
        and len(exchange.path) + len(exchange.query) <= PATH_MAX
        and len(exchange.idempotency_key) <= KEY_MAX
    ):
        return exchange
    return exchange._replace(
        body=exchange.body[:BODY_KEPT_MAX],
        answer=exchange.answer[:BODY_KEPT_MAX],
        path=exchange.path[:PATH_MAX],
        query=exchange.query[:PATH_MAX],
        idempotency_key=exchange.idempotency_key[:KEY_MAX],
    )


def _entry(exchange: SeenRequest) -> Entry:
    caller, answer, key = exchange.caller, exchange.answer, exchange.idempotency_key
    path, query = exchange.path, exchange.query.decode("latin-1")
    request_body = response_body = ""
    if not caller.livemode:
        request_body, response_body = _text(exchange.body), _text(answer)
    if may_hold_secrets(f"{path} {query} {request_body} {response_body}"):
        path, query, request_body, response_body = map(masked, (path, query, request_body, response_body))
    return Entry(
        caller.project,
        caller.livemode,
        exchange.request,
        exchange.method,
        path,
        query,
        exchange.status,
        int(exchange.duration_s * 1_000_000),
        caller.id,
        _masked_credential(exchange.authorization),
        exchange.address,
        exchange.error_code,
        masked(key.decode("latin-1")) if key else None,
        exchange.traceparent,
        request_body or None,
        response_body or None,
        exchange.created,
    )


@lru_cache(maxsize=256)
def _masked_credential(header: bytes) -> str:
    """Return the kind and the last four characters of the header's credential, as `sk_test_••••abcd`."""
    value = header.decode("latin-1").partition(" ")[2]
    return f"{value.rpartition('_')[0]}_{MASK}{value[-4:]}"


def _text(body: bytes) -> str:
    return body.decode("utf-8", "replace").replace("\x00", "\ufffd")
