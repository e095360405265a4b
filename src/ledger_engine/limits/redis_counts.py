"""Counts of requests in Redis, which all servers of one ledger share. redis-py is an extra of the package."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from redis import RedisError
from redis import asyncio as redis

from ledger_engine.limits import WallClock
from ledger_engine.limits.counted_together import ANSWER_S, Asked, Counted

_OPEN_S = 5
_PREFIX = "ledger:requests:"
# Redis runs it as one command. The windows are those of Redis's clock, so the clocks of the servers do not
# matter. It answers with the time, and for each caller how many requests are let through and the minute's.
_COUNT = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if ARGV[1] ~= '' then now = tonumber(ARGV[1]) end
local second, minute = math.floor(now / 1000), math.floor(now / 60000)
local answer = {now}
for number, key in ipairs(KEYS) do
    local requests, per_minute, per_second =
        tonumber(ARGV[3 * number - 1]), tonumber(ARGV[3 * number]), tonumber(ARGV[3 * number + 1])
    local had = redis.call('HMGET', key, 'second', 'in_second', 'minute', 'in_minute')
    local in_second, in_minute = 0, 0
    if tonumber(had[1]) == second then in_second = tonumber(had[2]) end
    if tonumber(had[3]) == minute then in_minute = tonumber(had[4]) end
    local granted = math.max(0, math.min(requests, per_minute - in_minute, per_second - in_second))
    if granted > 0 then
        in_second, in_minute = in_second + granted, in_minute + granted
        redis.call('HSET', key, 'second', second, 'in_second', in_second,
            'minute', minute, 'in_minute', in_minute)
        redis.call('PEXPIRE', key, 120000)
    end
    answer[#answer + 1] = granted
    answer[#answer + 1] = in_minute
end
return answer
"""


class Unusable(Exception):
    """There is no Redis at an address, or it cannot be used."""


class RedisCounts:
    """The `Counter` that is a Redis database, and not a cluster: one script counts for several callers."""

    def __init__(self, url: str, wall_clock: WallClock | None = None) -> None:
        """With a `wall_clock` the windows are of that, in place of Redis's clock. Raises ValueError."""
        self._wall_clock = wall_clock
        self._client = redis.Redis.from_url(
            url, socket_timeout=ANSWER_S, socket_connect_timeout=ANSWER_S, decode_responses=True
        )
        self._count = self._client.register_script(_COUNT)

    @classmethod
    async def open(cls, url: str) -> RedisCounts:
        """Return a counter of a Redis that answers. Raises Unusable, with the reason."""
        try:
            counts = cls(url)
        except ValueError as error:
            raise Unusable(str(error).rstrip(".")) from error
        try:
            async with asyncio.timeout(_OPEN_S):
                await counts.count([Asked("", 0, 0, 0)])
        except (RedisError, OSError) as error:  # TimeoutError is an OSError
            await counts.close()
            raise Unusable(str(error).rstrip(".") or "it does not answer") from error
        return counts

    async def count(self, asked: Sequence[Asked]) -> list[Counted]:
        """Count as `Counter.count` says. Raises RedisError."""
        given: list[str | int] = ["" if self._wall_clock is None else int(self._wall_clock() * 1000)]
        for each in asked:
            given += (each.requests, each.per_minute, each.per_second)
        now, *counts = await self._count(keys=[_PREFIX + each.who for each in asked], args=given)
        return [
            Counted(granted, in_minute, now)
            for granted, in_minute in zip(counts[::2], counts[1::2], strict=True)
        ]

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()
