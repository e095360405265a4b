"""Sending again all that failed since a time, in short turns.

It may be much, and in one commit it would have everybody wait who writes. A resend that is cut off has sent
a part again, and its idempotency key is not used: the same request does the rest.
"""

from __future__ import annotations

import asyncio
from functools import partial
from weakref import WeakKeyDictionary

from ledger_engine.access import idempotency
from ledger_engine.core.errors import DuplicateIdempotencyKey
from ledger_engine.core.tenant import Tenant
from ledger_engine.database import Unit
from ledger_engine.database.engine import Engine
from ledger_engine.database.turns import AT_ONCE, take_turns
from ledger_engine.events.webhooks import deliveries, endpoints


async def resend_failed(
    engine: Engine, tenant: Tenant, since: int, endpoint: str | None = None, key: str | None = None
) -> int:
    """Send again, now, what was last attempted since `since` and failed; return how many those are.

    Only to enabled endpoints, or to the one given. What is to be sent again already is left as it is. Raises
    NotFound for the endpoint, and DuplicateIdempotencyKey.
    """
    # The turns of several at once would be one commit, as long as if it were done without turns.
    async with _ONE_AT_A_TIME.setdefault(engine, asyncio.Lock()):
        wanted, until = await engine.read(partial(_begin, tenant=tenant, endpoint=endpoint, key=key))
        attempted_at, count = since, 0

        async def turn() -> int:
            nonlocal attempted_at, count
            find = partial(deliveries.failed, tenant=tenant, wanted=wanted, since=attempted_at)
            # Looked for outside of the commit: there may be many that are not wanted between two that are.
            found = await engine.read(partial(find, until=until, limit=AT_ONCE))
            if found:
                attempted_at = found[-1].attempted_at
                ids = [delivery.id for delivery in found]
                count += await engine.write(partial(deliveries.send_again, ids=ids))
            return len(found)

        await take_turns(turn)
        # Last, so that a request that was cut off can be repeated.
        if key is not None:
            object = endpoint or tenant.project
            await engine.write(partial(idempotency.take, tenant=tenant, key=key, object=object))
        return count


def _begin(unit: Unit, tenant: Tenant, endpoint: str | None, key: str | None) -> tuple[list[str], int]:
    """Return the endpoints it is for, and the moment: what fails from now on is not sent again."""
    wanted = [each.endpoint for each in endpoints.enabled(unit, tenant, endpoint, "endpoint")]
    first = None if key is None else idempotency.taken_for(unit, tenant, key)
    if first is not None:
        raise DuplicateIdempotencyKey(first)
    return wanted, unit.now


_ONE_AT_A_TIME: WeakKeyDictionary[Engine, asyncio.Lock] = WeakKeyDictionary()
