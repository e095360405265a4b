"""Sending again all that failed, in short turns, while others write."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from ledger_engine.access import idempotency
from ledger_engine.core.errors import DuplicateIdempotencyKey, NotFound
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.events.webhooks import deliveries, endpoints
from ledger_engine.events.webhooks.deliveries import resend_failed
from ledger_engine.ledger import accounts
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine
from tests.ledger_engine.conftest import Run
from tests.ledger_engine.events.webhooks.test_attempts import Sending, begin
from tests.ledger_engine.manual_clock import ManualClock


@pytest.fixture
async def sending(engine: Engine, clock: ManualClock, tenant: Tenant) -> Sending:
    return await begin(engine, clock, tenant, ["*"])


@pytest.fixture(autouse=True)
def two_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "AT_ONCE", 2)


@pytest.fixture
def commits(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The number of the commit of each turn, and how many deliveries it sent again."""
    seen: list[tuple[int, int]] = []
    made: list[int] = []
    original = deliveries.send_again

    def watched(unit: Unit, ids: list[str]) -> int:
        seen.append((len(made), original(unit, ids)))
        return seen[-1][1]

    engine.observe_commits(lambda works, _: made.append(works))
    monkeypatch.setattr(deliveries, "send_again", watched)
    return seen


async def fail(sending: Sending, count: int) -> list[str]:
    """So many events failed for good, all at one moment."""
    happened = await sending.happen(count)
    await sending.record(*(sending.failure(event, retry_in_ms=None) for event in happened))
    return happened


async def test_all_that_failed_since_a_time_is_sent_again(sending: Sending) -> None:
    good, old, final, waiting = await sending.happen(4)
    await sending.record(sending.outcome(good), sending.failure(old, retry_in_ms=None))
    sending.clock.advance(60_000)
    since = sending.clock.now()
    await sending.record(
        sending.failure(final, retry_in_ms=None), sending.failure(waiting, retry_in_ms=10**9)
    )
    sending.clock.advance(60_000)
    assert (await resend_failed(sending.engine, sending.tenant, since)).deliveries == 2
    found = await sending.pending()
    assert {retry.message.id for retry in found} == {final, waiting}
    assert {(retry.due, retry.retries) for retry in found} == {(since + 60_000, 0)}


async def test_a_resend_of_all_that_failed_names_the_endpoints_whose_deliveries_are_not_sent(
    sending: Sending, engine: Engine, tenant: Tenant, clock: ManualClock
) -> None:
    disabled, deleted, good = [await begin(engine, clock, tenant, ["*"]) for _ in range(3)]
    for each in (disabled, deleted):
        await fail(each, 1)
    await engine.write(partial(endpoints.disable, tenant=tenant, id=disabled.subscription.endpoint))
    await engine.write(partial(endpoints.disable, tenant=tenant, id=good.subscription.endpoint))
    await engine.write(partial(endpoints.delete, tenant=tenant, id=deleted.subscription.endpoint))
    resent = await resend_failed(engine, tenant, 0)
    assert resent.deliveries == 0
    assert [(each.endpoint, each.reason) for each in resent.skipped] == [
        (disabled.subscription.endpoint, "disabled"),
        (deleted.subscription.endpoint, "deleted"),
    ]


async def test_it_takes_turns_between_which_others_write(
    sending: Sending, engine: Engine, tenant: Tenant, commits: list[tuple[int, int]]
) -> None:
    happened = await fail(sending, 5)
    heard: list[frozenset[str]] = []
    posting: list[asyncio.Task[object]] = []

    def post(topics: frozenset[str]) -> None:
        heard.append(topics)
        if not posting:
            new = accounts.NewAccount("Till", "EUR", {})
            posting.append(
                asyncio.create_task(engine.write(partial(accounts.create, tenant=tenant, new=new)))
            )

    engine.listen(post)
    assert (await resend_failed(engine, tenant, 0)).deliveries == 5
    assert [count for _, count in commits] == [2, 2, 1]
    assert [outbox.TOPIC in topics for topics in heard] == [False, True, False, False]
    assert {retry.message.id for retry in await sending.pending()} == set(happened)
    await asyncio.gather(*posting)


async def test_of_several_at_once_the_turns_are_not_one_commit(
    sending: Sending, engine: Engine, tenant: Tenant, commits: list[tuple[int, int]]
) -> None:
    await fail(sending, 6)
    counts = await asyncio.gather(*(resend_failed(engine, tenant, 0) for _ in range(4)))
    assert sum(count.deliveries for count in counts) == 6
    assert len({commit for commit, _ in commits}) == len(commits) == 3


async def test_a_delivery_already_waiting_to_be_resent_is_not_counted_twice(
    sending: Sending, engine: Engine, tenant: Tenant
) -> None:
    await fail(sending, 3)
    assert (await resend_failed(engine, tenant, 0)).deliveries == 3
    assert (await resend_failed(engine, tenant, 0)).deliveries == 0


async def test_a_delivery_that_fails_during_a_resend_is_left_for_the_next_one(
    sending: Sending, engine: Engine, tenant: Tenant
) -> None:
    happened = await fail(sending, 3)

    def fail_again(_: frozenset[str]) -> None:
        # The sender is quicker than the turns.
        sending.clock.advance(1)
        failure = sending.failure(happened[0], retry_in_ms=None)
        failing.append(asyncio.ensure_future(sending.record(failure)))

    failing: list[asyncio.Future[None]] = []
    engine.listen(fail_again)
    assert (await resend_failed(engine, tenant, 0)).deliveries == 3
    assert len(failing) >= 2
    await asyncio.gather(*failing)


async def test_a_resend_that_was_cut_off_can_be_repeated_with_its_key(
    sending: Sending, engine: Engine, tenant: Tenant, commits: list[tuple[int, int]]
) -> None:
    await fail(sending, 5)
    resend = asyncio.create_task(resend_failed(engine, tenant, 0, key="once"))
    engine.listen(lambda _: resend.cancel())
    with pytest.raises(asyncio.CancelledError):
        await resend
    assert [count for _, count in commits] == [2]
    assert (await resend_failed(engine, tenant, 0, key="once")).deliveries == 3
    assert len(await sending.pending()) == 5
    with pytest.raises(DuplicateIdempotencyKey):
        await resend_failed(engine, tenant, 0, key="once")


async def test_a_second_use_of_a_key_sends_nothing(sending: Sending, engine: Engine, tenant: Tenant) -> None:
    endpoint = sending.subscription.endpoint
    assert (await resend_failed(engine, tenant, 0, endpoint, "once")).deliveries == 0
    taken = await engine.read(partial(idempotency.second_use, tenant=tenant, key="once"))
    assert taken is not None
    assert taken.original == endpoint
    await fail(sending, 1)
    with pytest.raises(DuplicateIdempotencyKey):
        await resend_failed(engine, tenant, 0, key="once")
    assert await sending.pending() == []


async def test_of_others_nothing_is_sent_again(sending: Sending, engine: Engine, stranger: Tenant) -> None:
    await fail(sending, 1)
    with pytest.raises(NotFound):
        await resend_failed(engine, stranger, 0, sending.subscription.endpoint)
    assert (await resend_failed(engine, stranger, 0)).deliveries == 0
    assert await sending.pending() == []


async def test_only_what_failed_at_an_enabled_endpoint_is_sent_again(
    sending: Sending, engine: Engine, clock: ManualClock, tenant: Tenant, write: Run
) -> None:
    other = await begin(engine, clock, tenant, ["*"])
    (event,) = await fail(sending, 1)
    await other.record(other.failure(event, retry_in_ms=None))
    await write(endpoints.disable, sending.subscription.endpoint)
    assert (await resend_failed(engine, tenant, 0, sending.subscription.endpoint)).deliveries == 0
    assert (await resend_failed(engine, tenant, 0)).deliveries == 1
    assert (await sending.pending(), len(await other.pending())) == ([], 1)


# A deleted endpoint


async def test_a_restored_endpoint_is_not_sent_what_was_open_when_it_was_deleted(
    sending: Sending, write: Run
) -> None:
    first, second = await sending.happen(2)
    endpoint = sending.subscription.endpoint
    await sending.record(sending.failure(first))
    await write(endpoints.delete, endpoint)
    await sending.record(sending.failure(second))  # an answer that was under way
    await write(endpoints.restore, endpoint, "whsec_new", "sealed")
    assert await sending.pending() == []
    assert {each.status for each in await sending.deliveries()} == {"failed"}


async def test_the_deliveries_of_a_deleted_endpoint_are_ended_in_turns(
    sending: Sending, engine: Engine, tenant: Tenant, write: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "AT_ONCE", 2)
    happened = await sending.happen(5)
    await sending.record(*(sending.failure(event) for event in happened))
    endpoint = sending.subscription.endpoint
    await endpoints.end_deliveries(engine, tenant, endpoint)
    assert len(await sending.pending()) == 5, "it is not deleted"
    await write(endpoints.delete, endpoint)
    heard: list[int] = []
    engine.listen(lambda _: heard.append(1))
    left = []
    fail_some = endpoints._fail_some

    def watched(unit: Unit, **given: object) -> int:
        left.append(fail_some(unit, **given))  # type: ignore[arg-type]
        return left[-1]

    monkeypatch.setattr(endpoints, "_fail_some", watched)
    await endpoints.end_deliveries(engine, tenant, endpoint)
    assert left == [2, 2, 1, 0]
    assert await sending.pending() == []


async def test_the_deliveries_of_another_project_are_not_ended(
    sending: Sending, engine: Engine, stranger: Tenant, write: Run
) -> None:
    (event,) = await sending.happen()
    await sending.record(sending.failure(event))
    await write(endpoints.delete, sending.subscription.endpoint)
    await endpoints.end_deliveries(engine, stranger, sending.subscription.endpoint)
    assert len(await sending.pending()) == 1
