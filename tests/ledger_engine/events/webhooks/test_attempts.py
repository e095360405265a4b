"""What is to be sent next, and what is recorded of it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from ledger_engine.core.tenant import Tenant
from ledger_engine.events.webhooks import attempts, deliveries, endpoints
from ledger_engine.events.webhooks.attempts import Feed, Outcome
from ledger_engine.events.webhooks.endpoints import NewEndpoint, Subscription
from ledger_engine.ledger import accounts, transactions, users
from ledger_engine.store.engine import Engine
from ledger_engine.store.pages import PageRequest
from tests.ledger_engine.conftest import START
from tests.ledger_engine.manual_clock import ManualClock

UNLIMITED = 10**9
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Sending:
    """One endpoint and what the sending process asks and tells the database about it."""

    def __init__(
        self, engine: Engine, clock: ManualClock, tenant: Tenant, subscription: Subscription
    ) -> None:
        self.engine, self.clock, self.tenant = engine, clock, tenant
        self.subscription = subscription

    async def happen(self, count: int = 1) -> list[str]:
        """So many accounts are created; gives their events' ids."""
        new = accounts.NewAccount("Till", "EUR", {})
        before = await self.newest()
        for _ in range(count):
            await self.engine.write(lambda unit: accounts.create(unit, self.tenant, new))
        feed = await self.feed(after=before)
        return [message.id for message in feed.messages]

    async def newest(self) -> str:
        row = await self.engine.read(lambda unit: unit.first("SELECT max(id) AS id FROM events"))
        assert row is not None
        return row["id"] or ""

    async def feed(self, after: str = "", count_max: int = UNLIMITED, bytes_left: int = UNLIMITED) -> Feed:
        return await self.engine.read(
            lambda unit: attempts.feed(unit, self.subscription, after, count_max, bytes_left)
        )

    async def record(self, *outcomes: Outcome, now: int | None = None) -> None:
        moment = self.clock.now() if now is None else now
        await self.engine.write(lambda unit: attempts.record(unit, outcomes, moment))

    async def pending(self, limit: int = 100) -> list[attempts.Retry]:
        return await self.engine.read(lambda unit: attempts.pending(unit, self.subscription.endpoint, limit))

    async def deliveries(self) -> list[deliveries.Delivery]:
        found = await self.engine.read(
            lambda unit: deliveries.page(unit, self.tenant, self.subscription.endpoint, PageRequest(100))
        )
        return found.items

    def outcome(self, event: str, **changed: Any) -> Outcome:
        """Return a successful attempt for this event, with the fields in `changed`."""
        good = Outcome(
            endpoint=self.subscription.endpoint,
            project=self.tenant.project,
            livemode=self.tenant.livemode,
            event=event,
            retries=0,
            attempted_at=self.clock.now(),
            latency_ms=12,
            status=200,
            error=None,
            request_headers='[["Ledger-Attempt","1"]]',
            response_headers='[["content-type","text/plain"]]',
            response_body="ok",
            retry_in_ms=None,
            resends=0,
            enables=self.subscription.enables,
            restores=self.subscription.restores,
        )
        return replace(good, **changed)

    def failure(self, event: str, **changed: Any) -> Outcome:
        failed: dict[str, Any] = {"status": 500, "error": "answered 500", "retry_in_ms": 5000}
        return self.outcome(event, **failed | changed)


@pytest.fixture
async def sending(engine: Engine, clock: ManualClock, tenant: Tenant) -> Sending:
    return await begin(engine, clock, tenant, ["*"])


async def begin(engine: Engine, clock: ManualClock, tenant: Tenant, kinds: list[str]) -> Sending:
    new = NewEndpoint("http://127.0.0.1:1/", kinds)
    made = await engine.write(lambda unit: endpoints.create(unit, tenant, new, "whsec_x", "whsec_x"))
    found = await engine.read(endpoints.subscriptions)
    return Sending(engine, clock, tenant, next(each for each in found if each.endpoint == made.id))


# What is to be sent


async def test_each_event_is_sent_with_the_traceparent_of_its_request_as_often_as_it_is_sent(
    sending: Sending,
) -> None:
    """Events with a stored body and events of postings; the first time, after a failure and as a resend."""
    new = accounts.NewAccount("Till", "EUR", {})
    for tenant in (replace(sending.tenant, traceparent=TRACEPARENT), sending.tenant):
        account = await sending.engine.write(partial(accounts.create, tenant=tenant, new=new))
        posting = transactions.NewTransaction(account.id, 5, "credit")
        await sending.engine.write(partial(transactions.post, tenant=tenant, new=posting))
        await sending.engine.write(partial(transactions.post_batch, tenant=tenant, batch=[posting] * 2))
    messages = (await sending.feed()).messages
    assert [message.traceparent for message in messages] == [TRACEPARENT] * 4 + [None] * 4
    await sending.record(*[sending.failure(message.id) for message in messages])
    assert {retry.message for retry in await sending.pending()} == set(messages)


async def test_events_are_fed_in_their_order_and_to_the_last(sending: Sending) -> None:
    happened = await sending.happen(100)
    feed = await sending.feed()
    assert [message.id for message in feed.messages] == happened == sorted(happened)
    assert (feed.read_to, feed.more) == (happened[-1], False)
    assert {message.type for message in feed.messages} == {"account.created"}
    assert all(message.body.startswith(f'{{"id":"{message.id}"') for message in feed.messages)


async def test_page_by_page_nothing_is_left_out_and_nothing_comes_twice(sending: Sending) -> None:
    happened = await sending.happen(100)
    fed: list[str] = []
    cursor, more = "", True
    while more:
        feed = await sending.feed(cursor, count_max=7)
        assert len(feed.messages) <= 7
        fed += [message.id for message in feed.messages]
        cursor, more = feed.read_to, feed.more
    assert fed == happened


async def test_large_bodies_are_fed_few_at_a_time(sending: Sending) -> None:
    await sending.happen(10)
    size = len((await sending.feed()).messages[0].body)
    assert len((await sending.feed(bytes_left=3 * size)).messages) == 3
    feed = await sending.feed(bytes_left=1)
    assert (len(feed.messages), feed.more) == (1, True)


async def test_other_kinds_are_passed_over(engine: Engine, clock: ManualClock, tenant: Tenant) -> None:
    sending = await begin(engine, clock, tenant, ["user.created", "transaction.created"])
    account = await engine.write(
        lambda unit: accounts.create(unit, tenant, accounts.NewAccount("Till", "EUR", {}))
    )
    assert (await sending.feed()).messages == []
    post = transactions.NewTransaction(account.id, 5, "credit")
    await engine.write(lambda unit: transactions.post(unit, tenant, post))
    await sending.happen(40)
    await engine.write(lambda unit: users.create(unit, tenant, users.NewUser("Ada", "ada@example.com")))
    feed = await sending.feed()
    assert [message.type for message in feed.messages] == ["transaction.created", "user.created"]
    assert feed.read_to == await sending.newest()


async def test_of_many_unwanted_events_so_many_are_passed_over_in_one_work(
    engine: Engine, clock: ManualClock, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "_LOOKED_THROUGH_MAX", 64)
    sending = await begin(engine, clock, tenant, ["user.created"])
    everything = await begin(engine, clock, tenant, ["*"])
    happened = await everything.happen(100)
    feed = await sending.feed()
    assert (feed.messages, feed.more, feed.read_to) == ([], True, happened[63])


async def test_other_projects_and_the_other_mode_are_not_fed(sending: Sending, stranger: Tenant) -> None:
    new = accounts.NewAccount("Till", "EUR", {})
    await sending.engine.write(lambda unit: accounts.create(unit, stranger, new))
    assert (await sending.feed()).messages == []


async def test_an_attempted_event_is_not_fed_again(sending: Sending) -> None:
    """The cursor may stand before it, when an earlier event is still under way."""
    first, second, third = await sending.happen(3)
    await sending.record(sending.outcome(second))
    assert [message.id for message in (await sending.feed()).messages] == [first, third]


# What came of it


async def test_a_success_is_a_delivery_with_one_attempt(sending: Sending) -> None:
    (event,) = await sending.happen()
    await sending.record(sending.outcome(event))
    (delivery,) = await sending.deliveries()
    assert (delivery.event, delivery.event_type) == (event, "account.created")
    assert (delivery.status, delivery.next_attempt_at) == ("succeeded", None)
    (attempt,) = delivery.attempts
    assert (attempt["number"], attempt["status"], attempt["error"], attempt["latency_ms"]) == (
        1,
        200,
        None,
        12,
    )
    assert attempt["attempted_at"] == "2026-09-21T14:13:20.000Z"
    assert attempt["request"]["headers"] == {"Ledger-Attempt": "1"}
    assert (attempt["request"]["body"] or "").startswith(f'{{"id":"{event}"')
    assert attempt["response"] == {"headers": {"content-type": "text/plain"}, "body": "ok"}


async def test_a_failure_is_due_again(sending: Sending) -> None:
    (event,) = await sending.happen()
    await sending.record(sending.failure(event))
    (delivery,) = await sending.deliveries()
    assert (delivery.status, delivery.next_attempt_at) == ("pending", START + 5000)
    (retry,) = await sending.pending()
    assert (retry.message.id, retry.attempts, retry.retries, retry.due) == (event, 1, 1, START + 5000)


async def test_each_further_attempt_is_added_and_the_last_failure_is_final(sending: Sending) -> None:
    (event,) = await sending.happen()
    await sending.record(sending.failure(event))
    await sending.record(
        sending.failure(event, retries=1, status=None, error="no answer", response_headers=None)
    )
    await sending.record(sending.failure(event, retries=2, retry_in_ms=None))
    (delivery,) = await sending.deliveries()
    assert (delivery.status, delivery.next_attempt_at) == ("failed", None)
    assert [attempt["number"] for attempt in delivery.attempts] == [1, 2, 3]
    assert delivery.attempts[1]["response"] is None
    assert await sending.pending() == []


async def test_first_and_further_attempts_are_recorded_together(sending: Sending) -> None:
    """As many as are read by two statements, the last of them for the first time."""
    events = await sending.happen(attempts._READ_TOGETHER + 10)
    await sending.record(*map(sending.failure, events[:-1]))
    await sending.record(*map(sending.outcome, events))
    found = {delivery.event: delivery for delivery in await sending.deliveries()}
    assert {delivery.status for delivery in found.values()} == {"succeeded"}
    numbers = {event: [each["number"] for each in delivery.attempts] for event, delivery in found.items()}
    assert numbers == {event: [1, 2] for event in events[:-1]} | {events[-1]: [1]}


async def test_a_retry_that_succeeds_is_the_end_of_it(sending: Sending) -> None:
    (event,) = await sending.happen()
    await sending.record(sending.failure(event))
    await sending.record(sending.outcome(event, retries=1))
    (delivery,) = await sending.deliveries()
    assert (delivery.status, len(delivery.attempts)) == ("succeeded", 2)
    assert await sending.pending() == []


async def test_those_due_first_come_first(sending: Sending) -> None:
    happened = await sending.happen(5)
    waits = [500, 300, 100, 400, 200]
    for event, wait in zip(happened, waits, strict=True):
        await sending.record(sending.failure(event, retry_in_ms=wait))
    assert [retry.due - START for retry in await sending.pending()] == sorted(waits)
    assert [retry.due - START for retry in await sending.pending(limit=2)] == [100, 200]


async def test_nothing_is_recorded_of_an_event_that_a_failover_has_lost(sending: Sending) -> None:
    (event,) = await sending.happen()
    lost = event[:-1] + ("0" if event[-1] != "0" else "1")
    endpoint = sending.subscription.endpoint
    await sending.record(sending.outcome(lost), sending.failure(event))
    assert [each.event for each in await sending.deliveries()] == [event]
    await sending.engine.write(lambda unit: endpoints.advance(unit, endpoint, event[:4] + "z" * 20))
    (found,) = await sending.engine.read(endpoints.subscriptions)
    assert found.cursor == sending.subscription.cursor
