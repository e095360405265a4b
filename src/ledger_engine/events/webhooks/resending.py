"""Resending of all deliveries that failed since a time, in short turns.

There may be many, and in one commit they would make every other writer wait. When a resend is interrupted,
part of the deliveries were resent and its idempotency key is not used: the same request does the rest.
"""

from __future__ import annotations

from functools import partial

from ledger_engine.access import idempotency
from ledger_engine.core.tenant import Tenant
from ledger_engine.events.webhooks import deliveries, endpoints
from ledger_engine.limits import Place
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine
from ledger_engine.store.turns import AT_ONCE, take_turns

_ONE_AT_A_TIME = Place("resending", 1)


async def resend_failed(
    engine: Engine, tenant: Tenant, since: int, endpoint: str | None = None, key: str | None = None
) -> int:
    """Send again, now, the deliveries last attempted at `since` or later that failed; return how many.

    Only to enabled endpoints, or to the one given. Deliveries that are already waiting to be resent stay as
    they are. Raises NotFound for the endpoint, and DuplicateIdempotencyKey.
    """
    # One at a time: the turns of several together would be grouped into one long commit.
    async with engine.shared.places.hold(_ONE_AT_A_TIME, wait=True):
        wanted, until = await engine.read(partial(_begin, tenant=tenant, endpoint=endpoint, key=key))
        attempted_at, count = since, 0

        async def turn() -> int:
            nonlocal attempted_at, count
            find = partial(deliveries.failed, tenant=tenant, wanted=wanted, since=attempted_at)
            # Read outside of the commit, as many unwanted ones may lie between two that are wanted.
            found = await engine.read(partial(find, until=until, limit=AT_ONCE))
            if found:
                attempted_at = found[-1].attempted_at
                ids = [delivery.id for delivery in found]
                count += await engine.write(partial(deliveries.send_again, ids=ids))
            return len(found)

        await take_turns(turn)
        # Last, so that an interrupted request can be repeated.
        if key is not None:
            object = endpoint or tenant.project
            await engine.write(partial(idempotency.take, tenant=tenant, key=key, object=object))
        return count


def _begin(unit: Unit, tenant: Tenant, endpoint: str | None, key: str | None) -> tuple[list[str], int]:
    """Return the endpoints to resend to, and the time after which failures are left out."""
    wanted = [each.endpoint for each in endpoints.enabled(unit, tenant, endpoint, "endpoint")]
    used = None if key is None else idempotency.second_use(unit, tenant, key)
    if used is not None:
        raise used
    return wanted, unit.now
