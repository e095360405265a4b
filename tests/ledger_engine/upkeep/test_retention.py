"""What is kept for a time only."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from ledger_engine.access.oauth import apps
from ledger_engine.core import tasks
from ledger_engine.core.clock import DAY
from ledger_engine.core.tenant import Tenant
from ledger_engine.events.webhooks import deliveries, endpoints
from ledger_engine.ledger import orders, users
from ledger_engine.store.engine import Engine
from ledger_engine.store.pages import PageRequest
from ledger_engine.upkeep import retention
from ledger_engine.upkeep.retention import Retention
from tests.contract.rules import holds
from tests.ledger_engine.conftest import Run
from tests.ledger_engine.events.test_request_log import log, logged
from tests.ledger_engine.events.webhooks.test_attempts import begin
from tests.ledger_engine.leases_of_others import leave_to_others
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.waiting import looked_until, until

ADA = users.NewUser("Ada Lind", "ada@example.com")


@pytest.fixture
def keeper(engine: Engine, clock: ManualClock) -> Retention:
    return Retention(engine)


@holds("quotas-request-logs")
async def test_a_request_is_logged_for_seven_days(
    engine: Engine, tenant: Tenant, clock: ManualClock, keeper: Retention
) -> None:
    await log(engine, tenant)
    await log(engine, Tenant(tenant.project, livemode=True))
    clock.advance(7 * DAY)
    await keeper.clean_up()
    assert len(await logged(engine, tenant)) == 1
    clock.advance(1)
    await keeper.clean_up()
    assert await logged(engine, tenant) == []
    assert await logged(engine, Tenant(tenant.project, livemode=True)) == []


async def test_however_many_there_are_all_of_them_go(
    engine: Engine, tenant: Tenant, clock: ManualClock, keeper: Retention, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", 3)
    monkeypatch.setattr(tasks, "LEAST_REST_S", 0)
    for _ in range(10):
        await log(engine, tenant)
    clock.advance(8 * DAY)
    await keeper.clean_up()
    assert await logged(engine, tenant) == []


async def test_deliveries_are_kept_as_long_as_the_log(
    engine: Engine, clock: ManualClock, tenant: Tenant, keeper: Retention, read: Run
) -> None:
    sending = await begin(engine, clock, tenant, ["*"])
    done, waiting = await sending.happen(2)
    await sending.record(sending.outcome(done), sending.failure(waiting))
    clock.advance(8 * DAY)
    await keeper.clean_up()
    found = await read(deliveries.page, sending.subscription.endpoint, PageRequest())
    assert [each.event for each in found.items] == [waiting]


async def test_a_deactivated_user_is_erased_after_thirty_days(
    engine: Engine, clock: ManualClock, keeper: Retention, write: Run, read: Run
) -> None:
    user = await write(users.create, ADA)
    await write(users.deactivate, user.id)
    clock.advance(30 * DAY)
    await keeper.clean_up()
    assert (await read(users.get, user.id)).email == ADA.email
    clock.advance(1)
    await keeper.clean_up()
    erased = await read(users.get, user.id)
    assert (erased.id, erased.name, erased.email, erased.status) == (user.id, None, None, "deactivated")


async def test_a_deleted_endpoint_and_app_are_forgotten_after_thirty_days(
    engine: Engine, tenant: Tenant, clock: ManualClock, keeper: Retention, write: Run
) -> None:
    new = endpoints.NewEndpoint("http://127.0.0.1:9/", ["*"])
    endpoint = await write(endpoints.create, new, "whsec_", "sealed")
    app = await write(apps.create, apps.NewApp("Planner", ["https://app.example/"]))
    await write(endpoints.delete, endpoint.id)
    await engine.write(lambda unit: apps.delete(unit, app.id))
    kept = "SELECT id FROM apps UNION ALL SELECT id FROM deleted_webhook_endpoints WHERE url <> ''"
    for run, left in ((30 * DAY, 2), (1, 0)):
        clock.advance(run)
        await keeper.clean_up()
        assert len(await engine.read(lambda unit: unit.execute(kept))) == left


async def test_nothing_that_was_recorded_of_an_erased_user_names_them(
    engine: Engine, clock: ManualClock, keeper: Retention, write: Run, recorded: Run
) -> None:
    user = await write(users.create, ADA)
    other = await write(users.create, users.NewUser("Eve", "eve@example.com"))
    await write(orders.create, orders.NewOrder(user.id, [{"sku": "beans"}]))
    await write(users.deactivate, user.id)
    before = await recorded()
    clock.advance(31 * DAY)
    await keeper.clean_up()
    after: list[dict[str, Any]] = await recorded()
    assert "ada@example.com" not in json.dumps(after)
    assert "Ada Lind" not in json.dumps(after)
    assert [event["id"] for event in after] == [event["id"] for event in before]
    named = [event["data"]["object"] for event in after if event["type"] == "user.created"]
    assert [(each["id"], each["name"]) for each in named] == [(user.id, None), (other.id, "Eve")]


async def test_a_user_with_many_events_is_erased_some_of_them_at_a_time(
    engine: Engine,
    clock: ManualClock,
    keeper: Retention,
    write: Run,
    read: Run,
    recorded: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", 2)
    monkeypatch.setattr(tasks, "LEAST_REST_S", 0)
    user = await write(users.create, ADA)
    for _ in range(3):
        await write(users.deactivate, user.id)
        await write(users.restore, user.id)
    await write(users.deactivate, user.id)
    clock.advance(31 * DAY)
    named: list[int] = []
    real = engine.write

    async def watch(work: Any) -> Any:
        answer = await real(work)
        named.append(sum("ada@example.com" in json.dumps(event) for event in await recorded()))
        return answer

    monkeypatch.setattr(engine, "write", watch)
    await keeper.clean_up()
    steps = [before - after for before, after in zip([8, *named], named, strict=False)]
    assert (sum(steps), max(steps)) == (8, 2)
    assert (await read(users.get, user.id)).email is None


async def test_it_cleans_up_each_hour_by_itself_and_not_before_the_first(
    engine: Engine, tenant: Tenant, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    hour = asyncio.Event()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await hour.wait()
        hour.clear()

    monkeypatch.setattr(retention, "asyncio", SimpleNamespace(sleep=sleep, create_task=asyncio.create_task))
    await log(engine, tenant)
    clock.advance(400 * DAY)
    keeper = Retention(engine)
    keeper.start()
    await until(lambda: waits)
    assert waits == [3600]
    assert await logged(engine, tenant), "a clock that is wrong at a start can be set right"
    hour.set()
    await looked_until(lambda: logged(engine, tenant), lambda found: not found)
    await until(lambda: waits == [3600, 3600])
    await keeper.stop()


async def test_of_several_servers_only_the_leader_cleans_up(
    engine: Engine, tenant: Tenant, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "EVERY_S", 0.01)
    leases = leave_to_others(engine)
    await log(engine, tenant)
    clock.advance(8 * DAY)
    keeper = Retention(engine)
    keeper.start()
    await asyncio.sleep(0.1)
    assert await logged(engine, tenant)
    leases.leader = True
    await looked_until(lambda: logged(engine, tenant), lambda found: not found)
    await keeper.stop()
