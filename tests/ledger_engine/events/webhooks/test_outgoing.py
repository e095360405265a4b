"""What is on its way to one endpoint: how far it has come, and how much more it may take."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ledger_engine.events.outbox import Message
from ledger_engine.events.webhooks.addresses import parse_url
from ledger_engine.events.webhooks.attempts import Feed, Retry
from ledger_engine.events.webhooks.endpoints import Subscription
from ledger_engine.events.webhooks.outgoing import (
    BYTES_AHEAD,
    FIRSTS_AHEAD,
    NEVER,
    RETRIES_AHEAD,
    Outgoing,
    SentJob,
)
from ledger_engine.events.webhooks.signing import sign, sign_standard

URL = "http://127.0.0.1:4242/hook?a=b"


def message(number: int, size: int = 2) -> Message:
    return Message(f"evt_{number:03}", "account.created", "x" * size)


@pytest.fixture
def outgoing() -> Outgoing:
    subscription = Subscription("whe_1", "prj_1", False, URL, None, "whsec_x", "evt_000")
    return Outgoing(subscription, parse_url(URL, livemode=False), "whsec_x", "evt_000", "evt_000")


def feed(outgoing: Outgoing, *numbers: int, more: bool = False, read_to: int | None = None) -> list[SentJob]:
    """Take these events as the next first attempts."""
    last = read_to or numbers[-1]
    found = Feed([message(number) for number in numbers], f"evt_{last:03}", more)
    return [SentJob(outgoing, each, True, 0, 0, "") for each in outgoing.take_feed(found)]


def retry(number: int, due: int) -> Retry:
    return Retry(f"dlv_{number}", message(number), 1, 1, due, 0)


def test_the_cursor_follows_what_was_answered_without_a_gap(outgoing: Outgoing) -> None:
    first, second, third = feed(outgoing, 1, 2, 3)
    assert outgoing.answered_to() == "evt_000"
    outgoing.take_back(second, was_made=True)
    assert outgoing.answered_to() == "evt_000"
    outgoing.take_back(first, was_made=True)
    assert outgoing.answered_to() == "evt_002"
    outgoing.take_back(third, was_made=True)
    assert outgoing.answered_to() == "evt_003"


def test_behind_the_last_answer_the_cursor_passes_what_is_not_wanted(outgoing: Outgoing) -> None:
    (sent,) = feed(outgoing, 1, read_to=9)
    assert outgoing.answered_to() == "evt_000"
    outgoing.take_back(sent, was_made=True)
    assert outgoing.answered_to() == "evt_009"


def test_an_answer_stays_until_it_is_recorded(outgoing: Outgoing) -> None:
    """Its recording can fail, and then nothing may pass it."""
    first, second = feed(outgoing, 1, 2)
    outgoing.take_back(first, was_made=True)
    assert outgoing.answered_to() == outgoing.answered_to() == "evt_001"
    assert list(outgoing.firsts) == ["evt_001", "evt_002"]
    outgoing.note_cursor("evt_001")
    assert (outgoing.cursor, list(outgoing.firsts)) == ("evt_001", ["evt_002"])
    outgoing.take_back(second, was_made=True)
    outgoing.note_cursor("evt_002")
    assert (outgoing.cursor, outgoing.firsts) == ("evt_002", {})


def test_the_cursor_does_not_pass_what_was_not_made(outgoing: Outgoing) -> None:
    first, second = feed(outgoing, 1, 2)
    outgoing.take_back(first, was_made=False)
    outgoing.take_back(second, was_made=True)
    assert outgoing.answered_to() == "evt_000"
    assert outgoing.drains


def test_something_new_while_the_database_is_read_is_not_overlooked(outgoing: Outgoing) -> None:
    assert outgoing.has_demand(0)
    outgoing.demand(0, 10)
    assert not outgoing.has_demand(0)
    outgoing.may_have_more = True  # a commit, between the reading's snapshot and its answer
    outgoing.take_feed(Feed([], "evt_000", False))
    assert outgoing.has_demand(0)


def test_a_retry_announced_while_the_database_is_read_is_not_overlooked(outgoing: Outgoing) -> None:
    demand = outgoing.demand(100, 10)
    assert outgoing.next_possible_read_at == NEVER
    outgoing.next_read_at = 0
    outgoing.take_retries([retry(1, 500)], demand.retries, 100)
    assert outgoing.next_possible_read_at == 0


def test_no_more_is_handed_over_than_there_is_room_for(outgoing: Outgoing) -> None:
    outgoing.may_have_more = True
    assert outgoing.demand(0, 10).firsts == 10
    outgoing.may_have_more = True
    sent = feed(outgoing, *range(1, FIRSTS_AHEAD - 2), more=True)
    assert outgoing.demand(0, 10).firsts == 3
    outgoing.may_have_more = True
    feed(outgoing, FIRSTS_AHEAD, FIRSTS_AHEAD + 1, FIRSTS_AHEAD + 2)
    outgoing.may_have_more = True
    outgoing.next_read_at = NEVER
    assert not outgoing.has_demand(0)
    outgoing.take_back(sent[0], was_made=True)
    assert outgoing.has_demand(0)


def test_large_bodies_take_the_room_of_many(outgoing: Outgoing) -> None:
    large = message(1, size=BYTES_AHEAD)
    outgoing.take_feed(Feed([large], "evt_001", True))
    outgoing.next_read_at = NEVER
    assert not outgoing.has_demand(0)
    outgoing.take_back(SentJob(outgoing, large, True, 0, 0, ""), was_made=True)
    assert outgoing.has_demand(0)


def test_of_the_pending_those_due_are_taken_and_the_next_is_waited_for(outgoing: Outgoing) -> None:
    demand = outgoing.demand(100, 10)
    due = outgoing.take_retries([retry(1, 50), retry(2, 100), retry(3, 700)], demand.retries, 100)
    assert [each.message.id for each in due] == ["evt_001", "evt_002"]
    assert outgoing.next_possible_read_at == 700


def test_a_retry_on_its_way_is_not_taken_twice(outgoing: Outgoing) -> None:
    assert outgoing.take_retries([retry(1, 50)], 8, 100)
    assert not outgoing.take_retries([retry(1, 50)], 8, 100)


def test_a_retry_recorded_while_the_database_was_read_is_not_taken_again(outgoing: Outgoing) -> None:
    first = outgoing.demand(100, 10)
    (due,) = outgoing.take_retries([retry(1, 50)], first.retries, 100)
    outgoing.next_read_at = 0
    second = outgoing.demand(100, 10)  # its reading sees the delivery as it was before what follows
    sent = SentJob(outgoing, due.message, False, 1, 0, "")
    outgoing.take_back(sent, was_made=True)
    outgoing.note_recorded(sent, None)
    assert not outgoing.take_retries([retry(1, 50)], second.retries, 100)
    third = outgoing.demand(100, 10)
    assert outgoing.take_retries([retry(1, 50)], third.retries, 100), "it may be sent anew after that"


def test_when_all_places_are_taken_retries_wait_for_one(outgoing: Outgoing) -> None:
    demand = outgoing.demand(100, 10)
    pending = [retry(number, number) for number in range(demand.retries)]
    taken = outgoing.take_retries(pending, demand.retries, 100)
    assert len(taken) == RETRIES_AHEAD
    assert outgoing.next_possible_read_at == NEVER
    sent = SentJob(outgoing, taken[0].message, False, 1, 0, "")
    outgoing.take_back(sent, was_made=True)
    outgoing.note_recorded(sent, None)
    assert outgoing.next_possible_read_at <= 100


def test_a_recorded_failure_is_looked_for_when_it_is_due(outgoing: Outgoing) -> None:
    (sent,) = feed(outgoing, 1)
    outgoing.demand(100, 10)
    outgoing.take_back(sent, was_made=True)
    outgoing.note_recorded(sent, 5_100)
    assert outgoing.next_possible_read_at == 5_100
    assert outgoing.unrecorded == 0


def test_one_that_drains_takes_nothing(outgoing: Outgoing) -> None:
    outgoing.drains = True
    assert not outgoing.has_demand(10**15)


def test_a_job_is_the_whole_request(outgoing: Outgoing) -> None:
    body = '{"name":"Kaffeerösterei"}'
    job = outgoing.job(7, Message("evt_001", "account.created", body), 3, is_first=False, now=0, seconds=9)
    headers = dict(json.loads(job.headers))
    assert (job.number, job.endpoint, job.is_first, job.livemode) == (7, "whe_1", False, False)
    assert (job.host, job.port, job.tls, job.path) == ("127.0.0.1", 4242, False, "/hook?a=b")
    assert headers["Host"] == "127.0.0.1:4242"
    assert headers["Content-Length"] == str(len(body.encode()))
    assert headers["Ledger-Signature"] == sign("whsec_x", body.encode())
    assert (headers["Ledger-Event-Id"], headers["Ledger-Event-Type"]) == ("evt_001", "account.created")
    assert headers["Ledger-Attempt"] == "3"
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == ("evt_001", "9")
    assert "Ledger-Signature-Previous" not in headers


def test_a_job_carries_the_traceparent_of_an_event_that_has_one(outgoing: Outgoing) -> None:
    traced = replace(message(1), traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
    jobs = [outgoing.job(7, each, 1, is_first=True, now=0, seconds=9) for each in (traced, message(2))]
    sent, without = [dict(json.loads(job.headers)) for job in jobs]
    assert sent["traceparent"] == traced.traceparent
    assert "traceparent" not in without


def test_the_previous_secret_signs_until_its_time_has_come(outgoing: Outgoing) -> None:
    outgoing.previous = "whsec_old"
    outgoing.subscription = replace(outgoing.subscription, previous="sealed", previous_until=5_000)

    def signed(now: int) -> dict[str, str]:
        job = outgoing.job(7, message(1), 1, is_first=True, now=now, seconds=9)
        return dict(json.loads(job.headers))

    before, after = signed(4_999), signed(5_000)
    assert before["Ledger-Signature"] == after["Ledger-Signature"] == sign("whsec_x", b"xx")
    assert before["Ledger-Signature-Previous"] == sign("whsec_old", b"xx")
    assert "Ledger-Signature-Previous" not in after
    old = sign_standard("whsec_old", "evt_001", 9, b"xx")
    assert before["webhook-signature"] == f"{after['webhook-signature']} {old}"
