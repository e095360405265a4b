"""The deliverer: each event to each endpoint, in order, whatever stops, jumps or fails meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

import pytest

from ledger_engine.core.clock import DAY, Clock, SystemClock
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.events.webhooks import (
    attempts,
    deliver,
    deliveries,
    endpoints,
    recording,
    sender_process,
    signing,
)
from ledger_engine.events.webhooks.attempts import Outcome
from ledger_engine.events.webhooks.deliver import Deliverer
from ledger_engine.events.webhooks.deliveries import Delivery, resend_failed
from ledger_engine.events.webhooks.endpoints import EndpointWithSecret, NewEndpoint
from ledger_engine.events.webhooks.recording import RetryClock
from ledger_engine.events.webhooks.sending import Sender, SendResult
from ledger_engine.events.webhooks.signing import Seal
from ledger_engine.ledger import accounts
from ledger_engine.store import BookWork, Unit, Work
from ledger_engine.store.engine import Engine, open_engine
from ledger_engine.store.pages import PageRequest
from tests.ledger_engine.events.webhooks.test_sender_process import child
from tests.ledger_engine.leases_of_others import leave_to_others
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.waiting import looked_until, until
from tests.receivers import Received, Receiver, answer, answering, hang, receiving

pytestmark = pytest.mark.process

HOUR_S = 3600
TILL = accounts.NewAccount("Till", "EUR", {})


class HereSender(Sender):
    """The sender in this process: most of these tests need no other."""

    def __init__(self, report: Callable[[SendResult], None]) -> None:
        super().__init__(report, deadline_s=30)


class Delivering:
    """A ledger whose deliverer runs, and what a test does with it."""

    def __init__(self, engine: Engine, tenant: Tenant, deliverer: Deliverer | None = None) -> None:
        self.engine, self.tenant, self._deliverer = engine, tenant, deliverer

    @property
    def clock(self) -> RetryClock:
        assert self._deliverer is not None
        assert self._deliverer._run is not None
        return self._deliverer._run.clock

    @property
    def unrecorded(self) -> int:
        """How many requests the sender has, begun or waiting in a lane."""
        assert self._deliverer is not None
        assert self._deliverer._run is not None
        return sum(outgoing.unrecorded for outgoing in self._deliverer._run.own.outgoing.values())

    async def endpoint(self, receiver: Receiver, *kinds: str, seal: Seal | None = None) -> EndpointWithSecret:
        secret = endpoints.new_secret()
        new = NewEndpoint(receiver.url, list(kinds) or ["*"])
        sealed = (seal or Seal(None)).seal(secret)
        return await self.engine.write(lambda unit: endpoints.create(unit, self.tenant, new, secret, sealed))

    async def happen(self, count: int = 1) -> list[str]:
        """So many accounts are created; gives their events' ids."""
        before = await self.engine.read(partial(outbox.resume, tenant=self.tenant, last=None))
        works = [
            self.engine.write(partial(accounts.create, tenant=self.tenant, new=TILL)) for _ in range(count)
        ]
        await asyncio.gather(*works)
        found, _ = await self.engine.read(lambda unit: outbox.after(unit, self.tenant, before, count))
        return [message.id for message in found]

    async def change(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return await self.engine.write(lambda unit: work(unit, self.tenant, *arguments))

    async def deliveries(self, endpoint: str) -> list[Delivery]:
        found = await self.engine.read(
            lambda unit: deliveries.page(unit, self.tenant, endpoint, PageRequest(100))
        )
        return found.items

    async def until(self, endpoint: str, condition: Callable[[list[Delivery]], object]) -> list[Delivery]:
        """Return the endpoint's deliveries, newest first, once the condition holds of them."""
        return await looked_until(partial(self.deliveries, endpoint), condition)

    async def until_settled(self, endpoint: str, count: int) -> list[Delivery]:
        return await self.until(
            endpoint, lambda found: len(found) == count and all(each.status != "pending" for each in found)
        )


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look often for what other processes did, and for a moved clock."""
    monkeypatch.setattr(deliver, "POLL_INTERVAL_S", 0.02)


@asynccontextmanager
async def delivering(engine: Engine, tenant: Tenant, **settings: Any) -> AsyncIterator[Delivering]:
    given: dict[str, Any] = {"make_sender": HereSender, "retries_s": (0.05,) * 7}
    seal = settings.pop("seal", Seal(None))
    deliverer = Deliverer(engine, seal, **given | settings)
    deliverer.start()
    try:
        yield Delivering(engine, tenant, deliverer)
    finally:
        await deliverer.stop()


@pytest.fixture
def clock() -> Clock:
    """Time passes in these tests, unless they say otherwise."""
    return SystemClock()


# The good way


@pytest.mark.parametrize("make_sender", [HereSender, sender_process.SenderProcess])
async def test_every_event_comes_once_signed_and_in_order(
    engine: Engine, tenant: Tenant, make_sender: Any
) -> None:
    async with receiving() as receiver, delivering(engine, tenant, make_sender=make_sender) as ledger:
        endpoint = await ledger.endpoint(receiver)
        happened = await ledger.happen(400)
        await receiver.until_received(400)
        await ledger.until(endpoint.id, lambda found: found and found[0].event == happened[-1])
        assert receiver.events == happened
    messages, _ = await engine.read(lambda unit: outbox.after(unit, tenant, "", 400))
    for request, message in zip(receiver.received, messages, strict=True):
        assert request.body == message.body.encode()
        assert request.headers["ledger-signature"] == signing.sign(endpoint.secret, request.body)
        assert request.headers["ledger-event-id"] == message.id
        assert request.headers["ledger-event-type"] == "account.created"
        assert request.headers["ledger-attempt"] == "1"
        assert request.headers["content-type"] == "application/json"


async def test_an_endpoint_gets_the_events_from_then_on_of_the_kinds_it_wants(
    engine: Engine, tenant: Tenant
) -> None:
    async with (
        receiving() as early,
        receiving() as late,
        receiving() as other,
        delivering(engine, tenant) as ledger,
    ):
        await ledger.endpoint(early)
        await ledger.endpoint(other, "user.created")
        first = await ledger.happen(3)
        await ledger.endpoint(late)
        rest = await ledger.happen(3)
        await early.until_received(6)
        await late.until_received(3)
        assert (early.events, late.events, other.events) == (first + rest, rest, [])


async def test_a_change_by_another_process_is_noticed(
    location: Location, engine: Engine, tenant: Tenant
) -> None:
    beside = open_engine(location)
    try:
        async with receiving() as receiver, delivering(engine, tenant) as ledger:
            await Delivering(beside, tenant).endpoint(receiver)
            event = (await Delivering(beside, tenant).happen())[0]
            await receiver.until_received(1)
            await ledger.until(
                (await engine.read(endpoints.subscriptions))[0].endpoint, lambda found: len(found) == 1
            )
            await beside.write(partial(deliveries.resend, tenant=tenant, event=event))
            await receiver.until_received(2)
            assert [request.attempt for request in receiver.received] == [1, 2]
    finally:
        await beside.close()


# Sending again while an attempt runs


async def answer_late(request: Received, writer: asyncio.StreamWriter, may_answer: asyncio.Event) -> None:
    """Answer 500 to the first attempt once the test says so, and 200 to the others at once."""
    if request.attempt == 1:
        await may_answer.wait()
    await answering(500 if request.attempt == 1 else 200)(request, writer)


async def test_an_event_resent_during_its_first_attempt_is_sent_again_after_it(
    engine: Engine, tenant: Tenant
) -> None:
    may_answer = asyncio.Event()
    async with (
        receiving(partial(answer_late, may_answer=may_answer)) as receiver,
        delivering(engine, tenant, retries_s=(HOUR_S,)) as ledger,
    ):
        endpoint = await ledger.endpoint(receiver)
        (event,) = await ledger.happen()
        await receiver.until_received(1)
        resent = await ledger.change(deliveries.resend, event)
        assert [each.status for each in resent.data] == ["pending"]
        may_answer.set()
        (delivery,) = await ledger.until_settled(endpoint.id, 1)
        assert delivery.status == "succeeded"
        assert [attempt["status"] for attempt in delivery.attempts] == [500, 200]
    assert [request.attempt for request in receiver.received] == [1, 2]


async def test_a_resend_of_all_that_failed_follows_the_attempt_under_way(
    engine: Engine, tenant: Tenant
) -> None:
    may_answer = asyncio.Event()

    async def fail_twice(request: Received, writer: asyncio.StreamWriter) -> None:
        if request.attempt == 2:
            await may_answer.wait()
        await answering(500 if request.attempt < 3 else 200)(request, writer)

    async with (
        receiving(fail_twice) as receiver,
        delivering(engine, tenant, retries_s=(0.05,)) as ledger,
    ):
        endpoint = await ledger.endpoint(receiver)
        await ledger.happen()
        await receiver.until_received(2)
        assert (await resend_failed(engine, tenant, 0)).deliveries == 1
        may_answer.set()
        (delivery,) = await ledger.until_settled(endpoint.id, 1)
        assert [attempt["status"] for attempt in delivery.attempts] == [500, 500, 200]


async def test_the_410_of_an_attempt_does_not_disable_an_endpoint_that_was_enabled_during_it(
    engine: Engine, tenant: Tenant
) -> None:
    may_answer = asyncio.Event()

    async def gone_at_first(request: Received, writer: asyncio.StreamWriter) -> None:
        is_first = not may_answer.is_set()
        await may_answer.wait()
        await answering(410 if is_first else 200)(request, writer)

    async with receiving(gone_at_first) as receiver, delivering(engine, tenant) as ledger:
        endpoint = await ledger.endpoint(receiver)
        await ledger.happen()
        await receiver.until_received(1)
        await ledger.change(endpoints.disable, endpoint.id)
        await ledger.change(endpoints.enable, endpoint.id)
        may_answer.set()
        await ledger.until_settled(endpoint.id, 1)
        await ledger.happen()
        await ledger.until_settled(endpoint.id, 2)
        assert (await engine.read(partial(endpoints.get, tenant=tenant, id=endpoint.id))).status == "enabled"


# Failures


async def test_a_failure_is_tried_again_until_it_succeeds_and_each_attempt_is_logged_at_debug(
    engine: Engine, tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "ledger_engine.events.webhooks.deliver")

    async def third_time(request: Received, writer: asyncio.StreamWriter) -> None:
        await answering(200 if request.attempt == 3 else 500)(request, writer)

    async with receiving(third_time) as receiver, delivering(engine, tenant) as ledger:
        endpoint = await ledger.endpoint(receiver)
        await ledger.happen(2)
        for delivery in await ledger.until_settled(endpoint.id, 2):
            assert delivery.status == "succeeded"
            assert [attempt["status"] for attempt in delivery.attempts] == [500, 500, 200]
        assert sorted(request.attempt for request in receiver.received) == [1, 1, 2, 2, 3, 3]
        attempts = [message for message in caplog.messages if f" to {endpoint.id}: " in message]
        assert len(attempts) == 6
        assert sum(": 200 in " in message for message in attempts) == 2


async def test_the_waits_are_those_of_the_schedule_and_a_little_more(engine: Engine, tenant: Tenant) -> None:
    async with receiving(answering(500)) as receiver, delivering(engine, tenant, retries_s=(100,)) as ledger:
        endpoint = await ledger.endpoint(receiver)
        before = engine.clock.now()
        await ledger.happen(20)
        found = await ledger.until(
            endpoint.id, lambda found: len([each for each in found if each.next_attempt_at]) == 20
        )
        waits = [(each.next_attempt_at or 0) - before for each in found]
        assert all(100_000 <= wait <= 111_000 + (engine.clock.now() - before) for wait in waits)
        assert len(set(waits)) > 1, "what failed together is not tried together again"


async def test_one_that_hangs_holds_up_neither_the_others_nor_itself_for_ever(
    engine: Engine, tenant: Tenant
) -> None:
    """What comes behind it is not sent again either, when the deliverer is started anew."""
    stuck: list[str] = []

    async def hang_on_the_first(request: Received, writer: asyncio.StreamWriter) -> None:
        stuck.append(request.event)
        await (hang if request.event == stuck[0] else answering())(request, writer)

    async with receiving(hang_on_the_first) as receiver, receiving() as good:
        async with delivering(engine, tenant) as ledger:
            endpoint = await ledger.endpoint(receiver)
            await ledger.endpoint(good)
            happened = await ledger.happen(60)
            await good.until_received(60)
            await ledger.until(endpoint.id, lambda found: len(found) == 59)
            assert good.events == receiver.events == happened
        receiver.behave = answering()
        async with delivering(engine, tenant):
            await receiver.until_received(61)
        assert receiver.events == [*happened, happened[0]]


# Stopping, and starting again


async def test_stopping_is_prompt_and_the_next_goes_on(engine: Engine, tenant: Tenant) -> None:
    async with receiving(hang) as receiver, delivering(engine, tenant) as ledger:
        endpoint = await ledger.endpoint(receiver)
        happened = await ledger.happen(5)
        await receiver.until_received(1)
    assert await ledger.deliveries(endpoint.id) == []
    async with receiving(port=receiver.port) as again, delivering(engine, tenant):
        await ledger.until_settled(endpoint.id, 5)
    assert again.events == happened
    assert {request.attempt for request in again.received} == {1}


async def test_events_recorded_while_nobody_delivers_are_delivered_later(
    engine: Engine, tenant: Tenant
) -> None:
    async with receiving() as receiver:
        endpoint = await Delivering(engine, tenant).endpoint(receiver)
        happened = await Delivering(engine, tenant).happen(300)
        async with delivering(engine, tenant) as ledger:
            await receiver.until_received(300)
            await ledger.until(endpoint.id, lambda found: found and found[0].event == happened[-1])
        assert receiver.events == happened


async def test_a_sender_that_dies_costs_no_event(
    engine: Engine, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender_process, "RESTART_AFTER_S", (0.01,))
    async with (
        receiving(hang) as receiver,
        delivering(engine, tenant, make_sender=sender_process.SenderProcess) as ledger,
    ):
        endpoint = await ledger.endpoint(receiver)
        happened = await ledger.happen(5)
        await receiver.until_received(1)
        receiver.behave = answering()
        os.kill(child(), signal.SIGKILL)
        await ledger.until_settled(endpoint.id, 5)
        assert list(dict.fromkeys(receiver.events)) == happened


async def test_lost_storage_loses_no_outcome(
    engine: Engine, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "RETRY_AFTER_S", 0.01)
    real, refused = engine.write, 0

    async def refuse_three_times(work: Work[Any]) -> Any:
        nonlocal refused
        if isinstance(work, BookWork) and refused < 3:  # nothing else here is one
            refused += 1
            raise StorageUnavailable("the disk is full")
        return await real(work)

    async with receiving() as receiver, delivering(engine, tenant) as ledger:
        endpoint = await ledger.endpoint(receiver)
        monkeypatch.setattr(engine, "write", refuse_three_times)
        happened = await ledger.happen(10)
        await ledger.until_settled(endpoint.id, 10)
        assert (receiver.events, refused) == (happened, 3)


@pytest.mark.parametrize("is_given_up", [False, True])
async def test_an_outcome_that_cannot_be_recorded_holds_up_no_other(
    engine: Engine, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, is_given_up: bool
) -> None:
    """It is recorded without what was answered if that helps, and else it is left out."""
    async with receiving(answering(500)) as one, receiving() as two:
        before = Delivering(engine, tenant)
        failing, good = (await before.endpoint(one)).id, (await before.endpoint(two)).id
        happened = await before.happen(10)
        bad, real = happened[1], attempts.record

        def fail(unit: Unit, outcomes: Sequence[Outcome], now: int) -> set[tuple[str, str]]:
            for outcome in outcomes:
                if outcome.event == bad and (is_given_up or outcome.response_headers is not None):
                    raise ValueError("no such text")
            return real(unit, outcomes, now)

        monkeypatch.setattr(attempts, "record", fail)
        async with delivering(engine, tenant, retries_s=(0.05,)) as ledger:
            recorded = [event for event in happened if not (is_given_up and event == bad)]
            for endpoint, status in ((failing, "failed"), (good, "succeeded")):
                found = await ledger.until_settled(endpoint, len(recorded))
                statuses = {each.event: each.status for each in found}
                assert statuses == dict.fromkeys(recorded, status)
            happened += await ledger.happen()
            await two.until_received(11)
            assert two.events == happened


async def test_an_attempt_not_recorded_at_the_end_is_sent_by_the_next_process(
    engine: Engine, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = engine.write
    attempted = asyncio.Event()

    async def refuse(work: Work[Any]) -> Any:
        if isinstance(work, BookWork) and cast(Any, work.work).keywords["batch"].outcomes:
            attempted.set()
            raise StorageUnavailable("the disk is full")
        return await real(work)

    async with receiving(answering(500)) as receiver:
        async with delivering(engine, tenant) as ledger:
            endpoint = await ledger.endpoint(receiver)
            monkeypatch.setattr(engine, "write", refuse)
            happened = await ledger.happen()
            await attempted.wait()
        monkeypatch.setattr(engine, "write", real)
        async with delivering(engine, tenant) as ledger:
            [delivery] = await ledger.until(endpoint.id, len)
            assert delivery.event == happened[0]


async def test_lost_storage_is_asked_again_and_then_everything_is_delivered(
    engine: Engine, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recording, "RETRY_AFTER_S", 0.05)
    real, refused = engine.read, 0

    async def refuse_three_times(work: Work[Any]) -> Any:
        nonlocal refused
        if getattr(work, "func", None) is deliver.find and refused < 3:
            refused += 1
            raise StorageUnavailable("it is being moved")
        return await real(work)

    async with receiving() as receiver, delivering(engine, tenant) as ledger:
        await ledger.endpoint(receiver)
        monkeypatch.setattr(engine, "read", refuse_three_times)
        happened = await ledger.happen(10)
        await receiver.until_received(10)
        assert (receiver.events, refused) == (happened, 3)
    assert caplog.text.count("webhooks are paused") == 3


async def test_the_cursor_of_an_endpoint_that_wants_none_of_it_moves_on(
    engine: Engine, tenant: Tenant
) -> None:
    async with receiving() as receiver:
        async with delivering(engine, tenant) as ledger:
            await ledger.endpoint(receiver, "user.created")
            await ledger.endpoint(receiver)
            happened = await ledger.happen(3)
            await receiver.until_received(3)
        cursors = {each.kinds: each.cursor for each in await engine.read(endpoints.subscriptions)}
    assert cursors == {None: happened[-1], frozenset({"user.created"}): happened[-1]}


# Changes of an endpoint


async def test_a_disabled_endpoint_gets_nothing_until_it_is_enabled(engine: Engine, tenant: Tenant) -> None:
    async with receiving() as receiver, receiving() as other, delivering(engine, tenant) as ledger:
        endpoint = await ledger.endpoint(receiver)
        await ledger.endpoint(other)
        first = await ledger.happen(3)
        await receiver.until_received(3)
        await ledger.change(endpoints.disable, endpoint.id)
        rest = await ledger.happen(3)
        await other.until_received(6)
        assert receiver.events == first
        await ledger.change(endpoints.enable, endpoint.id)
        await receiver.until_received(6)
        assert receiver.events == first + rest


async def test_a_rolled_secret_counts_for_what_waits_in_the_lane(engine: Engine, tenant: Tenant) -> None:
    go_on = asyncio.Event()

    async def wait(request: Received, writer: asyncio.StreamWriter) -> None:
        await go_on.wait()
        await answering()(request, writer)

    async with receiving(wait) as receiver, delivering(engine, tenant) as ledger:
        endpoint = await ledger.endpoint(receiver)
        happened = await ledger.happen(30)
        await receiver.until_received(1)
        await ledger.change(endpoints.roll_secret, endpoint.id, "whsec_new", "whsec_new")
        await ledger.happen()
        # What was not begun comes back from the lane, to be signed anew.
        await until(lambda: ledger.unrecorded == len(receiver.received))
        begun = len(receiver.received)
        go_on.set()
        await ledger.until_settled(endpoint.id, 31)
        assert receiver.events[:30] == happened
        signed = [request.headers["ledger-signature"] for request in receiver.received[begun:]]
        assert signed == [signing.sign("whsec_new", request.body) for request in receiver.received[begun:]]
        assert begun < 30


async def test_a_deleted_endpoint_gets_nothing_more(engine: Engine, tenant: Tenant) -> None:
    async with (
        receiving(answering(500)) as receiver,
        receiving() as other,
        delivering(engine, tenant) as ledger,
    ):
        endpoint = await ledger.endpoint(receiver)
        kept = await ledger.endpoint(other)
        await ledger.happen()
        await receiver.until_received(1)
        await ledger.change(endpoints.delete, endpoint.id)
        await ledger.happen(3)
        await ledger.until_settled(kept.id, 4)
        count = len(receiver.received)
        await ledger.happen(3)
        await ledger.until_settled(kept.id, 7)
        assert len(receiver.received) == count


async def test_secrets_are_opened_with_the_key_and_sealed_where_they_were_not(
    engine: Engine, tenant: Tenant
) -> None:
    seal = Seal("correct horse")
    async with receiving() as sealed, receiving() as plain:
        ledger = Delivering(engine, tenant)
        one = await ledger.endpoint(sealed, seal=seal)
        two = await ledger.endpoint(plain)
        async with delivering(engine, tenant, seal=seal):
            await ledger.happen()
            await sealed.until_received(1)
            await plain.until_received(1)
        for receiver, endpoint in ((sealed, one), (plain, two)):
            (request,) = receiver.received
            assert request.headers["ledger-signature"] == signing.sign(endpoint.secret, request.body)
        stored = dict(await engine.read(endpoints.sealed_secrets))
        assert two.secret not in stored[two.id]
        assert seal.open(stored[two.id]) == two.secret
        async with delivering(engine, tenant, seal=Seal("battery staple", previous="correct horse")):
            await ledger.happen()
            await sealed.until_received(2)
    stored = dict(await engine.read(endpoints.sealed_secrets))
    opened = {id: Seal("battery staple").open(secret) for id, secret in stored.items()}
    assert opened == {one.id: one.secret, two.id: two.secret}


async def test_an_endpoint_whose_secret_cannot_be_read_waits(
    engine: Engine, tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    async with receiving() as locked, receiving() as open_one:
        ledger = Delivering(engine, tenant)
        endpoint = await ledger.endpoint(locked, seal=Seal("correct horse"))
        other = await ledger.endpoint(open_one)
        async with delivering(engine, tenant):
            happened = []
            for number in range(1, 6):  # it is looked at each time, and told of once
                happened += await ledger.happen()
                await ledger.change(endpoints.disable, other.id)
                await ledger.change(endpoints.enable, other.id)
                await open_one.until_received(number)
        assert locked.received == []
        assert caplog.text.count(endpoint.id) == 1
        assert endpoint.secret not in caplog.text
        async with delivering(engine, tenant, seal=Seal("correct horse")):
            await locked.until_received(len(happened))
        assert locked.events == happened


# Sending again


async def test_all_that_failed_is_sent_again_with_a_schedule_of_its_own(
    engine: Engine, tenant: Tenant
) -> None:
    async with receiving(answering(500)) as receiver, delivering(engine, tenant, retries_s=(0.01,)) as ledger:
        endpoint = await ledger.endpoint(receiver)
        await ledger.happen(30)
        await ledger.until_settled(endpoint.id, 30)
        assert (await resend_failed(engine, tenant, 0)).deliveries == 30
        await receiver.until_received(120)
        found = await ledger.until_settled(endpoint.id, 30)
        assert {(each.status, len(each.attempts)) for each in found} == {("failed", 4)}


# The clock


class Machine:
    """A clock that stands until it is moved: by time that passes, or by somebody who sets it."""

    def __init__(self) -> None:
        self.clock = ManualClock(1_790_000_000_000)
        self.monotonic_s = 50.0

    def run(self, seconds: float) -> None:
        self.clock.advance(round(seconds * 1000))
        self.monotonic_s += seconds

    def jump(self, seconds: float) -> None:
        self.clock.advance(round(seconds * 1000))

    def monotonic(self) -> float:
        return self.monotonic_s


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
async def still(location: Location, machine: Machine, tenant: Tenant) -> AsyncIterator[Engine]:
    """Yield a second engine on the same file, whose clock the test moves."""
    engine = open_engine(location, clock=machine.clock)
    yield engine
    await engine.close()


async def test_after_a_jump_of_the_clock_retries_leave_one_a_second_and_no_endpoint_is_disabled(
    still: Engine, tenant: Tenant, machine: Machine
) -> None:
    settings = {"monotonic": machine.monotonic, "retries_s": (HOUR_S, 10 * HOUR_S)}
    async with receiving(answering(500)) as receiver, delivering(still, tenant, **settings) as ledger:
        endpoint = await ledger.endpoint(receiver)
        await ledger.happen(20)
        await ledger.until(endpoint.id, lambda found: len(found) == 20)
        machine.jump(400 * 24 * HOUR_S)
        await receiver.until_received(21)
        later = await ledger.happen(5)  # what is new is sent as ever
        await ledger.until(endpoint.id, lambda found: len(found) == 25)
        assert receiver.events[21:] == later
        assert {each.status for each in await ledger.deliveries(endpoint.id)} == {"pending"}
        found = await still.read(lambda unit: endpoints.get(unit, tenant, endpoint.id))
        assert found.status == "enabled", "400 days were not failed through"
        for count in range(27, 30):
            machine.run(2 if count == 27 else 1)
            await receiver.until_received(count)
        assert len(receiver.received) <= 30


async def test_time_that_passes_is_no_jump(still: Engine, tenant: Tenant, machine: Machine) -> None:
    settings = {"monotonic": machine.monotonic, "retries_s": (HOUR_S,) * 200}
    async with receiving(answering(500)) as receiver, delivering(still, tenant, **settings) as ledger:
        endpoint = await ledger.endpoint(receiver)
        await ledger.happen()
        for attempt in range(1, 7):
            await ledger.until(endpoint.id, lambda found, n=attempt: found and len(found[0].attempts) == n)
            machine.run(DAY / 1000 + HOUR_S)

        async def status() -> str:
            return (await still.read(lambda unit: endpoints.get(unit, tenant, endpoint.id))).status

        await looked_until(status, lambda found: found == "disabled")


async def test_a_clock_that_ran_on_during_the_recording_delays_no_retry(
    still: Engine, tenant: Tenant, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sender looks when the database has the retry due, and not so much later than that."""
    monkeypatch.setattr(deliver, "POLL_INTERVAL_S", 2 * HOUR_S)  # or it would look all the time
    run = recording.Recording.run
    settings = {"monotonic": machine.monotonic, "retries_s": (60,)}
    async with receiving(answering(500)) as receiver, delivering(still, tenant, **settings) as ledger:
        clock = ledger.clock

        async def run_slowly(recorded: recording.Recording, now: int) -> None:
            await run(recorded, now)
            machine.run(HOUR_S)
            await clock.follow()  # as each look does

        monkeypatch.setattr(recording.Recording, "run", run_slowly)
        await ledger.endpoint(receiver)
        await ledger.happen()
        await receiver.until_received(2)


async def test_five_days_count_anew_when_a_deliverer_starts(
    still: Engine, tenant: Tenant, machine: Machine
) -> None:
    settings = {"monotonic": machine.monotonic, "retries_s": (HOUR_S,) * 20}
    async with receiving(answering(500)) as receiver:
        async with delivering(still, tenant, **settings) as ledger:
            endpoint = await ledger.endpoint(receiver)
            await ledger.happen()
            await ledger.until(endpoint.id, lambda found: len(found) == 1)
        machine.run(20 * DAY / 1000)  # nobody was there to see whether it failed
        async with delivering(still, tenant, **settings) as ledger:
            await ledger.until(endpoint.id, lambda found: len(found[0].attempts) == 2)
            found = await still.read(lambda unit: endpoints.get(unit, tenant, endpoint.id))
            assert found.status == "enabled"


async def test_a_clock_set_back_before_a_restart_delays_no_retry_by_more_than_was_lost(
    location: Location, tenant: Tenant, machine: Machine, still: Engine
) -> None:
    settings = {"monotonic": machine.monotonic, "retries_s": (HOUR_S,)}
    async with receiving(answering(500)) as receiver:
        async with delivering(still, tenant, **settings) as ledger:
            endpoint = await ledger.endpoint(receiver)
            await ledger.happen()
            await ledger.until(endpoint.id, lambda found: len(found) == 1)
        await still.shared_state.leases.end()  # as a server does that stops
        earlier = Machine()
        earlier.clock = ManualClock(machine.clock.now() - 5 * HOUR_S * 1000)
        engine = open_engine(location, clock=earlier.clock)
        try:
            settings["monotonic"] = earlier.monotonic
            async with delivering(engine, tenant, **settings) as ledger:
                # Only then: time must not pass while it compares the clocks.
                await until(lambda: ledger.clock.followed_to > machine.clock.now())
                assert len(receiver.received) == 1
                earlier.run(1.2 * HOUR_S)
                await receiver.until_received(2)
        finally:
            await engine.close()


async def test_of_several_servers_one_sends_to_an_endpoint_from_where_the_one_before_was(
    engine: Engine, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = leave_to_others(engine)
    async with receiving() as receiver, delivering(engine, tenant) as delivering_here:
        endpoint = await delivering_here.endpoint(receiver)
        sent, *rest = await delivering_here.happen(3)
        await asyncio.sleep(0.2)
        assert receiver.received == []

        async def take_over(_kind: str, _names: Collection[str]) -> Collection[str]:
            # The other has sent one more since this one has looked.
            await engine.write(partial(endpoints.advance, id=endpoint.id, cursor=sent))
            return {endpoint.id}

        with monkeypatch.context() as patch:
            patch.setattr(leases, "hold", take_over)
            await receiver.until_received(2)
        await until(lambda: not delivering_here.unrecorded)
        await delivering_here.happen(1)
        await asyncio.sleep(0.2)
        assert receiver.events == rest


async def test_an_endpoint_that_another_server_is_to_have_is_kept_until_its_attempts_are_recorded(
    engine: Engine, tenant: Tenant
) -> None:
    leases = leave_to_others(engine)
    may_answer = asyncio.Event()

    async def answer_later(_: Received, writer: asyncio.StreamWriter) -> None:
        await may_answer.wait()
        writer.write(answer())

    async with receiving(answer_later) as receiver, delivering(engine, tenant) as ledger:
        endpoint = await ledger.endpoint(receiver)
        leases.held = frozenset({endpoint.id})
        sent = await ledger.happen(1)
        await receiver.until_received(1)
        leases.releasing = leases.held
        await ledger.happen(1)
        for _ in range(3):
            leases.named = frozenset()
            await until(lambda: endpoint.id in leases.named)
        may_answer.set()
        await until(lambda: endpoint.id not in leases.named)
        (recorded,) = await ledger.deliveries(endpoint.id)
        assert ([recorded.event], recorded.status) == (sent, "succeeded")
        # It is wanted again, by a server that has fewer now.
        leases.releasing = frozenset()
        await receiver.until_received(2)
