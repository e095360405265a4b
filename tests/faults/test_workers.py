"""`serve --workers 2`: two processes answer, and clients see one server, whichever of them dies."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Tally
from tests.faults.client import (
    Answer,
    Connection,
    Writers,
    assert_a_loss_is_seen,
    assert_all_is_there_once,
    open_accounts,
)
from tests.faults.server import NO_LIMIT, Server
from tests.faults.workers import connections, connections_of, is_running, kill, restarted, workers_of
from tests.ledger_engine.waiting import looked_until, until
from tests.receivers import receiving

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds the workers in /proc")

FOLLOWERS_OF_ONE_MAX = 25  # docs/workers.md: over all workers


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Two workers; each test has a project of its own and leaves both running."""
    database = tmp_path_factory.mktemp("workers") / "ledger.db"
    server = Server(database, options=["--workers", "2"], forks_workers=True)
    server.start()
    yield server
    assert server.stop() == 0


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Server]:
    """Two workers, for a test that ends them."""
    server = Server(tmp_path / "ledger.db", options=["--workers", "2"])
    server.start()
    yield server
    server.kill()


def make_key(server: Server, per_minute: str = NO_LIMIT, per_second: str = NO_LIMIT) -> str:
    limits = ("--plan", "enterprise", "--rate-limit", per_minute, "--burst", per_second)
    project = server.cli("projects", "create", "Workers", *limits)
    made = server.cli("keys", "create", "--project", project["id"], "--mode", "test", "--role", "owner")
    key: str = made["key"]
    return key


async def open_account(server: Server, key: str) -> str:
    return (await open_accounts(server.port, key, 1))[0]


async def post(connection: Connection, server: Server, account: str, key: str | None = None) -> Answer:
    body = {"account": account, "amount": 1, "type": "credit"}
    return await connection.request(server.port, "POST", "/v1/transactions", body, idempotency_key=key)


# What workers share


async def test_connections_are_shared_out_evenly(shared: Server) -> None:
    first, second = workers_of(shared.pid)
    key = make_key(shared)
    # Those of the tests before; a worker tells its parent of an end a moment later.
    await until(lambda: not connections_of(first, shared.port) | connections_of(second, shared.port))
    async with connections(shared, key, 12) as opened:
        counts = [len(connections_of(each, shared.port)) for each in (first, second)]
        assert min(counts) >= 5, counts
        for each in opened[:6:2]:
            await each.close()
        for each in opened[6::2]:
            await each.close()

        def left() -> int:
            return len(connections_of(first, shared.port) | connections_of(second, shared.port))

        await until(lambda: left() == 6)
        async with connections(shared, key, 6):
            counts = [len(connections_of(each, shared.port)) for each in (first, second)]
            # On a busy machine the parent has not heard yet of all that have closed.
            assert min(counts) >= 4, counts


async def flood(server: Server, opened: list[Connection], count: int, *request: Any) -> list[Answer]:
    """Send so many requests over the connections, all of them at the same time."""

    async def send(connection: Connection) -> list[Answer]:
        return [await connection.request(server.port, *request) for _ in range(count // len(opened))]

    return [answer for answers in await asyncio.gather(*map(send, opened)) for answer in answers]


def assert_counted_once(answers: list[Answer], most: int) -> None:
    """Assert that in each minute every request that was let through was counted, and once."""
    through = [answer for answer in answers if answer.status != 429]
    left: dict[str, list[int]] = {}
    for answer in through:
        reset = answer.headers["x-ratelimit-reset"]
        left.setdefault(reset, []).append(int(answer.headers["x-ratelimit-remaining"]))
    for remaining in left.values():
        assert len(set(remaining)) == len(remaining) <= most, sorted(remaining)


async def test_a_burst_over_all_workers_uses_up_one_limit(shared: Server) -> None:
    async with connections(shared, make_key(shared, "60"), 8) as opened:
        answers = await flood(shared, opened, 160, "GET", "/v1/accounts")
    assert_counted_once(answers, 60)
    windows = len({answer.headers["x-ratelimit-reset"] for answer in answers})
    statuses = Counter(answer.status for answer in answers)
    assert statuses[200] >= 52, "the health checks are not counted"
    assert statuses[200] <= 60 * windows
    assert statuses[429] == 160 - statuses[200]


async def test_the_limit_of_one_second_holds_over_all_workers(shared: Server) -> None:
    async with connections(shared, make_key(shared, NO_LIMIT, "10"), 8) as opened:
        began = int(time.time())
        answers = await flood(shared, opened, 80, "GET", "/v1/accounts")
        seconds = int(time.time()) - began + 1
    statuses = Counter(answer.status for answer in answers)
    assert 10 <= statuses[200] <= 10 * seconds
    assert statuses[200] + statuses[429] == 80


async def test_authentication_endpoints_have_one_limit_over_all_workers(shared: Server) -> None:
    async with connections(shared, make_key(shared), 8) as opened:
        answers = await flood(shared, opened, 64, "POST", "/v1/auth/token", {"api_key": "sk_test_no"})
    assert_counted_once(answers, 20)
    assert {answer.status for answer in answers} == {400, 429}


@pytest.mark.parametrize("by", ["a worker", "a command"])
async def test_a_revoked_key_is_refused_by_all_workers_within_a_second(shared: Server, by: str) -> None:
    owner = make_key(shared)
    async with connections(shared, owner, 1) as (boss,):
        made = (await boss.request(shared.port, "POST", "/v1/api_keys", {"role": "owner"})).body
        async with connections(shared, made["key"], 4) as opened:
            for each in opened:
                assert (await each.request(shared.port, "GET", "/v1/accounts")).status == 200
            if by == "a worker":
                revoked = await boss.request(shared.port, "DELETE", f"/v1/api_keys/{made['id']}")
                assert revoked.status == 200
            else:
                await asyncio.to_thread(shared.cli, "keys", "revoke", made["id"])
            revoked_at = time.monotonic()

            async def until_refused(connection: Connection) -> float:
                """Give when the last request was sent that was not refused."""
                allowed_at = [revoked_at]

                async def is_refused() -> bool:
                    sent_at = time.monotonic()
                    refused = (await connection.request(shared.port, "GET", "/v1/accounts")).status == 401
                    allowed_at.extend([] if refused else [sent_at])
                    return refused

                await looked_until(is_refused, bool)
                return allowed_at[-1]

            for last in await asyncio.gather(*map(until_refused, opened)):
                assert last - revoked_at <= 1


@asynccontextmanager
async def stream(server: Server, key: str) -> AsyncIterator[tuple[int, asyncio.StreamReader]]:
    """Follow the events; gives the status, and the answer after its head."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        head = f"GET /v1/events/stream HTTP/1.1\r\nHost: ledger\r\nAuthorization: Bearer {key}\r\n\r\n"
        writer.write(head.encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        yield int(answer.split()[1]), reader
    finally:
        writer.close()


async def next_event(reader: asyncio.StreamReader) -> dict[str, Any]:
    while True:
        line = (await reader.readline()).decode()
        assert line, "the stream has ended"
        if line.startswith("data: ") and "body" in (data := json.loads(line.removeprefix("data: "))):
            event: dict[str, Any] = json.loads(data["body"])
            return event


async def test_a_stream_has_the_events_of_all_workers_in_order(shared: Server) -> None:
    key = make_key(shared)
    account = await open_account(shared, key)
    async with stream(shared, key) as (status, reader), connections(shared, key, 4) as opened:
        assert status == 200
        ids = [(await post(opened[number % 4], shared, account)).body["id"] for number in range(40)]
        heard = [(await next_event(reader))["data"]["object"]["id"] for _ in ids]
    assert heard == ids


async def test_the_streams_of_all_workers_are_counted_together_and_end_with_a_worker(shared: Server) -> None:
    key = make_key(shared)
    before = workers_of(shared.pid)

    async def follow(stack: AsyncExitStack) -> int:
        return (await stack.enter_async_context(stream(shared, key)))[0]

    async with AsyncExitStack() as streams:
        statuses = [await follow(streams) for _ in range(FOLLOWERS_OF_ONE_MAX)]
        assert statuses == [200] * FOLLOWERS_OF_ONE_MAX
        assert await follow(streams) == 403
        counts = [len(connections_of(each, shared.port)) for each in before]
        kill(before[0])
        await restarted(shared, before)
        # Its places are free again, and no more than those.
        again = [await follow(streams) for _ in range(FOLLOWERS_OF_ONE_MAX)]
    assert min(counts) >= FOLLOWERS_OF_ONE_MAX // 2
    assert abs(again.count(200) - counts[0]) <= 1
    assert set(again) == {200, 403}


async def test_every_request_is_logged_once_whichever_worker_had_it(shared: Server) -> None:
    key = make_key(shared)
    async with connections(shared, key, 8) as opened:
        answers = await flood(shared, opened, 80, "GET", "/v1/accounts")
        made = sorted(answer.headers["request-id"] for answer in answers)
        path = "/v1/requests?path=/v1/accounts&limit=100"
        look = partial(opened[0].request, shared.port, "GET", path)
        answer = await looked_until(look, lambda answer: len(answer.body["data"]) >= len(made))
    assert sorted(each["id"] for each in answer.body["data"]) == made


async def test_each_event_is_sent_once_and_in_order_whichever_worker_had_it(shared: Server) -> None:
    key = make_key(shared)
    account = await open_account(shared, key)
    async with receiving() as receiver, connections(shared, key, 8) as opened:
        body = {"url": receiver.url, "events": ["*"]}
        assert (await opened[0].request(shared.port, "POST", "/v1/webhook_endpoints", body)).status == 201
        posted = {"account": account, "amount": 1, "type": "credit"}
        answers = await flood(shared, opened, 80, "POST", "/v1/transactions", posted)
        await receiver.until_received(80)
        last = await post(opened[1], shared, account)
        await receiver.until_received(81)
    events = [each.event for each in receiver.received]
    assert events == sorted(set(events)), "once, and in the order of their ids"
    heard = [json.loads(each.body)["data"]["object"]["id"] for each in receiver.received]
    assert heard == [*sorted(answer.body["id"] for answer in answers), last.body["id"]]


async def test_ids_are_in_the_order_of_the_answers_of_all_workers(shared: Server) -> None:
    key = make_key(shared)
    account = await open_account(shared, key)
    async with connections(shared, key, 2) as opened:
        ids = [(await post(opened[number % 2], shared, account)).body["id"] for number in range(20)]
    assert ids == sorted(ids)


async def test_one_key_posts_once_over_all_workers(shared: Server) -> None:
    key = make_key(shared)
    account = await open_account(shared, key)
    async with connections(shared, key, 8) as opened:
        for number in range(5):
            answers = await asyncio.gather(*(post(each, shared, account, f"key {number}") for each in opened))
            assert sorted(answer.status for answer in answers) == [201] + [409] * 7


# When one of them ends


@pytest.mark.timeout(3600)
async def test_an_acknowledged_write_survives_the_kill_of_a_worker(
    shared: Server, soak: int, seed: int, tally: Tally
) -> None:
    key = make_key(shared)
    accounts = await open_accounts(shared.port, key)
    writers = Writers(key, accounts, seed, lambda: shared.port, rests=soak == 1)
    async with writers.writing(16):
        for number in range(2 * soak):
            await writers.until(100 if soak == 1 else 8000)
            before = workers_of(shared.pid)
            kill(before[number % 2])
            await writers.until(50)
            await restarted(shared, before)
        await writers.until(100)
    assert writers.memory.surprises == []
    await writers.settle()
    shared.assert_books_are_right()
    found = await assert_all_is_there_once(shared.port, key, writers.memory)
    assert_a_loss_is_seen(found, writers.memory)
    tally(kills=2 * soak, acknowledged=len(writers.memory.acknowledged))


@pytest.mark.timeout(3600)
async def test_an_acknowledged_write_survives_the_end_of_all(
    own: Server, soak: int, seed: int, tally: Tally
) -> None:
    key = make_key(own)
    accounts = await open_accounts(own.port, key)
    writers = Writers(key, accounts, seed, lambda: own.port, rests=soak == 1)
    async with writers.writing(16):
        endings = ("SIGKILL", "SIGTERM") * soak
        for number, ending in enumerate(endings, 1):
            await writers.until(100)
            workers = workers_of(own.pid)
            if ending == "SIGTERM":
                assert await asyncio.to_thread(own.stop) == 0
            else:
                kill(own.pid)
            await until(lambda: not any(map(is_running, workers)))  # noqa: B023
            own.kill()
            own.assert_books_are_right()
            own.forks_workers = True  # the first ones were executed
            if number == len(endings):
                own.options = []  # one process can tell what the others have left
            await asyncio.to_thread(own.start)
        await writers.until(50)
    assert writers.memory.surprises == []
    await writers.settle()
    own.assert_books_are_right()
    await assert_all_is_there_once(own.port, key, writers.memory)
    tally(kills=soak, stops=soak, acknowledged=len(writers.memory.acknowledged))
