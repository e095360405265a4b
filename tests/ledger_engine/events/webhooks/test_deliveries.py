"""Deliveries as people see them: lists, sending again, and how long they are kept."""

from __future__ import annotations

from functools import partial

import pytest

from ledger_engine.access.quotas import LOGS_KEPT_FOR
from ledger_engine.core.clock import DAY
from ledger_engine.core.errors import DuplicateIdempotencyKey, InvalidRequest, NotFound
from ledger_engine.core.ids import first_at
from ledger_engine.core.records import dumps
from ledger_engine.core.tenant import Tenant
from ledger_engine.events.webhooks import attempts, deliveries, endpoints
from ledger_engine.ledger.orders import NewOrder, create
from ledger_engine.ledger.users import NewUser
from ledger_engine.ledger.users import create as create_user
from ledger_engine.store.engine import Engine
from ledger_engine.store.pages import PageRequest
from tests.contract.rules import holds
from tests.ledger_engine.conftest import START, Run
from tests.ledger_engine.events.webhooks.test_attempts import Sending, begin
from tests.ledger_engine.manual_clock import ManualClock


@pytest.fixture
async def sending(engine: Engine, clock: ManualClock, tenant: Tenant) -> Sending:
    return await begin(engine, clock, tenant, ["*"])


async def attempted(sending: Sending, count: int = 1) -> list[str]:
    """So many events that were delivered."""
    happened = await sending.happen(count)
    await sending.record(*(sending.outcome(event) for event in happened))
    await sending.engine.write(
        lambda unit: endpoints.advance(unit, sending.subscription.endpoint, happened[-1])
    )
    return happened


async def test_deliveries_are_listed_newest_first_and_paged(sending: Sending, read: Run) -> None:
    happened = await attempted(sending, 5)
    endpoint = sending.subscription.endpoint
    first = await read(deliveries.page, endpoint, PageRequest(3, cursor="cursor"))
    assert [item.event for item in first.items] == happened[:1:-1]
    rest = await read(deliveries.page, endpoint, PageRequest(3, after=first.next_cursor, cursor="cursor"))
    assert [item.event for item in rest.items] == happened[1::-1]
    assert (first.has_more, rest.has_more) == (True, False)
    with pytest.raises(InvalidRequest):
        await read(deliveries.page, endpoint, PageRequest(3, after="dlv_none", cursor="cursor"))


async def test_to_others_the_deliveries_do_not_exist(sending: Sending, read: Run, stranger: Tenant) -> None:
    await attempted(sending)
    with pytest.raises(NotFound):
        await read(deliveries.page, sending.subscription.endpoint, PageRequest(), by=stranger)


async def test_of_a_body_the_first_4_kb_are_shown(sending: Sending, write: Run) -> None:
    user = await write(create_user, NewUser("Ada", "ada@example.com"))
    await write(create, NewOrder(user.id, [{"note": "é" * 5000}]))
    event = await sending.newest()
    await sending.record(sending.outcome(event))
    (delivery,) = await sending.deliveries()
    body = delivery.attempts[0]["request"]["body"] or ""
    assert 4094 <= len(body.encode()) <= 4096
    assert body.endswith("éé")


async def test_deliveries_about_a_user_need_the_scope_that_reads_users(
    sending: Sending, read: Run, write: Run, tenant: Tenant
) -> None:
    await write(create_user, NewUser("Ada", "ada@example.com"))
    await sending.record(sending.outcome(await sending.newest()))
    for scopes, shown in ((["read:projects"], False), (["read:projects", "read:users"], True)):
        by = Tenant(tenant.project, livemode=False, scopes=frozenset(scopes))
        page = await read(deliveries.page, sending.subscription.endpoint, PageRequest(), by=by)
        (delivery,) = page.items
        body = delivery.attempts[0]["request"]["body"]
        assert ("ada@example.com" in body) if shown and body else body is None


async def test_headers_of_one_name_are_one_list(sending: Sending) -> None:
    (event,) = await sending.happen()
    headers = [("set-cookie", "a=1"), ("server", "x"), ("set-cookie", "b=2")]
    await sending.record(sending.outcome(event, response_headers=dumps(headers)))
    (delivery,) = await sending.deliveries()
    response = delivery.attempts[0]["response"]
    assert response is not None
    assert response["headers"] == {"set-cookie": "a=1, b=2", "server": "x"}


# Sending again


async def test_a_delivered_event_is_due_again_at_once(sending: Sending, write: Run) -> None:
    (event,) = await attempted(sending)
    sending.clock.advance(1000)
    (delivery,) = (await write(deliveries.resend, event)).data
    assert (delivery.status, delivery.next_attempt_at, len(delivery.attempts)) == ("pending", START + 1000, 1)
    (retry,) = await sending.pending()
    assert (retry.message.id, retry.attempts, retry.retries) == (event, 1, 0)


async def test_the_long_body_of_a_retry_in_progress_is_not_read_again(sending: Sending, write: Run) -> None:
    user = await write(create_user, NewUser("Ada", "ada@example.com"))
    await write(create, NewOrder(user.id, [{"note": "x" * 3000}]))
    event = await sending.newest()
    first = (await sending.feed()).messages[-1]
    await sending.record(sending.outcome(event))
    await write(deliveries.resend, event)
    find = partial(attempts.pending, endpoint=sending.subscription.endpoint, limit=10)
    (retry,) = await sending.engine.read(find)
    assert retry.message.body == first.body
    (retry,) = await sending.engine.read(partial(find, in_progress={event}))
    assert retry.message.body == ""


async def test_an_event_from_before_the_endpoint_can_be_sent_to_it(
    engine: Engine, clock: ManualClock, tenant: Tenant, write: Run, sending: Sending
) -> None:
    (event,) = await attempted(sending)
    later = await begin(engine, clock, tenant, ["*"])
    (delivery,) = (await write(deliveries.resend, event, later.subscription.endpoint)).data
    assert (delivery.endpoint, delivery.attempts) == (later.subscription.endpoint, [])
    assert [retry.attempts for retry in await later.pending()] == [0]
    assert await sending.pending() == []


async def test_it_goes_to_every_enabled_endpoint_that_wants_its_kind(
    engine: Engine, clock: ManualClock, tenant: Tenant, write: Run, sending: Sending
) -> None:
    (event,) = await attempted(sending)
    wanting = await begin(engine, clock, tenant, ["account.created"])
    await begin(engine, clock, tenant, ["user.created"])
    disabled = await begin(engine, clock, tenant, ["*"])
    await write(endpoints.disable, disabled.subscription.endpoint)
    sent = await write(deliveries.resend, event)
    assert {delivery.endpoint for delivery in sent.data} == {
        sending.subscription.endpoint,
        wanting.subscription.endpoint,
    }


async def test_the_first_attempt_serves_as_the_resend_if_it_begins_after_that(
    sending: Sending, write: Run
) -> None:
    before, event = await sending.happen(2)
    (delivery,) = (await write(deliveries.resend, event)).data
    assert (delivery.status, delivery.attempts) == ("pending", [])
    assert await sending.pending() == [], "its turn comes after that of the event before it"
    feed = await sending.feed()
    assert ([message.id for message in feed.messages], feed.resends) == ([before, event], {event: 1})
    await sending.record(sending.outcome(event, resends=feed.resends[event]))
    assert {each.status for each in await sending.deliveries()} == {"succeeded"}
    assert await sending.pending() == []


async def test_a_resend_during_an_attempt_follows_it_whatever_its_result(
    sending: Sending, write: Run
) -> None:
    first, second, third = await sending.happen(3)
    await sending.record(sending.failure(second), sending.failure(third))
    sending.clock.advance(1000)
    for event in (first, second, third):
        await write(deliveries.resend, event)
    resent_at = sending.clock.now()
    sending.clock.advance(1000)
    await sending.record(
        sending.failure(first), sending.outcome(second), sending.failure(third, retries=1, retry_in_ms=None)
    )
    pending = await sending.pending()
    assert {retry.message.id: retry.attempts for retry in pending} == {first: 1, second: 2, third: 2}
    assert {(retry.due, retry.retries, retry.resends) for retry in pending} == {(resent_at, 0, 1)}
    await sending.record(*(sending.failure(retry.message.id, resends=1) for retry in pending))
    assert {retry.retries for retry in await sending.pending()} == {1}, "the schedule begins again"


async def test_an_attempt_under_way_begins_no_retry_once_its_endpoint_was_deleted_and_restored(
    sending: Sending, write: Run
) -> None:
    first, second, third = await sending.happen(3)
    await sending.record(sending.failure(second), sending.failure(third))
    endpoint = sending.subscription.endpoint
    await write(endpoints.delete, endpoint)
    await write(endpoints.restore, endpoint, "whsec_new", "whsec_new")
    await sending.record(
        sending.failure(first), sending.failure(second, retries=1), sending.outcome(third, retries=1)
    )
    assert await sending.pending() == []
    statuses = {delivery.event: delivery.status for delivery in await sending.deliveries()}
    assert statuses == {first: "failed", second: "failed", third: "succeeded"}


async def test_a_resend_names_each_matching_endpoint_that_gets_none_and_why(
    engine: Engine, clock: ManualClock, tenant: Tenant, write: Run, sending: Sending
) -> None:
    (event,) = await attempted(sending)
    others = [await begin(engine, clock, tenant, kinds) for kinds in (["*"], ["*"], ["user.created"])]
    disabled, deleted, unmatched = (other.subscription.endpoint for other in others)
    await write(endpoints.disable, disabled)
    await write(endpoints.delete, deleted)
    resent = await write(deliveries.resend, event)
    assert [delivery.endpoint for delivery in resent.data] == [sending.subscription.endpoint]
    skipped = [
        deliveries.SkippedEndpoint(disabled, "disabled"),
        deliveries.SkippedEndpoint(deleted, "deleted"),
    ]
    assert resent.skipped == skipped
    for each in skipped:
        assert await write(deliveries.resend, event, each.endpoint) == deliveries.Resent([], [each])
    with pytest.raises(InvalidRequest, match=r"does not receive account\.created") as refused:
        await write(deliveries.resend, event, unmatched)
    assert refused.value.param == "endpoint"
    clock.advance(31 * DAY)
    with pytest.raises(NotFound):
        await write(deliveries.resend, event, deleted)


async def test_an_event_that_overtook_another_is_sent_again(sending: Sending, write: Run) -> None:
    """The first of the two hangs, so the endpoint's cursor stands before both."""
    _, event = await sending.happen(2)
    await sending.record(sending.failure(event, retry_in_ms=None))
    (delivery,) = (await write(deliveries.resend, event)).data
    assert (delivery.event, delivery.status) == (event, "pending")
    assert [retry.message.id for retry in await sending.pending()] == [event]


async def test_sending_again_is_announced(sending: Sending, write: Run) -> None:
    announced: list[frozenset[str]] = []
    (event,) = await attempted(sending)
    sending.engine.listen(announced.append)
    await write(deliveries.resend, event)
    assert endpoints.TOPIC in announced[-1]


async def test_a_second_use_of_a_key_sends_nothing(sending: Sending, write: Run) -> None:
    (event,) = await attempted(sending)
    await write(deliveries.resend, event, key="once")
    await sending.record(sending.outcome(event, resends=1))
    with pytest.raises(DuplicateIdempotencyKey):
        await write(deliveries.resend, event, key="once")
    assert await sending.pending() == []


async def test_of_others_nothing_is_sent_again(sending: Sending, write: Run, stranger: Tenant) -> None:
    (event,) = await attempted(sending)
    for asked in (
        write(deliveries.resend, event, by=stranger),
        write(deliveries.resend, "evt_none"),
        write(deliveries.resend, event, "whe_none"),
    ):
        with pytest.raises(NotFound):
            await asked
    assert await sending.pending() == []


# Of a deleted endpoint


@holds("webhooks-deleted")
async def test_deliveries_to_a_deleted_endpoint_are_shown_while_it_can_be_restored(
    sending: Sending, read: Run, write: Run, stranger: Tenant
) -> None:
    done, waiting = await attempted(sending, 2)
    await sending.record(sending.failure(waiting))
    endpoint = sending.subscription.endpoint
    await write(endpoints.delete, endpoint)
    sending.clock.advance(30 * DAY)
    page = await read(deliveries.page, endpoint, PageRequest())
    assert [(each.event, each.status, each.next_attempt_at) for each in page.items] == [
        (waiting, "failed", None),
        (done, "succeeded", None),
    ]
    for shown in page.items:
        assert await read(deliveries.of_event, shown.event) == [shown]
    with pytest.raises(NotFound):
        await read(deliveries.page, endpoint, PageRequest(), by=stranger)
    sending.clock.advance(1)
    assert await read(deliveries.of_event, done) == []
    with pytest.raises(NotFound):
        await read(deliveries.page, endpoint, PageRequest())


# How long they are kept


async def test_an_expired_delivery_still_marks_its_place_in_the_list(
    sending: Sending, engine: Engine, read: Run
) -> None:
    await attempted(sending)
    (expired,) = await sending.deliveries()
    sending.clock.advance(LOGS_KEPT_FOR + 1)
    (recent,) = await attempted(sending)
    before = first_at("dlv", sending.clock.now() - LOGS_KEPT_FOR)
    assert await engine.write(lambda unit: deliveries.purge(unit, before, 10)) == 1
    endpoint = sending.subscription.endpoint
    page = await read(deliveries.page, endpoint, PageRequest(after=expired.id, cursor="cursor"))
    assert page.items == []
    newer = await read(deliveries.page, endpoint, PageRequest(before=expired.id))
    assert [each.event for each in newer.items] == [recent]
    for unknown in (first_at("dlv", sending.clock.now()), first_at("evt", 0), "dlv_none"):
        with pytest.raises(InvalidRequest):
            await read(deliveries.page, endpoint, PageRequest(after=unknown, cursor="cursor"))


async def test_old_deliveries_are_purged_with_their_attempts(sending: Sending, engine: Engine) -> None:
    done, waiting, failed = await attempted(sending, 3)
    await sending.record(sending.failure(waiting), sending.failure(failed, retry_in_ms=None))
    sending.clock.advance(1000)
    before = first_at("dlv", sending.clock.now())
    (recent,) = await attempted(sending)
    assert await engine.write(lambda unit: deliveries.purge(unit, before, 1)) == 1
    assert await engine.write(lambda unit: deliveries.purge(unit, before, 100)) == 1
    assert {delivery.event for delivery in await sending.deliveries()} == {waiting, recent}
    rows = await engine.read(lambda unit: unit.execute("SELECT DISTINCT delivery FROM delivery_attempts"))
    assert {row["delivery"] for row in rows} == {delivery.id for delivery in await sending.deliveries()}
    assert done not in {delivery.event for delivery in await sending.deliveries()}


async def test_deliveries_that_wait_for_a_deleted_endpoint_are_purged_too(
    sending: Sending, engine: Engine, write: Run
) -> None:
    (event,) = await attempted(sending)
    await write(endpoints.delete, sending.subscription.endpoint)
    # An answer that was under way when the endpoint was deleted.
    await sending.record(sending.failure(event))
    sending.clock.advance(1000)
    before = first_at("dlv", sending.clock.now())
    assert await engine.write(lambda unit: deliveries.purge(unit, before, 100)) == 1
