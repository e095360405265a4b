"""Whether the machine's clock is trusted at a start, and what waits until it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import pytest

from ledger_engine.core.clock import DAY
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.events.webhooks import deliveries
from ledger_engine.events.webhooks.signing import Seal
from ledger_engine.ledger import users
from ledger_engine.store import Unit, kept_time
from ledger_engine.store.engine import Engine, open_engine
from ledger_engine.upkeep import retention, timekeeping
from ledger_engine.upkeep.background import Background
from ledger_engine.upkeep.timekeeping import Timekeeper
from tests.ledger_engine.conftest import START
from tests.ledger_engine.events.test_request_log import log, logged
from tests.ledger_engine.events.webhooks.test_deliver import Delivering, HereSender
from tests.ledger_engine.waiting import looked_until, until
from tests.receivers import answering, receiving

HOUR = 3_600_000
RETRY_S = 3600
ADA = users.NewUser("Ada Lind", "ada@example.com")


@dataclass
class Machine:
    """A machine's clock, which somebody may set, and one that only runs; a ledger's clock made of them."""

    shows: int = START
    running: int = 50_000
    _latest: int = 0

    def run(self, milliseconds: int) -> None:
        self.shows += milliseconds
        self.running += milliseconds

    def restart(self) -> None:
        self._latest = 0

    def machine(self) -> int:
        return self.shows

    def now(self) -> int:
        self._latest = max(self._latest, self.shows)
        return self._latest

    def advance_past(self, moment: int) -> None:
        self._latest = max(self._latest, moment + 1)

    def monotonic(self) -> float:
        return self.running / 1000


@pytest.fixture
def machine() -> Machine:
    return Machine()


@dataclass
class Serving:
    engine: Engine
    timekeeper: Timekeeper
    machine: Machine

    async def run_evenly(self, milliseconds: int) -> None:
        for _ in range(10):
            self.machine.run(milliseconds // 10)
            await self.timekeeper.compare_clocks()


@asynccontextmanager
async def serving(
    location: Location, machine: Machine, *, accept: bool = False, background: bool = False
) -> AsyncIterator[Serving]:
    """Run a server's engine and timekeeper, which end as by SIGKILL, without another write."""
    machine.restart()
    engine = open_engine(location, clock=machine, serving=True)
    timekeeper = Timekeeper(engine, accept=accept, monotonic=machine.monotonic)
    await timekeeper.begin()
    beside = Background(
        engine,
        Seal(None),
        timekeeper,
        retries_s=(RETRY_S,),
        monotonic=machine.monotonic,
        make_sender=HereSender,  # one in its own process would not see this clock
    )
    if background:
        beside.start()
        if not timekeeper.is_trusted:
            # What is attempted from here on is newer than what is held back, also by this machine's clock.
            await until(lambda: beside._deliverer._run and beside._deliverer._run.clock.paused_before)
    yield Serving(engine, timekeeper, machine)
    if background:
        await beside.stop()
    await engine.close()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention begins at once; the tests look at the clock themselves."""
    monkeypatch.setattr(retention, "FIRST_AFTER_S", 0)
    monkeypatch.setattr(timekeeping, "POLL_INTERVAL_S", 3600)


async def is_trusted(location: Location, machine: Machine) -> bool:
    async with serving(location, machine) as server:
        return server.engine.notice is None


async def test_a_clock_at_most_a_day_ahead_of_what_is_known_is_trusted(
    location: Location, machine: Machine
) -> None:
    async with serving(location, machine) as server:
        assert server.engine.notice is None, "a new ledger knows nothing"
    machine.shows += DAY
    assert await is_trusted(location, machine)
    machine.shows += DAY + 1
    assert not await is_trusted(location, machine)
    assert not await is_trusted(location, machine), "nor because it was seen before"
    machine.shows -= DAY
    assert await is_trusted(location, machine)
    machine.shows -= 400 * DAY
    assert await is_trusted(location, machine), "a clock that is behind makes nothing old"
    machine.shows += 400 * DAY
    assert await is_trusted(location, machine)


async def test_a_server_that_runs_keeps_the_time_even_if_it_is_killed(
    location: Location, machine: Machine
) -> None:
    async with serving(location, machine) as server:
        for _ in range(40):
            await server.run_evenly(HOUR)
    assert await is_trusted(location, machine)


async def test_an_hour_of_even_running_makes_a_clock_trusted(location: Location, machine: Machine) -> None:
    assert await is_trusted(location, machine)
    machine.shows += 40 * DAY
    async with serving(location, machine) as server:
        assert server.engine.notice is not None
        assert "40 days earlier" in server.engine.notice
        assert "--accept-clock" in server.engine.notice
        await server.run_evenly(HOUR - 10)
        assert server.engine.notice is not None
        assert server.timekeeper.now() == START + HOUR - 10
        machine.shows += HOUR  # somebody sets it: the hour begins anew
        await server.timekeeper.compare_clocks()
        await server.run_evenly(HOUR - 10)
        assert server.engine.notice is not None
        await server.run_evenly(10)
        assert server.engine.notice is None
        assert server.timekeeper.now() == machine.shows
    assert await is_trusted(location, machine)


async def test_a_clock_that_is_set_right_while_the_server_waits_is_trusted(
    location: Location, machine: Machine
) -> None:
    assert await is_trusted(location, machine)
    machine.shows += 400 * DAY
    async with serving(location, machine) as server:
        machine.shows -= 400 * DAY
        await server.timekeeper.compare_clocks()
        assert server.engine.notice is None
        assert server.timekeeper.now() == machine.shows


async def test_a_clock_that_is_set_far_forward_is_not_followed_for_an_hour(
    location: Location, machine: Machine
) -> None:
    async with serving(location, machine) as server:
        machine.shows += 400 * DAY
        await server.run_evenly(HOUR - 10)
        assert server.timekeeper.now() == START + HOUR - 10
        await server.run_evenly(HOUR)
        assert server.timekeeper.now() == machine.shows


async def test_a_ledger_of_an_older_version_goes_by_its_last_request(
    location: Location, machine: Machine
) -> None:
    async with serving(location, machine) as server:
        await log(server.engine, await scope_in(server.engine))
        await server.engine.write(lambda unit: unit.execute("UPDATE kept_time SET trusted = NULL"))
    machine.shows += 2 * DAY
    assert not await is_trusted(location, machine)


async def scope_in(engine: Engine) -> Tenant:
    from ledger_engine.access import projects

    project, _ = await engine.write(projects.first_or_new)
    return Tenant(project.id, livemode=False)


@pytest.mark.process
async def test_a_start_with_a_wrong_clock_erases_and_retries_nothing_and_the_next_goes_on(
    location: Location, machine: Machine
) -> None:
    async with receiving(answering(500)) as receiver:
        async with serving(location, machine, background=True) as server:
            engine, tenant = server.engine, await scope_in(server.engine)
            ada = await engine.write(partial(users.create, tenant=tenant, new=ADA))
            await engine.write(partial(users.deactivate, tenant=tenant, id=ada.id))
            await log(engine, tenant)
            ledger = Delivering(engine, tenant)
            endpoint = (await ledger.endpoint(receiver)).id
            happened = await ledger.happen(20)
            await ledger.until(endpoint, lambda found: len(found) == 20)
            due = [delivery.next_attempt_at or 0 for delivery in await ledger.deliveries(endpoint)]
        machine.shows += 400 * DAY
        receiver.behave = answering()
        async with serving(location, machine, background=True) as server:
            await Delivering(server.engine, tenant).happen(5)
            await server.run_evenly(HOUR // 2)
            await receiver.until_received(25)
        machine.shows -= 400 * DAY
        async with serving(location, machine, background=True) as server:
            ledger = Delivering(server.engine, tenant)
            await ledger.happen(1)
            await receiver.until_received(26)
            # The retries wait as long as they were to.
            found = {each.event: each for each in await ledger.deliveries(endpoint)}
            ahead = server.engine.clock.now() - machine.shows
            assert ahead >= 399 * DAY
            assert [found[event].status for event in happened] == ["pending"] * 20
            waits = [(found[event].next_attempt_at or 0) - ahead for event in reversed(happened)]
            assert all(abs(wait - was) < HOUR for wait, was in zip(waits, due, strict=True))
            assert len(await logged(server.engine, tenant)) == 1
            user = await server.engine.read(partial(users.get, tenant=tenant, id=ada.id))
            assert user.email == ADA.email


@pytest.mark.process
async def test_after_a_stop_what_became_due_leaves_little_by_little_once_the_clock_is_accepted(
    location: Location, machine: Machine
) -> None:
    async with receiving(answering(500)) as receiver:
        async with serving(location, machine, background=True) as server:
            tenant = await scope_in(server.engine)
            ledger = Delivering(server.engine, tenant)
            endpoint = (await ledger.endpoint(receiver)).id
            ada = await server.engine.write(partial(users.create, tenant=tenant, new=ADA))
            await server.engine.write(partial(users.deactivate, tenant=tenant, id=ada.id))
            await ledger.happen(201)
            await until(lambda: len(receiver.received) == 203)
            await looked_until(partial(pending, server.engine), lambda count: count == 203)
        machine.shows += 40 * DAY
        async with serving(location, machine, accept=True, background=True) as server:
            await receiver.until_received(204)
            found = await server.engine.read(
                lambda unit: unit.execute("SELECT due FROM deliveries WHERE status = 'pending' ORDER BY due")
            )
            put_off = (await server.engine.read(kept_time.get)).put_off
            waits = [row["due"] + put_off - machine.shows for row in found]
            assert waits[0] >= 0
            assert 200_000 <= waits[201] <= 204_000, "one each second"

            async def name() -> str | None:
                user = await server.engine.read(partial(users.get, tenant=tenant, id=ada.id))
                name: str | None = user.name
                return name

            await looked_until(name, lambda found: found is None)
            messages, _ = await server.engine.read(partial(outbox.after, tenant=tenant, cursor="", limit=1))
            assert messages
    assert endpoint


@pytest.mark.process
async def test_while_the_clock_is_not_trusted_new_events_leave_at_once_and_earlier_retries_wait(
    location: Location, machine: Machine
) -> None:
    async with receiving(answering(500)) as receiver:
        async with serving(location, machine, background=True) as server:
            tenant = await scope_in(server.engine)
            ledger = Delivering(server.engine, tenant)
            await ledger.endpoint(receiver)
            earlier = await ledger.happen(201)
            await looked_until(partial(pending, server.engine), lambda count: count == 201)
        machine.shows += 3 * DAY
        async with serving(location, machine, background=True) as server:
            assert server.engine.notice is not None
            ledger = Delivering(server.engine, tenant)
            for _ in range(3):
                machine.run(5_000)
                (new,) = await ledger.happen(1)
                await until(lambda new=new: receiver.received[-1].event == new)
            assert len(receiver.received) == 204, "none of the 201"
            await looked_until(partial(pending, server.engine), lambda count: count == 204)
            # The retries of what is new come due, and what somebody wants sent again leaves too.
            machine.run(RETRY_S * 1100)
            await receiver.until_received(207)
            await server.engine.write(partial(deliveries.resend, tenant=tenant, event=earlier[0]))
            await receiver.until_received(208)
            assert receiver.received[-1].event == earlier[0]
            machine.run(15_000)
            (new,) = await ledger.happen(1)
            await until(lambda: receiver.received[-1].event == new)
            assert len(receiver.received) == 209
            receiver.behave = answering()
            await server.timekeeper.compare_clocks()
            assert server.engine.notice is None, "it has run evenly for an hour"
            for count in range(210, 215):
                await receiver.until_received(count)
                machine.run(1_000)
            await looked_until(partial(pending, server.engine), lambda count: count <= 196)
            assert len(receiver.received) <= 215, "one a second"


async def pending(engine: Engine) -> int:
    def count(unit: Unit) -> int:
        row = unit.first("SELECT count(*) AS found FROM deliveries WHERE status = 'pending'")
        assert row is not None
        found: int = row["found"]
        return found

    return await engine.read(count)
