"""Retries after a stop are spread, also when one start follows another."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ledger_engine.core.tenant import Tenant
from ledger_engine.events.webhooks import recording
from ledger_engine.events.webhooks.recording import RetryClock
from ledger_engine.store.engine import Engine
from tests.ledger_engine.events.webhooks.test_attempts import Sending, begin
from tests.ledger_engine.leases_of_others import leave_to_others
from tests.ledger_engine.manual_clock import ManualClock

SECOND, HOUR = 1000, 3_600_000


@pytest.fixture
async def sending(engine: Engine, clock: ManualClock, tenant: Tenant) -> Sending:
    return await begin(engine, clock, tenant, ["*"])


async def start(sending: Sending) -> None:
    """Start as a deliverer does, without sending anything."""
    clock = sending.clock
    starting = RetryClock(sending.engine, (5, 300), lambda: clock.now() / 1000)
    await starting.begin()


async def dues(sending: Sending) -> dict[str, int]:
    """When each retry is due, in milliseconds from now, by the event, in order."""
    now = sending.clock.now()
    return {retry.message.id: retry.due - now for retry in await sending.pending()}


async def test_retries_spread_by_several_starts_are_still_one_a_second(sending: Sending) -> None:
    events = await sending.happen(20)
    for wait, event in enumerate(events):
        await sending.record(sending.failure(event, retry_in_ms=5 * SECOND + wait))
    sending.clock.advance(60 * SECOND)
    for lost_ms in (2_500, 1_700, 200, 3_333):
        await start(sending)
        found = await dues(sending)
        assert list(found) == events, "in the order in which they were due"
        assert [after - before >= SECOND for before, after in pairwise(found.values())] == [True] * 19
        assert 0 == next(iter(found.values())) <= max(found.values()) <= 20 * SECOND
        sending.clock.advance(lost_ms)


async def test_a_retry_that_was_not_overdue_keeps_its_time(sending: Sending) -> None:
    overdue, later, also_later = await sending.happen(3)
    await sending.record(sending.failure(overdue))
    for event in (later, also_later):
        await sending.record(sending.failure(event, retry_in_ms=70_001))
    sending.clock.advance(69 * SECOND)
    for _ in range(2):
        await start(sending)
        assert await dues(sending) == {overdue: 0, later: 1001, also_later: 1001}


async def test_more_than_are_written_at_once_are_spread(
    sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "SPREAD_AT_ONCE", 3)
    await sending.record(*map(sending.failure, await sending.happen(8)))
    sending.clock.advance(60 * SECOND)
    await start(sending)
    assert len({due // SECOND for due in (await dues(sending)).values()}) == 8


async def test_a_server_that_comes_to_others_changes_nothing_of_what_they_retry(sending: Sending) -> None:
    leave_to_others(sending.engine)
    await sending.record(*map(sending.failure, await sending.happen(3)))
    sending.clock.advance(60 * SECOND)
    before, failing = await dues(sending), await failing_since(sending)
    await start(sending)
    assert (await dues(sending), await failing_since(sending)) == (before, failing)


async def test_of_several_servers_the_leader_spreads_what_a_jump_of_the_clock_makes_due(
    sending: Sending,
) -> None:
    events = await sending.happen(3)
    await sending.record(*(sending.failure(event, retry_in_ms=5 * SECOND) for event in events))
    for leader, spread in ((False, False), (True, True)):
        leases = leave_to_others(sending.engine)
        leases.leader = leader
        following = RetryClock(sending.engine, (5, 300), lambda: 0)
        await following.begin()
        sending.clock.advance(HOUR)
        await following.follow()
        found = list((await dues(sending)).values())
        assert [after - before >= SECOND for before, after in pairwise(found)] == [spread] * 2
        assert (found[0] == 0) is spread


async def failing_since(sending: Sending) -> list[int]:
    rows = await sending.engine.read(lambda unit: unit.execute("SELECT failing_since FROM webhook_endpoints"))
    return [row["failing_since"] for row in rows]
