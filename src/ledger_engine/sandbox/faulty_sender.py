"""A sender of webhooks to whose jobs faults happen."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from ledger_engine.core.errors import LedgerError
from ledger_engine.core.records import dumps
from ledger_engine.events.webhooks.sender_process import AnySender
from ledger_engine.events.webhooks.sending import Job, SendResult
from ledger_engine.sandbox.faults import Faults
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine

LATER_MS = 1000  # how long an attempt waits that is delayed, or for one to overtake it, unless it is said
_TYPE = "Ledger-Event-Type"


@dataclass(slots=True, eq=False)
class _Endpoint:
    """An endpoint's project and mode once they are known; until then its jobs wait."""

    owner: tuple[str, bool] | None = None
    waiting: deque[Job] = field(default_factory=deque)
    delayed: dict[int, asyncio.TimerHandle] = field(default_factory=dict)  # delayed jobs, by number
    overtaken: list[Job] = field(default_factory=list)  # jobs that wait for another one to overtake them


class FaultySender:
    """Passes jobs on to the sender that `make` makes, except for the faults; see `AnySender`."""

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
        self._copies = itertools.count(-1, -1)  # numbers of the second of two attempts
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_ready(self) -> bool:
        return self._sender.is_ready

    def submit(self, job: Job) -> None:
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
        known = self._endpoints.pop(endpoint, None)
        if known is not None:
            jobs = [*known.waiting, *known.overtaken]
            known.waiting.clear()
            known.overtaken.clear()
            for number, timer in known.delayed.items():
                timer.cancel()
                self._report(SendResult(number, made=False))
            known.delayed.clear()
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
            self.drop(id)  # the deliverer submits its jobs again
            return
        while endpoint.waiting:
            self._send(endpoint, endpoint.waiting.popleft())

    def _send(self, endpoint: _Endpoint, job: Job) -> None:
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
            self._sender.submit(_corrupted(job) if kind == "corrupt" else job)
            if kind == "duplicate":
                self._sender.submit(job._replace(number=next(self._copies)))
            for each in list(endpoint.overtaken):
                self._send_overtaken(endpoint, each)

    def _send_delayed(self, endpoint: _Endpoint, job: Job) -> None:
        if endpoint.delayed.pop(job.number, None) is not None:
            self._sender.submit(job)

    def _send_overtaken(self, endpoint: _Endpoint, job: Job) -> None:
        if job in endpoint.overtaken:
            endpoint.overtaken.remove(job)
            self._sender.submit(job)


def _owner_of(unit: Unit, endpoint: str) -> tuple[str, bool]:
    """Return the project and mode of an endpoint, empty for one that is gone."""
    row = unit.first("SELECT project, livemode FROM webhook_endpoints WHERE id = :id", {"id": endpoint})
    return ("", False) if row is None else (row["project"], bool(row["livemode"]))


def _corrupted(job: Job) -> Job:
    """Return the job with signatures that do not fit."""
    headers = [
        (name, _other(value) if "signature" in name.lower() else value)
        for name, value in json.loads(job.headers)
    ]
    return job._replace(headers=dumps(headers))


def _other(signature: str) -> str:
    return " ".join(each[:-2] + ("00" if each[-2:] != "00" else "11") for each in signature.split(" "))
