"""The sender: makes the attempts submitted, in order for each endpoint, which do not delay each other.

Each endpoint has a lane. Its first attempts are made one after the other: the next starts once the one before
has a result, or was sent a quarter of a second ago. So a receiver that is slow or hangs delays only its own
lane, and that not for ever. Retries are made beside them.

A lane may always have one of each under way. Further ones count against a limit that all lanes share, so that
a working receiver gets its events however many others hang.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import ssl
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from ledger_engine.core.records import dumps
from ledger_engine.events.webhooks.addresses import Target
from ledger_engine.events.webhooks.exchange import Failed, ReceiverConnection, Response, connect

DEADLINE_S = 15  # for a whole attempt (docs/decisions.md#webhooks-retries)
OVERTAKE_S = 0.25
FIRSTS_MAX = 8  # first attempts under way in one lane
RETRIES_MAX = 4
SHARED_MAX = 128  # under way in all lanes together, beyond the one that each lane may always have
IDLE_S = 4  # servers keep a connection for 5 seconds or more


class Job(NamedTuple):
    """One attempt to make. `number` is the caller's; host, port, TLS and path are those of a Target.

    `headers` are JSON text, an array of pairs: they are recorded as they are sent, and rendered only once.
    """

    number: int
    endpoint: str
    is_first: bool
    livemode: bool
    host: str
    port: int
    tls: bool
    path: str
    headers: str
    body: str


class SendResult(NamedTuple):
    """The result of a job. Without `made` it was not started, or cancelled: its outcome is unknown.

    `error` is None for a 2xx answer within the deadline; `status`, `headers` (JSON text like those of a job)
    and `body` are the receiver's, None without an answer.
    """

    number: int
    made: bool
    latency_ms: int = 0
    status: int | None = None
    error: str | None = None
    headers: str | None = None
    body: str | None = None


@dataclass(slots=True, eq=False)
class _Queue:
    """The jobs of one lane, started in the order submitted, at most `most` under way at once.

    With `in_order` the last job started is the `head`: the next is started when that one has a result or was
    sent long enough ago.
    """

    lane: _Lane
    most: int
    in_order: bool
    waiting: deque[Job] = field(default_factory=deque)
    under_way: int = 0
    head: Job | None = None


@dataclass(slots=True, eq=False)
class _Lane:
    endpoint: str
    idle: dict[ReceiverConnection, asyncio.TimerHandle] = field(default_factory=dict)
    firsts: _Queue = field(init=False)
    retries: _Queue = field(init=False)

    def __post_init__(self) -> None:
        self.firsts = _Queue(self, FIRSTS_MAX, in_order=True)
        self.retries = _Queue(self, RETRIES_MAX, in_order=False)

    @property
    def is_empty(self) -> bool:
        return not self.idle and not any(
            queue.waiting or queue.under_way for queue in (self.firsts, self.retries)
        )


class Sender:
    """Makes the attempts submitted; `report` is called once with each result."""

    is_ready = True

    def __init__(self, report: Callable[[SendResult], None], deadline_s: float = DEADLINE_S) -> None:
        self._report = report
        self._deadline_s = deadline_s
        self._lanes: dict[str, _Lane] = {}
        self._shared = 0
        self._until = math.inf
        self._wanting: dict[_Queue, None] = {}  # queues waiting for the shared limit, oldest first
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(self, job: Job) -> None:
        """Submit a job. An endpoint's first attempts are started in the order submitted."""
        lane = self._lanes.get(job.endpoint)
        if lane is None:
            lane = self._lanes[job.endpoint] = _Lane(job.endpoint)
        queue = lane.firsts if job.is_first else lane.retries
        queue.waiting.append(job)
        self._begin_what_may(queue)

    def drop(self, endpoint: str) -> None:
        """Return the endpoint's jobs that were not started as not made, and close its idle connections."""
        lane = self._lanes.get(endpoint)
        if lane is None:
            return
        waiting = [*lane.firsts.waiting, *lane.retries.waiting]
        lane.firsts.waiting.clear()
        lane.retries.waiting.clear()
        for connection in list(lane.idle):
            self._close_idle(lane, connection)
        for job in waiting:
            self._report(SendResult(job.number, made=False))

    def send_until(self, moment: float) -> None:
        """Start no attempt at or after this moment of the monotonic clock: return the jobs as not made."""
        self._until = moment

    async def stop(self, grace_s: float) -> None:
        """Start nothing more, give attempts under way `grace_s` seconds to end, and cancel the rest."""
        for endpoint in list(self._lanes):
            self.drop(endpoint)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for endpoint in list(self._lanes):
            self.drop(endpoint)

    def _begin_what_may(self, queue: _Queue) -> None:
        while queue.waiting and queue.head is None and queue.under_way < queue.most:
            if queue.under_way and self._shared >= SHARED_MAX:
                self._wanting[queue] = None
                return
            job = queue.waiting.popleft()
            self._shared += queue.under_way > 0
            queue.under_way += 1
            queue.head = job if queue.in_order else None
            task = asyncio.create_task(self._make(queue, job))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _make(self, queue: _Queue, job: Job) -> None:
        """Make one attempt and report it, then start the jobs that waited for it."""
        answer = SendResult(job.number, made=False)
        try:
            if time.monotonic() < self._until:
                answer = await self._attempt(queue, job)
            else:
                self.drop(job.endpoint)  # or those after it would be sent before it
        finally:
            queue.under_way -= 1
            self._shared -= queue.under_way > 0
            self._report(answer)
            self._pass_on(queue, job)
            while self._wanting and self._shared < SHARED_MAX:
                longest = next(iter(self._wanting))
                del self._wanting[longest]
                self._begin_what_may(longest)
            self._forget_if_empty(queue.lane)

    async def _attempt(self, queue: _Queue, job: Job) -> SendResult:
        began = time.monotonic()
        error: str | None
        response = None
        try:
            async with asyncio.timeout(self._deadline_s):
                response = await self._post(queue, job)
            error = _error_of(response.status)
        except TimeoutError:
            error = f"no complete answer within {self._deadline_s:g} s"
        except Failed as failure:
            error = str(failure)
        except ssl.SSLError as failure:
            error = f"TLS: {failure.reason or failure}"
        except OSError as failure:
            error = os.strerror(failure.errno) if failure.errno else str(failure)
        except Exception as failure:
            # Count any error as a failure: a job reported as not made would come again at once.
            error = f"{type(failure).__name__}: {failure}"
        latency_ms = round((time.monotonic() - began) * 1000)
        if response is None:
            return SendResult(job.number, True, latency_ms, error=error)
        headers = dumps(response.headers)
        return SendResult(job.number, True, latency_ms, response.status, error, headers, response.body)

    async def _post(self, queue: _Queue, job: Job) -> Response:
        loop = asyncio.get_running_loop()
        target = Target(job.host, job.port, job.tls, job.path)
        lane = queue.lane
        overtaken: asyncio.TimerHandle | None = None

        def on_sent() -> None:
            nonlocal overtaken
            if queue.in_order:
                overtaken = loop.call_later(OVERTAKE_S, self._pass_on, queue, job)

        while True:
            connection = _take_idle(lane)
            used_before = connection is not None
            if connection is None:
                connection = await connect(target, livemode=job.livemode)
            try:
                headers = json.loads(job.headers)
                response = await connection.post(job.path, headers, job.body.encode(), on_sent)
            except (Failed, OSError):
                connection.close()
                # Receivers close idle connections; one that closed as our request was sent is no failure.
                if not used_before or connection.answering:
                    raise
                continue
            except BaseException:
                connection.close()
                raise
            finally:
                if overtaken is not None:
                    overtaken.cancel()
            self._keep(lane, connection)
            return response

    def _pass_on(self, queue: _Queue, job: Job) -> None:
        """Let the next job start, as this one has a result or was sent long enough ago."""
        if queue.head is job:
            queue.head = None
        self._begin_what_may(queue)

    def _keep(self, lane: _Lane, connection: ReceiverConnection) -> None:
        if not connection.make_ready():
            connection.close()
            return
        loop = asyncio.get_running_loop()
        lane.idle[connection] = loop.call_later(IDLE_S, self._close_idle, lane, connection)

    def _close_idle(self, lane: _Lane, connection: ReceiverConnection) -> None:
        lane.idle.pop(connection).cancel()
        connection.close()
        self._forget_if_empty(lane)

    def _forget_if_empty(self, lane: _Lane) -> None:
        if lane.is_empty and self._lanes.get(lane.endpoint) is lane:
            del self._lanes[lane.endpoint]


def _take_idle(lane: _Lane) -> ReceiverConnection | None:
    while lane.idle:
        connection, timer = lane.idle.popitem()
        timer.cancel()
        if connection.is_open:
            return connection
        connection.close()
    return None


def _error_of(status: int) -> str | None:
    if 200 <= status < 300:
        return None
    return f"answered {status}" + (": redirects are not followed" if 300 <= status < 400 else "")
