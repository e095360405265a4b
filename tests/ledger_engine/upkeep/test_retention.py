"""What is kept for a time only."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ledger_engine.core.clock import DAY
from ledger_engine.core.tenant import Scope
from ledger_engine.database.engine import Engine
from ledger_engine.database.pages import PageRequest
from ledger_engine.events.webhooks import deliveries
from ledger_engine.ledger import orders, users
from ledger_engine.upkeep import retention
from ledger_engine.upkeep.retention import Retention
from tests.ledger_engine.conftest import Run
from tests.ledger_engine.events.test_request_recorder import log, logged
from tests.ledger_engine.events.webhooks.test_attempts import begin
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.waiting import looked_until

ADA = users.NewUser("Ada Lind", "ada@example.com")


class Machine:
    """The retention's clocks."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.monotonic_s = 50.0

    def run(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.monotonic_s += milliseconds / 1000

    def monotonic(self) -> float:
        return self.monotonic_s


@pytest.fixture
def machine(clock: ManualClock) -> Machine:
    return Machine(clock)


@pytest.fixture
def keeper(engine: Engine, machine: Machine) -> Retention:
    return Retention(engine, machine.monotonic)


async def test_a_request_is_logged_for_seven_days(
    engine: Engine, scope: Scope, machine: Machine, keeper: Retention
) -> None:
    await log(engine, scope)
    await log(engine, Scope(scope.project, livemode=True))
    machine.run(7 * DAY)
    await keeper.clean_up()
    assert len(await logged(engine, scope)) == 1
    machine.run(1)
    await keeper.clean_up()
    assert await logged(engine, scope) == []
    assert await logged(engine, Scope(scope.project, livemode=True)) == []


async def test_however_many_there_are_all_of_them_go(
    engine: Engine, scope: Scope, machine: Machine, keeper: Retention, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", 3)
    monkeypatch.setattr(retention, "BETWEEN_S", 0)
    for _ in range(10):
        await log(engine, scope)
    machine.run(8 * DAY)
    await keeper.clean_up()
    assert await logged(engine, scope) == []


async def test_deliveries_are_kept_as_long_as_the_log(
    engine: Engine, clock: ManualClock, scope: Scope, machine: Machine, keeper: Retention, read: Run
) -> None:
    sending = await begin(engine, clock, scope, ["*"])
    done, waiting = await sending.happen(2)
    await sending.record(sending.outcome(done), sending.failure(waiting))
    machine.run(8 * DAY)
    await keeper.clean_up()
    found = await read(deliveries.page, sending.subscription.endpoint, PageRequest())
    assert [each.event for each in found.items] == [waiting]


async def test_a_deactivated_user_is_erased_after_thirty_days(
    engine: Engine, machine: Machine, keeper: Retention, write: Run, read: Run
) -> None:
    user = await write(users.create, ADA)
    await write(users.deactivate, user.id)
    machine.run(30 * DAY)
    await keeper.clean_up()
    assert (await read(users.get, user.id)).email == ADA.email
    machine.run(1)
    await keeper.clean_up()
    erased = await read(users.get, user.id)
    assert (erased.id, erased.name, erased.email, erased.status) == (user.id, None, None, "deactivated")


async def test_nothing_that_was_recorded_of_an_erased_user_names_them(
    engine: Engine, machine: Machine, keeper: Retention, write: Run, recorded: Run
) -> None:
    user = await write(users.create, ADA)
    other = await write(users.create, users.NewUser("Eve", "eve@example.com"))
    await write(orders.create, orders.NewOrder(user.id, [{"sku": "beans"}]))
    await write(users.deactivate, user.id)
    before = await recorded()
    machine.run(31 * DAY)
    await keeper.clean_up()
    after: list[dict[str, Any]] = await recorded()
    assert "ada@example.com" not in json.dumps(after)
    assert "Ada Lind" not in json.dumps(after)
    assert [event["id"] for event in after] == [event["id"] for event in before]
    named = [event["data"]["object"] for event in after if event["type"] == "user.created"]
    assert [(each["id"], each["name"]) for each in named] == [(user.id, None), (other.id, "Eve")]


async def test_a_clock_that_is_set_forward_deletes_nothing(
    engine: Engine, scope: Scope, clock: ManualClock, keeper: Retention, write: Run, read: Run
) -> None:
    user = await write(users.create, ADA)
    await write(users.deactivate, user.id)
    await log(engine, scope)
    clock.advance(400 * DAY)
    await keeper.clean_up()
    assert (await read(users.get, user.id)).email == ADA.email
    assert len(await logged(engine, scope)) == 1


async def test_it_cleans_up_by_itself_and_stops_at_once(
    engine: Engine, scope: Scope, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "FIRST_AFTER_S", 0)
    await log(engine, scope)
    clock.advance(8 * DAY)
    keeper = Retention(engine)
    keeper.start()
    await looked_until(lambda: logged(engine, scope), lambda found: not found)
    await keeper.stop()
