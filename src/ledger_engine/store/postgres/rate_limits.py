"""Rate limits that all servers on one database enforce together, with the table of `rate_counts`.

One statement counts all requests that are waiting. So a busy server sends few statements, and an idle server
counts a request at once. A server remembers each refusal: until the minute ends if the limit per minute was
exceeded, and otherwise until the second ends. So it answers a flood of requests from memory. If the table
does not answer, each server counts by itself and tries the table again in the background.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from itertools import chain
from typing import NamedTuple

from ledger_engine.core.tasks import cancel
from ledger_engine.limits import RateWindows, Verdict, end_of_minute
from ledger_engine.store.postgres.rate_counts import ANSWER_S, CountRequest, CountResult, RateCounts

RETRY_S = 1.0  # seconds after which a server that counts by itself tries the table again
CALLERS_AT_ONCE = 256  # the most callers whose requests one statement counts
_REFUSALS_MAX = 10_000

log = logging.getLogger("ledger_engine.limits")


class _Waiter(NamedTuple):
    request: CountRequest
    verdict: asyncio.Future[Verdict]


class _Refusal(NamedTuple):
    """A remembered refusal of a caller. It is valid until the database's clock shows the second `until`.

    `limits` are the caller's limits per minute and per second when the request was refused. `reset` is the
    second in which the minute ends.
    """

    until: int
    ahead: float  # the time of the database's clock minus the time of this process's monotonic clock
    limits: tuple[int, int]
    reset: int


class CountedTogether:
    """Counts the requests of all servers on one database. Use it in one event loop."""

    def __init__(self, counter: RateCounts, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._counter = counter
        self._monotonic = monotonic
        self._own_windows = RateWindows()
        # While this server counts by itself, the time at which the server tries the table again; else None.
        self._alone_until: float | None = None
        self._waiting: dict[str, list[_Waiter]] = {}  # the requests that wait for a verdict, by caller
        self._asking: asyncio.Task[None] | None = None
        self._refusals: dict[str, _Refusal] = {}

    async def count(self, who: str, per_minute: int, per_second: int) -> Verdict:
        """Count one request of `who`.

        The count of the minute does not include requests that the limit per second refuses.
        """
        refusal = self._remembered_refusal(who, (per_minute, per_second)) if who in self._refusals else None
        return refusal or await self._ask(CountRequest(who, 1, per_minute, per_second))

    async def peek(self, who: str, per_minute: int) -> Verdict:
        """Return the verdict without counting a request. Use this for requests that are never refused."""
        return await self._ask(CountRequest(who, 0, per_minute, per_minute))

    async def close(self) -> None:
        """Close the connection. The requests that are still waiting are counted by this server alone."""
        self._alone_until = float("inf")
        await cancel(self._asking)
        await self._settle_alone()
        await self._counter.close()

    async def _ask(self, request: CountRequest) -> Verdict:
        if self._alone_until is not None:
            if self._monotonic() >= self._alone_until and (self._asking is None or self._asking.done()):
                self._asking = asyncio.create_task(self._try_again(request._replace(requests=0)))
            return await self._count_alone(request)
        waiter = _Waiter(request, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(request.who, []).append(waiter)
        if self._asking is None or self._asking.done():
            # The task begins in the next iteration of the loop, with all requests that arrive in this
            # iteration.
            self._asking = asyncio.create_task(self._answer_all())
        return await waiter.verdict

    async def _answer_all(self) -> None:
        """Count the waiting requests until none is left."""
        while self._waiting:
            callers = {who: self._waiting.pop(who) for who in [*self._waiting][:CALLERS_AT_ONCE]}
            began = self._monotonic()
            try:
                async with asyncio.timeout(ANSWER_S):
                    results = await self._counter.count([_merge(waiters) for waiters in callers.values()])
            except BaseException as error:  # any error: every waiting request must get a verdict
                for who, waiters in callers.items():
                    self._waiting[who] = waiters + self._waiting.get(who, [])
                if not isinstance(error, Exception):
                    raise
                reason = (
                    "no answer" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
                )
                log.warning("rate limits are counted by this server alone for now: %s", reason)
                self._alone_until = self._monotonic() + RETRY_S
                await self._settle_alone()
                return
            for waiters, result in zip(callers.values(), results, strict=True):
                self._settle(waiters, result, began)

    async def _try_again(self, request: CountRequest) -> None:
        """Send the counter a request that counts nothing. If the counter answers, use it again."""
        try:
            async with asyncio.timeout(ANSWER_S):
                await self._counter.count([request])
        except Exception:  # any error: the counter cannot be used
            self._alone_until = self._monotonic() + RETRY_S
        else:
            self._alone_until = None
            log.warning("rate limits are counted together with other servers again")

    async def _settle_alone(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for request, verdict in chain.from_iterable(waiting.values()):
            if not verdict.done():
                verdict.set_result(await self._count_alone(request))

    async def _count_alone(self, request: CountRequest) -> Verdict:
        if request.requests:
            return await self._own_windows.count(request.who, request.per_minute, request.per_second)
        return await self._own_windows.peek(request.who, request.per_minute)

    def _settle(self, waiters: list[_Waiter], result: CountResult, began: float) -> None:
        """Give each request of one caller a verdict; the first `result.granted` requests are let through."""
        now = result.now // 1000
        reset = end_of_minute(now)
        number, most = result.in_minute - result.granted, result.in_minute
        for request, verdict in waiters:
            limit = request.per_minute
            if not request.requests:
                answer = Verdict(limit, max(0, limit - most), reset)
            elif number < most:
                number += 1
                answer = Verdict(limit, max(0, limit - number), reset)
            else:
                is_minute = most >= limit
                answer = Verdict(limit, 0, reset, wait=reset - now if is_minute else 1)
                ahead = result.now / 1000 - began
                limits = (limit, request.per_second)
                if len(self._refusals) >= _REFUSALS_MAX:
                    self._refusals.clear()
                self._refusals[request.who] = _Refusal(reset if is_minute else now + 1, ahead, limits, reset)
            if not verdict.done():
                verdict.set_result(answer)

    def _remembered_refusal(self, who: str, limits: tuple[int, int]) -> Verdict | None:
        """Return the verdict for a caller whose remembered refusal is still valid, or None.

        This method estimates the time of the database's clock. The estimate is never behind that clock, and
        ahead of it by at most the time that the counter took to answer. So no refusal lasts too long.
        """
        refusal = self._refusals[who]
        now = int(self._monotonic() + refusal.ahead)
        if now >= refusal.until or refusal.limits != limits:
            del self._refusals[who]
            return None
        wait = refusal.reset - now if refusal.until == refusal.reset else 1
        return Verdict(limits[0], 0, refusal.reset, wait)


def _merge(waiters: list[_Waiter]) -> CountRequest:
    """Return one request that counts all waiting requests of a caller.

    A request that only reads the count adds 0. The limits come from the newest request that adds to the
    count. If no request adds to the count, the limits come from the newest request.
    """
    last = waiters[-1].request
    counting = [waiter.request for waiter in waiters if waiter.request.requests] or [last]
    return last._replace(
        requests=sum(waiter.request.requests for waiter in waiters),
        per_minute=counting[-1].per_minute,
        per_second=counting[-1].per_second,
    )
