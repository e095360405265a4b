"""Faults make chosen requests or webhooks fail on purpose. A test sets them through the test helpers.

`guard.Guard` applies the faults of requests, and `FaultySender` the faults of webhooks. Faults are stored in
memory, and apply to the project and mode of the key that set them.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar, TypedDict, cast

from ledger_engine.core.errors import (
    AuthenticationError,
    Conflict,
    InvalidRequest,
    LedgerError,
    NotFound,
    PermissionDenied,
)
from ledger_engine.core.ids import FaultId
from ledger_engine.core.records import Moment, OneOf, dumps
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.events.webhooks.sender_process import AnySender
from ledger_engine.events.webhooks.sending import AttemptJob, SendResult
from ledger_engine.http.errors import CODES, RateLimited
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine
from ledger_engine.store.pages import Page, PageRequest, page_of

CUTS = ("before", "after_commit", "half")
WEBHOOKS = ("drop", "delay", "duplicate", "reorder", "corrupt")
FAULTS_MAX = 1000  # faults of one project and mode


class Match(TypedDict):
    """The requests or webhooks that a fault applies to. A field that is null matches every value.

    `path` is exact or ends in `*`; `header` is a name, or a name and a value: `X-Test: 1`. `endpoint` and
    `type` are for webhooks, the other fields for requests."""

    method: str | None
    path: str | None
    key: str | None
    header: str | None
    endpoint: str | None
    type: str | None


class FaultAction(TypedDict):
    """The failure that a fault causes: one of `status`, `delay_ms` and `cut`, or `webhook`."""

    status: int | None
    code: str | None
    delay_ms: int | None
    jitter_ms: int | None
    cut: Annotated[str, OneOf(*CUTS)] | None
    webhook: Annotated[str, OneOf(*WEBHOOKS)] | None


@dataclass(slots=True)
class Fault:
    """A fault, which has happened `hits` times, of at most `times`."""

    OBJECT: ClassVar[str] = "fault"

    id: FaultId
    match: Match
    action: FaultAction
    probability: float
    seed: int | None
    times: int | None
    hits: int
    created: Moment
    livemode: bool


@dataclass(frozen=True, slots=True)
class MatchedRequest:
    """The parts of a request that a fault can match.

    `key` is the id of the request's API key or app; None for a request without a credential.
    """

    method: str
    path: str
    key: str | None
    headers: Mapping[bytes, bytes]


@dataclass(slots=True)
class _Entry:
    """A fault with its project, and with the random numbers that decide when the fault happens."""

    fault: Fault
    project: str
    random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = random.Random(self.fault.seed)

    def happens_now(self) -> bool:
        """Decide by `times` and `probability` whether the fault happens to the present request or webhook.

        If the fault happens, count it and return True.
        """
        fault = self.fault
        if fault.times is not None and fault.hits >= fault.times:
            return False
        if self.random.random() >= fault.probability:
            return False
        fault.hits += 1
        return True


class Faults:
    """The faults of all projects."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        # For the id of each removed fault: the fault's project and mode. The ids stay known, because a client
        # may still use the id of a removed fault as a cursor.
        self._owners_of_removed: dict[str, tuple[str, bool]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, tenant: Tenant, fault: Fault) -> Fault:
        """Add a fault; if the project and mode already have FAULTS_MAX faults, delete the oldest of them."""
        own = self._faults_of(tenant)
        if len(own) >= FAULTS_MAX:
            self._remove(own[0].id)
        self._entries[fault.id] = _Entry(fault, tenant.project)
        return fault

    def page(self, tenant: Tenant, request: PageRequest) -> Page[Fault]:
        """Return a page of the faults, newest first. Raises InvalidRequest."""
        removed_ids = [id for id, owner in self._owners_of_removed.items() if owner == tenant.book]
        return page_of(self._faults_of(tenant), request, removed_ids)

    def remove(self, tenant: Tenant, id: str) -> Fault:
        """Remove a fault and return it. Raises NotFound."""
        entry = self._entries.get(id)
        if entry is None or entry.fault not in self._faults_of(tenant):
            raise NotFound("fault", id)
        return self._remove(id)

    def clear(self, tenant: Tenant) -> int:
        """Remove all faults of the project and mode; return their number."""
        own = self._faults_of(tenant)
        for fault in own:
            self._remove(fault.id)
        return len(own)

    def _remove(self, id: str) -> Fault:
        entry = self._entries.pop(id)
        self._owners_of_removed[id] = entry.project, entry.fault.livemode
        return entry.fault

    def of_request(self, request: MatchedRequest, project: str | None, livemode: bool) -> Iterator[Fault]:
        """Yield the faults that happen to a request, in the order in which they were set, and count each.

        `project` is None for a request without a credential. Such a request gets the faults of every
        project and mode, but only the faults that name a path.
        """
        for entry in list(self._entries.values()):
            fault = entry.fault
            own = (entry.project, fault.livemode) == (project, livemode)
            is_public = project is None and fault.match["path"] is not None
            if (
                fault.action["webhook"] is None
                and (own or is_public)
                and _matches(fault.match, request)
                and entry.happens_now()
            ):
                yield fault

    def of_webhook(self, endpoint: str, type: str, project: str, livemode: bool) -> Fault | None:
        """Return the first fault that happens to an attempt to send an event of this type to the endpoint.

        The fault is counted. Return None if no fault happens.
        """
        for entry in list(self._entries.values()):
            fault, match = entry.fault, entry.fault.match
            if (
                fault.action["webhook"] is not None
                and (entry.project, fault.livemode) == (project, livemode)
                and match["endpoint"] in (None, endpoint)
                and match["type"] in (None, type)
                and entry.happens_now()
            ):
                return fault
        return None

    def _faults_of(self, tenant: Tenant) -> list[Fault]:
        return [
            entry.fault
            for entry in self._entries.values()
            if (entry.project, entry.fault.livemode) == (tenant.project, tenant.livemode)
        ]


def _matches(match: Match, request: MatchedRequest) -> bool:
    path = match["path"]
    if path is not None and path.endswith("*"):
        fits = request.path.startswith(path[:-1])
    else:
        fits = path in (None, request.path)
    return (
        fits
        and match["method"] in (None, request.method)
        and match["key"] in (None, request.key)
        and (match["header"] is None or _has_header(request.headers, match["header"]))
    )


def _has_header(headers: Mapping[bytes, bytes], header: str) -> bool:
    name, separator, value = header.partition(":")
    header_value = headers.get(name.strip().lower().encode("latin-1", "replace"))
    return header_value is not None and (
        not separator or header_value.decode("latin-1").strip() == value.strip()
    )


# The values that a fault may have, and the errors of requests that fail on purpose

RATE_LIMITED = 429
# The error type and the codes for a status that is not in CODES, by the first digit of the status.
_OTHER = {4: ("invalid_request", ("invalid_value",)), 5: ("api_error", ("internal_error",))}


class _NotThere(LedgerError):
    type = "not_found"


_KINDS: dict[str, type[LedgerError]] = {
    kind.type: kind
    for kind in (InvalidRequest, AuthenticationError, PermissionDenied, _NotThere, Conflict, LedgerError)
}


def codes_of(status: int) -> tuple[str, ...]:
    """Return the codes that an error with this status can have, the usual code first."""
    if status == RATE_LIMITED:
        return ("rate_limited",)
    return CODES.get(status, _OTHER[status // 100])[1]


def fault_error(status: int, code: str | None, fault: str) -> LedgerError:
    """Return the error with which the fault with the id `fault` answers a request.

    A `code` of None stands for the usual code of the status.
    """
    if status == RATE_LIMITED:
        return RateLimited(1)
    type, codes = CODES.get(status, _OTHER[status // 100])
    return _KINDS[type](code or codes[0], f"The fault {fault} caused this answer.")


METHODS = ("GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS")
_OF_REQUESTS = ("method", "path", "key", "header")
_OF_WEBHOOKS = ("endpoint", "type")


def check_fault(match: dict[str, Any], action: dict[str, Any]) -> tuple[Match, FaultAction]:
    """Check the match and the action of a new fault, and return both in their stored form.

    Raises InvalidRequest with the name of the wrong field.
    """
    _check_action(action)
    is_webhook = action["webhook"] is not None
    for name in _OF_REQUESTS if is_webhook else _OF_WEBHOOKS:
        if match[name] is not None:
            use = "requests, not for webhooks" if is_webhook else "webhooks, not for requests"
            raise _invalid(f"{name} is for {use}.", f"match.{name}")
    _check_match(match)
    return cast(Match, match), cast(FaultAction, action)


def _check_action(action: dict[str, Any]) -> None:
    names = [name for name in ("status", "cut", "webhook") if action[name] is not None]
    if action["delay_ms"] is not None and action["webhook"] is None:
        names.append("delay_ms")
    if len(names) != 1:
        raise _invalid("Give one of status, delay_ms, cut and webhook.", "action")
    if action["jitter_ms"] is not None and names != ["delay_ms"]:
        raise _invalid("jitter_ms needs delay_ms.", "action.jitter_ms")
    if action["delay_ms"] is not None and action["webhook"] not in (None, "delay", "reorder"):
        raise _invalid("delay_ms needs the webhook fault delay or reorder.", "action.delay_ms")
    if action["code"] is None:
        return
    if action["status"] is None:
        raise _invalid("code needs status.", "action.code")
    codes = codes_of(action["status"])
    if action["code"] not in codes:
        raise _invalid(f"With {action['status']} code must be one of {', '.join(codes)}.", "action.code")


def _check_match(match: dict[str, Any]) -> None:
    if match["method"] is not None:
        match["method"] = match["method"].upper()
        if match["method"] not in METHODS:
            raise _invalid(f"method must be one of {', '.join(METHODS)}.", "match.method")
    path = match["path"]
    if path is not None and (not path.startswith("/") or "*" in path[:-1]):
        raise _invalid("path must begin with a slash, and may have one * at its end.", "match.path")
    if match["key"] is not None and not match["key"].startswith(("key_", "app_")):
        raise _invalid("key must be the id of an API key or app, not its value.", "match.key")
    if match["endpoint"] is not None and not match["endpoint"].startswith("whe_"):
        raise _invalid("endpoint must be the id of a webhook endpoint.", "match.endpoint")
    if match["header"] is not None and not match["header"].partition(":")[0].strip():
        raise _invalid("header must be a name, or a name, a colon and a value.", "match.header")
    if match["type"] is not None and match["type"] not in outbox.KINDS:
        raise _invalid(f"type must be one of {', '.join(outbox.KINDS)}.", "match.type")


def _invalid(message: str, param: str) -> InvalidRequest:
    return InvalidRequest("invalid_value", message, param)


# Faults of webhooks


# The value of `delay_ms` for a webhook fault that does not set `delay_ms`. A delayed attempt waits for this
# time. A reordered attempt waits until another attempt to the same endpoint is sent, but no longer than this
# time.
LATER_MS = 1000
_TYPE = "Ledger-Event-Type"


@dataclass(slots=True, eq=False)
class _Endpoint:
    """The jobs of an endpoint that are not sent yet.

    `owner` is the endpoint's project and mode, or None until both are read from the ledger. As long as
    `owner` is None, all jobs stay in `waiting`.
    """

    owner: tuple[str, bool] | None = None
    waiting: deque[AttemptJob] = field(default_factory=deque)
    delayed: dict[int, asyncio.TimerHandle] = field(default_factory=dict)  # timers of delayed jobs, by number
    # Reordered jobs. Each waits until another job of the endpoint is sent, or its own waiting time is over.
    overtaken: list[AttemptJob] = field(default_factory=list)


class FaultySender:
    """A sender that applies the faults of webhooks: an `AnySender` around the sender that `make` creates."""

    def __init__(
        self,
        engine: Engine,
        faults: Faults,
        make: Callable[[Callable[[SendResult], None]], AnySender],
        report: Callable[[SendResult], None],
    ) -> None:
        self._engine = engine
        self._faults = faults
        self._report = report
        self._sender = make(self._take_result)
        self._endpoints: dict[str, _Endpoint] = {}
        # A duplicated job is sent again with a negative number, so that `_take_result` does not report the
        # result of the copy.
        self._copies = itertools.count(-1, -1)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_ready(self) -> bool:
        return self._sender.is_ready

    def submit(self, job: AttemptJob) -> None:
        endpoint = self._endpoints.get(job.endpoint)
        if endpoint is None:
            endpoint = self._endpoints[job.endpoint] = _Endpoint()
            task = asyncio.create_task(self._look_up(job.endpoint, endpoint))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if endpoint.owner is None:
            endpoint.waiting.append(job)
        else:
            self._send(endpoint, job)

    def drop(self, endpoint: str) -> None:
        state = self._endpoints.pop(endpoint, None)
        if state is not None:
            jobs = [*state.waiting, *state.overtaken]
            state.waiting.clear()
            state.overtaken.clear()
            for number, timer in state.delayed.items():
                timer.cancel()
                self._report(SendResult(number, made=False))
            state.delayed.clear()
            for job in jobs:
                self._report(SendResult(job.number, made=False))
        self._sender.drop(endpoint)

    def send_until(self, moment: float) -> None:
        self._sender.send_until(moment)

    async def stop(self, grace_s: float) -> None:
        for endpoint in list(self._endpoints):
            self.drop(endpoint)
        for task in self._tasks:
            task.cancel()
        await self._sender.stop(grace_s)

    def _take_result(self, result: SendResult) -> None:
        if result.number >= 0:
            self._report(result)

    async def _look_up(self, id: str, endpoint: _Endpoint) -> None:
        try:
            endpoint.owner = await self._engine.read(partial(_owner_of, endpoint=id))
        except LedgerError:
            self.drop(id)  # the deliverer of webhooks submitted the jobs, and will submit them again
            return
        while endpoint.waiting:
            self._send(endpoint, endpoint.waiting.popleft())

    def _send(self, endpoint: _Endpoint, job: AttemptJob) -> None:
        assert endpoint.owner is not None
        type = dict(json.loads(job.headers)).get(_TYPE, "")
        fault = self._faults.of_webhook(job.endpoint, type, *endpoint.owner)
        kind = None if fault is None else fault.action["webhook"]
        later_ms = LATER_MS if fault is None else fault.action["delay_ms"]
        later_s = (LATER_MS if later_ms is None else later_ms) / 1000
        if fault is not None and kind == "drop":
            self._report(SendResult(job.number, True, error=f"lost on the way: {fault.id}"))
        elif kind == "delay":
            endpoint.delayed[job.number] = asyncio.get_running_loop().call_later(
                later_s, self._send_delayed, endpoint, job
            )
        elif kind == "reorder":
            endpoint.overtaken.append(job)
            asyncio.get_running_loop().call_later(later_s, self._send_overtaken, endpoint, job)
        else:
            self._sender.submit(_corrupt(job) if kind == "corrupt" else job)
            if kind == "duplicate":
                self._sender.submit(job._replace(number=next(self._copies)))
            for overtaken_job in list(endpoint.overtaken):
                self._send_overtaken(endpoint, overtaken_job)

    def _send_delayed(self, endpoint: _Endpoint, job: AttemptJob) -> None:
        if endpoint.delayed.pop(job.number, None) is not None:
            self._sender.submit(job)

    def _send_overtaken(self, endpoint: _Endpoint, job: AttemptJob) -> None:
        if job in endpoint.overtaken:
            endpoint.overtaken.remove(job)
            self._sender.submit(job)


def _owner_of(unit: Unit, endpoint: str) -> tuple[str, bool]:
    """Return the project and mode of an endpoint; an empty project for a removed endpoint."""
    row = unit.first("SELECT project, livemode FROM webhook_endpoints WHERE id = :id", {"id": endpoint})
    return ("", False) if row is None else (row["project"], bool(row["livemode"]))


def _corrupt(job: AttemptJob) -> AttemptJob:
    """Return a copy of the job in which every signature is wrong."""
    headers = [
        (name, _wrong_signature(value) if "signature" in name.lower() else value)
        for name, value in json.loads(job.headers)
    ]
    return job._replace(headers=dumps(headers))


def _wrong_signature(signature: str) -> str:
    return " ".join(part[:-2] + ("00" if part[-2:] != "00" else "11") for part in signature.split(" "))
