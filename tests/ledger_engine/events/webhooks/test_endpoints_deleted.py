"""Deleted endpoints can be restored for 30 days, with a new secret."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ledger_engine.access import projects
from ledger_engine.access.projects import Changes
from ledger_engine.core.clock import DAY
from ledger_engine.core.errors import DuplicateIdempotencyKey, NotFound
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.events.webhooks import endpoints
from ledger_engine.events.webhooks.endpoints import EndpointWithSecret, NewEndpoint
from ledger_engine.ledger import accounts
from ledger_engine.store.engine import Engine
from tests.ledger_engine.conftest import Run
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.refusals import refusal

NEW = ("whsec_new", "sealed")


async def register(write: Run, *kinds: str) -> EndpointWithSecret:
    made: EndpointWithSecret = await write(
        endpoints.create, NewEndpoint("http://127.0.0.1:4242/", list(kinds) or ["*"]), "whsec_old", "old"
    )
    return made


async def test_a_deleted_endpoint_is_restored_with_a_new_secret_for_the_events_from_now_on(
    engine: Engine, write: Run, read: Run, clock: ManualClock, tenant: Tenant
) -> None:
    made = await register(write, "account.created")
    await write(endpoints.delete, made.id)
    assert [each.id for each in await engine.read(lambda unit: endpoints.deleted(unit, tenant.project))] == [
        made.id
    ]
    missed = await write(accounts.create, accounts.NewAccount("Till", "EUR", {}))
    assert missed
    clock.advance(30 * DAY)
    assert await write(endpoints.restore, made.id, *NEW) == replace(made, secret="whsec_new")
    assert (await read(endpoints.get, made.id)).created == made.created
    [subscription] = await engine.read(endpoints.subscriptions)
    assert (subscription.secret, subscription.cursor) == ("sealed", await read(outbox.resume, None))
    assert await engine.read(lambda unit: endpoints.deleted(unit, tenant.project)) == []


async def test_a_disabled_endpoint_comes_back_disabled(engine: Engine, write: Run) -> None:
    made = await register(write)
    disabled = await write(endpoints.disable, made.id)
    await write(endpoints.delete, made.id)
    restored = await write(endpoints.restore, made.id, *NEW)
    assert (restored.status, restored.disabled_at) == ("disabled", disabled.disabled_at)
    assert await engine.read(endpoints.subscriptions) == []


async def test_after_30_days_it_is_gone_whether_or_not_it_was_purged(
    engine: Engine, write: Run, clock: ManualClock, tenant: Tenant
) -> None:
    made = await register(write)
    await write(endpoints.delete, made.id)
    clock.advance(30 * DAY + 1)
    with pytest.raises(NotFound):
        await write(endpoints.restore, made.id, *NEW)
    assert await engine.read(lambda unit: endpoints.deleted(unit, tenant.project)) == []


async def test_an_endpoint_that_is_not_deleted_keeps_its_secret(engine: Engine, write: Run) -> None:
    made = await register(write)
    assert (await refusal(write(endpoints.restore, made.id, *NEW)))[0] == "not_recoverable"
    assert await engine.read(endpoints.sealed_secrets) == [(made.id, "old")]


async def test_to_others_a_deleted_endpoint_does_not_exist(
    write: Run, stranger: Tenant, tenant: Tenant
) -> None:
    made = await register(write)
    await write(endpoints.delete, made.id)
    for other in (stranger, replace(tenant, livemode=True)):
        with pytest.raises(NotFound):
            await write(endpoints.restore, made.id, *NEW, by=other)


async def test_a_restored_endpoint_counts_for_the_plan(engine: Engine, write: Run, tenant: Tenant) -> None:
    await engine.write(lambda unit: projects.update(unit, tenant.project, Changes(plan="free")))
    made = await register(write)
    await write(endpoints.delete, made.id)
    for _ in range(5):
        await register(write)
    assert (await refusal(write(endpoints.restore, made.id, *NEW, "key")))[0] == "quota_exceeded"
    [other, *_] = await engine.read(lambda unit: endpoints.every(unit, tenant.project))
    await write(endpoints.delete, other.id)
    assert (await write(endpoints.restore, made.id, *NEW, "key")).id == made.id
    with pytest.raises(DuplicateIdempotencyKey):
        await write(endpoints.restore, other.id, *NEW, "key")


async def test_who_may_not_read_users_restores_no_endpoint_that_gets_their_events(
    write: Run, tenant: Tenant
) -> None:
    writer = replace(tenant, scopes=frozenset({"write:projects"}))
    told, untold = await register(write, "user.created"), await register(write, "order.paid")
    for made in (told, untold):
        await write(endpoints.delete, made.id)
    assert (await refusal(write(endpoints.restore, told.id, *NEW, by=writer)))[0] == "missing_scope"
    assert (await write(endpoints.restore, untold.id, *NEW, by=writer)).id == untold.id
