"""SIGKILL while events are delivered: every event reaches every endpoint, in its order.

One endpoint answers 500 half of the time. A short run goes through 100 events and one kill; `--soak N`
through N times as many of both.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ledger_client.webhooks import is_signed
from ledger_engine.events.webhooks.sending import FIRSTS_MAX
from tests.conftest import Tally
from tests.contract.rules import holds
from tests.faults.client import GONE, Writers, connected, open_accounts
from tests.faults.server import Server
from tests.receivers import Received, Receiver, answering, receiving

EVENTS = 100
KILLS = 1


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server that retries soon and often."""
    server = Server(tmp_path / "ledger.db", options=("--webhook-retries", ",".join(["0.2"] * 40)))
    server.start()
    yield server
    server.kill()


async def register(server: Server, key: str, receiver: Receiver) -> str:
    """Register the receiver; gives its secret."""
    async with connected(key) as connection:
        answer = await connection.request(server.port, "POST", "/v1/webhook_endpoints", {"url": receiver.url})
    assert answer.status == 201, answer
    secret: str = answer.body["secret"]
    return secret


async def all_events(server: Server, key: str) -> list[str]:
    """Every event of the project, the oldest first."""
    found: list[str] = []
    cursor = ""
    async with connected(key) as connection:
        while True:
            answer = await connection.request(server.port, "GET", f"/v1/events?limit=100{cursor}")
            assert answer.status == 200, answer
            found += [event["id"] for event in answer.body["data"]]
            if not answer.body["has_more"]:
                return found[::-1]
            cursor = f"&cursor={answer.body['next_cursor']}"


def first_seen(receiver: Receiver) -> list[str]:
    """The events in the order their first attempts came, each once."""
    return list(dict.fromkeys(request.event for request in receiver.received if request.attempt == 1))


def has_all(events: list[str], receiver: Receiver) -> bool:
    return set(events) <= set(receiver.events)


@pytest.mark.timeout(3600)
@holds("events-once")
async def test_every_event_reaches_every_endpoint_through_kills(
    server: Server, soak: int, seed: int, tally: Tally
) -> None:
    chance = random.Random(seed)
    kills = KILLS * soak
    taken: set[str] = set()

    async def answer_half_of_the_time(request: Received, writer: asyncio.StreamWriter) -> None:
        good = chance.random() < 0.5
        if good:
            taken.add(request.event)
        await answering(200 if good else 500)(request, writer)

    key = server.make_key()
    async with receiving() as one, receiving() as two, receiving(answer_half_of_the_time) as moody:
        secrets = [await register(server, key, receiver) for receiver in (one, two, moody)]
        writers = Writers(key, await open_accounts(server.port, key), seed, lambda: server.port)
        async with writers.writing(4):
            for _ in range(kills):
                await writers.until(EVENTS * soak // (kills + 1))
                await asyncio.sleep(chance.random() * 0.3)
                server.kill()
                server.start()
            await writers.until(EVENTS * soak // (kills + 1))
        assert writers.memory.surprises == []
        happened: list[str] = []
        # What was on its way when the writers stopped may happen after the first look.
        while len(happened) < len(found := await all_events(server, key)):
            happened = found
            # After each start the overdue retries are spread over time, so more events take longer.
            patience_s = 60 * soak
            await one.until(partial(has_all, happened, one), patience_s=patience_s)
            await two.until(partial(has_all, happened, two), patience_s=patience_s)
            await moody.until(partial(taken.issuperset, happened), patience_s=patience_s)
        assert len(happened) >= EVENTS * soak
    everything = await all_events(server, key)  # with what a slow machine did after the last look
    for receiver, secret in zip((one, two, moody), secrets, strict=True):
        assert set(happened) <= set(receiver.events) <= set(everything), "nothing is made up"
        # They leave in the order of the events. On a machine that stands still for a moment some are on the
        # wire together, and are read as it happens.
        positions = {event: position for position, event in enumerate(everything)}
        displaced = [abs(positions[event] - position) for position, event in enumerate(first_seen(receiver))]
        assert max(displaced) < FIRSTS_MAX
        for request in receiver.received:
            assert is_signed(request.body, request.headers["ledger-signature"], secret)
    repeated = len(one.received) - len(happened)
    assert not has_all([*happened, "evt_lost"], one), "an event that did not come is seen"
    tally(kills=kills, events=len(happened), deliveries=sum(len(each.received) for each in (one, two, moody)))
    print(f"{len(happened)} events, {kills} kills, {repeated} came to a good endpoint twice")


@pytest.mark.timeout(3600)
async def test_a_kill_between_a_change_and_its_delivery_loses_no_event(server: Server, seed: int) -> None:
    """Nothing is delivered before the kill: the receiver is not there yet."""
    key = server.make_key()
    async with receiving() as receiver:
        await register(server, key, receiver)
        port = receiver.port
    accounts = await open_accounts(server.port, key, count=20)
    server.kill()
    async with receiving(port=port) as again:
        server.start()
        await again.until(lambda: len(set(again.events)) == len(accounts))
        assert set(again.events) == set(await all_events(server, key))


async def test_a_client_that_was_not_answered_may_find_its_event_delivered(server: Server, seed: int) -> None:
    """What was committed is told, whether or not the answer reached the one who asked."""
    key = server.make_key()
    async with receiving() as receiver, connected(key) as connection:
        await register(server, key, receiver)
        asked: list[asyncio.Task[Any]] = []
        for number in range(20):
            body = {"name": f"Till {number}", "currency": "EUR"}
            asked.append(asyncio.create_task(create(server, key, body)))
        await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        server.kill()
        await asyncio.gather(*asked, return_exceptions=True)
        server.start()
        answer = await connection.request(server.port, "GET", "/v1/accounts?limit=100")
        made = {account["id"] for account in answer.body["data"]}
        happened = await all_events(server, key)
        assert len(made) == len(happened)
        await receiver.until(lambda: set(receiver.events) == set(happened))


async def create(server: Server, key: str, body: dict[str, str]) -> None:
    async with connected(key) as connection:
        try:
            await connection.request(server.port, "POST", "/v1/accounts", body)
        except GONE:
            return
