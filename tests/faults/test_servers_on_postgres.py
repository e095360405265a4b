"""Two servers on one PostgreSQL database: what one of them knows, the other knows."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx
import pytest

from tests.faults.server import NO_LIMIT, Server
from tests.forking import Process
from tests.ledger_engine.waiting import looked_until
from tests.postgres_server import emptied_database

AUTH_PER_MINUTE = 20
TILL = {"name": "Till", "currency": "EUR"}
Client = httpx.AsyncClient


@pytest.fixture(scope="module")
def database() -> str:
    return emptied_database()


@pytest.fixture(scope="module")
def pair(database: str) -> Iterator[tuple[Server, Server]]:
    limits = ("--auth-rate-limit", f"{AUTH_PER_MINUTE}/{NO_LIMIT}")
    servers = Server(database, options=limits), Server(database, options=limits)
    for server in servers:
        server.start()
    yield servers
    for server in servers:
        server.kill()


@asynccontextmanager
async def clients(pair: tuple[Server, Server], key: str) -> AsyncIterator[tuple[Client, Client]]:
    """Return a client of each server, with the same key."""
    headers = {"Authorization": f"Bearer {key}"}
    async with AsyncExitStack() as opened:
        one, other = [
            await opened.enter_async_context(
                Client(base_url=server.url, headers=headers, trust_env=False, timeout=60)
            )
            for server in pair
        ]
        yield one, other


def made_key(server: Server, per_minute: str = NO_LIMIT) -> str:
    limits = ("--plan", "enterprise", "--rate-limit", per_minute, "--burst", NO_LIMIT)
    project = server.cli("projects", "create", "Roastery", *limits)
    return str(
        server.cli("keys", "create", "--project", project["id"], "--mode", "test", "--role", "owner")["key"]
    )


def in_one_minute(answers: list[httpx.Response]) -> bool:
    """Whether all of these requests were counted in the same minute."""
    return len({answer.headers["X-RateLimit-Reset"] for answer in answers}) == 1


async def test_of_a_burst_over_both_exactly_the_limit_is_let_through(pair: tuple[Server, Server]) -> None:
    async def send() -> list[httpx.Response]:
        async with clients(pair, made_key(pair[0], per_minute="50")) as both:
            return await asyncio.gather(*[client.get("/v1/accounts") for client in both for _ in range(50)])

    answers = await looked_until(send, in_one_minute)
    assert Counter(answer.status_code for answer in answers) == {200: 50, 429: 50}


async def test_the_limit_of_authentication_endpoints_is_one_for_both(pair: tuple[Server, Server]) -> None:
    async def send() -> list[httpx.Response]:
        async with clients(pair, "none") as both:
            guesses = [client.post("/v1/auth/token", json={"api_key": "sk_test_x"}) for client in both * 20]
            return [await guesses.pop(), *await asyncio.gather(*guesses)]

    first, *others = await looked_until(send, in_one_minute)
    left = int(first.headers["X-RateLimit-Remaining"])
    assert left < AUTH_PER_MINUTE
    assert sum(answer.status_code != 429 for answer in others) == left


async def test_a_key_revoked_at_one_is_refused_by_the_other(pair: tuple[Server, Server]) -> None:
    async with clients(pair, made_key(pair[0])) as (one, other):
        made = (await one.post("/v1/api_keys", json={"name": "Till"})).json()
        with_it = {"Authorization": f"Bearer {made['key']}"}
        assert (await other.get("/v1/accounts", headers=with_it)).status_code == 200
        assert (await one.delete(f"/v1/api_keys/{made['id']}")).status_code == 200

        async def look() -> httpx.Response:
            return await other.get("/v1/accounts", headers=with_it)

        refused = await looked_until(look, lambda answer: answer.status_code != 200)
        assert refused.json()["error"]["code"] == "revoked_credential"


async def stream_of(client: Client, count: int, began: asyncio.Event) -> dict[str, str]:
    """Return the first events that a listener hears of, in their order: the id of each and of its object."""
    found: dict[str, str] = {}
    async with client.stream("GET", "/v1/events/stream") as response:
        async for line in response.aiter_lines():
            if line.startswith("event: session"):
                began.set()
            if line.startswith("data: ") and "body" in (data := json.loads(line.removeprefix("data: "))):
                event = json.loads(data["body"])
                found[event["id"]] = event["data"]["object"]["id"]
                if len(found) == count:
                    return found
    raise AssertionError(f"the stream has ended after {len(found)} events")


async def test_a_stream_of_either_has_all_events_in_order(pair: tuple[Server, Server]) -> None:
    async with clients(pair, made_key(pair[0])) as both:
        began = [asyncio.Event(), asyncio.Event()]
        listening = [
            asyncio.create_task(stream_of(client, 120, each))
            for client, each in zip(both, began, strict=True)
        ]
        await asyncio.gather(*[each.wait() for each in began])

        async def make(client: Client) -> list[str]:
            return [(await client.post("/v1/accounts", json=TILL)).json()["id"] for _ in range(20)]

        made = await asyncio.gather(*[make(client) for client in both for _ in range(3)])
        heard, heard_by_other = await asyncio.gather(*listening)
    assert list(heard) == sorted(heard)
    assert list(heard.items()) == list(heard_by_other.items())
    assert sorted(heard.values()) == sorted(id for each in made for id in each)


async def test_a_dashboards_key_ends_with_its_own_server_and_with_no_other(
    pair: tuple[Server, Server], database: str
) -> None:
    words = ["serve", "--embedded", "--database", database]
    own = Process(words, stdin=-1, stdout=-1, environment=os.environ)
    assert own.stdin is not None
    assert own.stdout is not None
    said = json.loads(own.stdout.readline())
    another = Server(database)
    another.start()
    assert another.stop() == 0
    async with clients(pair, said["key"]) as both:

        async def look() -> set[int]:
            return {(await client.get("/v1/accounts")).status_code for client in both}

        assert await look() == {200}
        own.stdin.close()
        assert own.wait(60) == 0
        await looked_until(look, lambda found: found == {401})
    own.stdout.close()
