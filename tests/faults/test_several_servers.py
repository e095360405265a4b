"""Several servers on one PostgreSQL database: kills, clocks that differ, servers and databases that stop.

A short run kills two servers and the database once; with `--soak N` it is 2 N servers, and the database N / 2
times.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from functools import partial

import httpx
import pytest

from ledger_engine.events.webhooks.sending import FIRSTS_MAX
from ledger_engine.store.threaded import CHECK_S
from tests.conftest import Tally
from tests.faults.client import (
    Writers,
    assert_a_loss_is_seen,
    assert_all_is_there_once,
    connected,
    open_accounts,
)
from tests.faults.postgres import ROLE, Postgres, Proxy
from tests.faults.server import PATIENCE_S, Server
from tests.faults.several import HOUR_S, Follower, Servers, serving, under_load
from tests.ledger_engine.waiting import looked_until
from tests.receivers import Receiver, receiving

WRITERS = 16
TAKEN_OVER_WITHIN_S = 15
ANSWER_S = 6  # of the server whose database hangs; others have 10
COUNTED_IN_S = 1  # for the rate limit, where the database does not answer
PLAY_S = 10  # for a busy machine; what hangs would take the minute that the client waits
CONNECTIONS_MAX = 10  # of one server
# What anybody may be told: not where the database is, or by which role it is used.
TOLD = {
    f"The storage is not available: it {each}. Nothing was changed."
    for each in ("cannot be reached", "does not answer", "has too many connections")
}
LEARNT_WITHIN_S = 10  # a second, on a machine that is not busy


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    postgres = Postgres()
    yield postgres
    postgres.remove()


@pytest.mark.timeout(3600)
async def test_kills_of_servers_and_of_the_database_lose_and_double_nothing(
    postgres: Postgres, soak: int, seed: int, tally: Tally
) -> None:
    """Three servers are written to and killed; the clocks of two are an hour from that of the third."""
    chance = random.Random(seed)
    kills = ["database"] * max(1, soak // 2) + ["server"] * 2 * soak
    chance.shuffle(kills)
    began = time.monotonic()
    async with serving(postgres, (0, HOUR_S, -HOUR_S)) as servers:
        key = servers.running[0].make_key()
        accounts = await open_accounts(servers.running[0].port, key)
        follower = Follower(servers, accounts[0])
        writers = Writers(key, accounts, seed, lambda: chance.choice(servers.running).port, rests=soak == 1)
        async with under_load(writers, WRITERS):
            for number, killed in enumerate(kills):
                await writers.until(chance.randint(20, 100 if soak == 1 else 700))
                if killed == "database":
                    await asyncio.to_thread(postgres.stop, "immediate")
                    await asyncio.to_thread(postgres.start)
                else:
                    server = chance.choice(servers.running)
                    server.kill()
                    await asyncio.to_thread(server.start)
                if number % 50 == 49:
                    await asyncio.to_thread(servers.verify)
            await writers.until(50)
        await writers.settle()
        servers.verify()
        for server in servers.running:
            found = await assert_all_is_there_once(server.port, key, writers.memory)
            if soak > 1:
                break
        assert_a_loss_is_seen(found, writers.memory)
        followed = follower.assert_missed_nothing()
    memory = writers.memory
    tally(
        kills=kills.count("server"),
        kills_of_postgresql=kills.count("database"),
        acknowledged=len(memory.acknowledged),
        followed=followed,
    )
    print(
        f"{kills.count('server')} kills of a server and {kills.count('database')} of the database in"
        f" {time.monotonic() - began:.0f} s: {len(memory.acknowledged)} acknowledged,"
        f" {len(memory.refused)} refused, {followed} events followed by id"
    )


async def register(server: Server, key: str, receiver: Receiver) -> None:
    async with connected(key) as connection:
        answer = await connection.request(server.port, "POST", "/v1/webhook_endpoints", {"url": receiver.url})
    assert answer.status == 201, answer


def events_of(servers: Servers) -> list[str]:
    """Return the ids of all events of the project that has accounts, in their order."""
    book = "(SELECT book FROM events WHERE type = 'account.created')"
    return [str(id) for (id,) in servers.query(f"SELECT id FROM events WHERE book IN {book} ORDER BY id")]


@pytest.mark.timeout(3600)
async def test_each_event_is_sent_once_and_by_another_server_when_one_dies(
    postgres: Postgres, soak: int, seed: int
) -> None:
    """One of two endpoints moves to a server that starts, and back when that is killed."""
    chance = random.Random(seed)
    async with serving(postgres, (0,)) as servers, receiving() as one, receiving() as two:
        (first,) = servers.running
        key = first.make_key()
        receivers = (one, two)
        for receiver in receivers:
            await register(first, key, receiver)
        accounts = await open_accounts(first.port, key)
        writers = Writers(key, accounts, seed, lambda: chance.choice(servers.running).port, rests=soak == 1)
        async with under_load(writers, 4):
            await writers.until(50 * soak)
            second = Server(servers.address, clock_ahead_s=HOUR_S)
            await asyncio.to_thread(second.start)
            servers.running.append(second)
            await until_spread(servers)
            await writers.until(50 * soak)
        await writers.settle()
        happened = await asyncio.to_thread(events_of, servers)
        for receiver in receivers:
            await receiver.until_received(len(happened))
        await asyncio.sleep(1.5)  # time in which a second server would look for what to send
        for receiver in receivers:
            assert len(receiver.received) == len(happened), "once"
            assert is_nearly_in_order(receiver.events, happened)
        for _ in range(soak):
            happened = await kill_who_sends(servers, receivers, writers)
        repeated = [len(receiver.received) - len(happened) for receiver in receivers]
        print(f"{len(happened)} events, {soak} kills, {repeated} came twice")


async def until_spread(servers: Servers) -> None:
    """Wait until each server has one of the two endpoints."""

    async def owners() -> int:
        ((count,),) = await asyncio.to_thread(
            servers.query,
            "SELECT count(DISTINCT owner) FROM leases WHERE name <> 'leader' AND name NOT LIKE 'server %'",
        )
        assert isinstance(count, int)
        return count

    await looked_until(owners, lambda count: count == 2)


async def kill_who_sends(servers: Servers, receivers: Sequence[Receiver], writers: Writers) -> list[str]:
    """Kill a server, until the other one sends to its endpoint too; return all events."""
    await until_spread(servers)
    died = servers.running[0]
    servers.running.reverse()
    async with under_load(writers, 4):
        await writers.until(20)
        died.kill()
        killed_at = time.monotonic()
        await asyncio.sleep(0.5)  # what was on the wire
        before = [len(receiver.received) for receiver in receivers]
        await writers.until(20)
    for receiver, count in zip(receivers, before, strict=True):
        await receiver.until_received(count + 1)
    assert time.monotonic() - killed_at < TAKEN_OVER_WITHIN_S
    await asyncio.to_thread(died.start)
    await writers.settle()
    happened = await asyncio.to_thread(events_of, servers)
    for receiver in receivers:
        await receiver.until(partial(has_all, receiver, happened))
        assert is_nearly_in_order(list(dict.fromkeys(receiver.events)), happened)
    return happened


def has_all(receiver: Receiver, happened: list[str]) -> bool:
    return set(receiver.events) >= set(happened)


def is_nearly_in_order(received: list[str], happened: list[str]) -> bool:
    """Whether events came in their order, but for those that were on the wire together."""
    positions = {event: position for position, event in enumerate(happened)}
    return max(abs(positions[event] - position) for position, event in enumerate(received)) < FIRSTS_MAX


@pytest.mark.timeout(3600)
async def test_a_server_stopped_while_it_holds_a_lock_is_overtaken_and_spoils_nothing(
    postgres: Postgres, soak: int, seed: int
) -> None:
    """The one that is stopped wakes after its transaction was ended, and makes its posting then."""
    chance = random.Random(seed)
    async with serving(postgres, (HOUR_S, 0)) as servers:
        stopped, other = servers.running
        key = stopped.make_key()
        accounts = await open_accounts(stopped.port, key)
        writers = Writers(key, accounts, seed, lambda: other.port, rests=soak == 1)
        for number in range(soak):
            # A posting of the one waits within its transaction, until it is stopped.
            with postgres.connect(servers.database) as blocking, blocking.transaction():
                blocking.execute("SELECT * FROM accounts FOR UPDATE")
                held = {"account": chance.choice(accounts), "amount": 1, "type": "credit"}
                writers.memory.unanswered[f"held {number}"] = held
                async with connected(key) as connection:
                    posting = asyncio.create_task(
                        connection.request(
                            stopped.port, "POST", "/v1/transactions", held, idempotency_key=f"held {number}"
                        )
                    )
                    await asyncio.to_thread(until_somebody_waits, servers)
                    os.killpg(stopped.pid, signal.SIGSTOP)
                    blocking.execute("ROLLBACK")
                    try:
                        async with under_load(writers, 4):
                            await writers.until(20)
                    finally:
                        os.killpg(stopped.pid, signal.SIGCONT)
                    answer = await posting
                    if answer.status == 201:
                        del writers.memory.unanswered[f"held {number}"]
                        writers.memory.acknowledged[f"held {number}"] = answer.body
                    else:
                        assert answer.status == 503, answer
        writers.port = lambda: stopped.port
        await writers.settle()
        servers.verify()
        await assert_all_is_there_once(stopped.port, key, writers.memory)


def until_somebody_waits(servers: Servers) -> None:
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype IN ('transactionid', 'tuple')"
    given_up_at = time.monotonic() + PATIENCE_S
    while servers.query(waiting) == [(0,)]:
        assert time.monotonic() < given_up_at
        time.sleep(0.01)


async def test_a_database_that_hangs_refuses_or_is_out_of_reach_is_503_and_survived(
    postgres: Postgres, seed: int
) -> None:
    proxy = Proxy(postgres)
    database = postgres.new_database()
    shorter = {"ledger_engine.store.threaded.ANSWER_S": ANSWER_S}
    server = Server(postgres.address(database, sockets=proxy.sockets), constants=shorter)
    try:
        await asyncio.to_thread(server.start)
        key = server.make_key()
        accounts = await open_accounts(server.port, key)
        writers = Writers(key, accounts, seed, lambda: server.port, rests=True)
        writers.accept_refusals = True
        async with httpx.AsyncClient(base_url=server.url, timeout=PATIENCE_S) as client:
            await hang(postgres, proxy, database, client, writers)
            await end_connections(postgres, database, client, writers)
            await restart(postgres, client, writers)
        await writers.settle()
        server.assert_books_are_right()
        await assert_all_is_there_once(server.port, key, writers.memory)
    finally:
        proxy.release()
        server.kill()
        proxy.close()


async def hang(
    postgres: Postgres, proxy: Proxy, database: str, client: httpx.AsyncClient, writers: Writers
) -> None:
    """Forward nothing for longer than an answer may take: 503 within its time, for all who ask."""
    async with under_load(writers, 8):
        await writers.until(20)
        proxy.hold()
        began = time.monotonic()
        async with asyncio.TaskGroup() as reading:
            answers = [
                reading.create_task(client.get("/v1/accounts", headers=writers.headers)) for _ in range(60)
            ]
            health = await client.get("/api/health")
            assert (health.status_code, health.json()["ok"]) == (503, False)
            assert time.monotonic() - began < COUNTED_IN_S + CHECK_S + PLAY_S
        assert {answer.result().status_code for answer in answers} == {503}
        assert time.monotonic() - began < ANSWER_S + PLAY_S
        await writers.until_refused()
        assert time.monotonic() - began < COUNTED_IN_S + CHECK_S + ANSWER_S + 2 * PLAY_S
    proxy.release()
    await until_healthy(client)
    async with under_load(writers, 8):
        await writers.until(20)
    with postgres.connect(database) as beside:
        connections = "SELECT count(*) FROM pg_stat_activity WHERE usename = %s"
        await looked_until(
            partial(asyncio.to_thread, lambda: beside.execute(connections, [ROLE]).fetchone()),
            lambda found: found[0] < CONNECTIONS_MAX,
        )


async def end_connections(
    postgres: Postgres, database: str, client: httpx.AsyncClient, writers: Writers
) -> None:
    """Allow no connection any more and end those that there are, as when all are taken."""
    with postgres.connect(database) as beside:
        beside.execute(f"ALTER ROLE {ROLE} CONNECTION LIMIT 0")
        try:
            beside.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{ROLE}'")
            health = await client.get("/api/health")
            assert (health.status_code, health.json()["ok"]) == (503, False)
            assert health.json()["message"] in TOLD
        finally:
            beside.execute(f"ALTER ROLE {ROLE} CONNECTION LIMIT -1")
    await until_healthy(client)
    async with under_load(writers, 8):
        await writers.until(20)


async def restart(postgres: Postgres, client: httpx.AsyncClient, writers: Writers) -> None:
    async with under_load(writers, 8):
        await writers.until(20)
        await asyncio.to_thread(postgres.stop)
        health = await client.get("/api/health")
        assert (health.status_code, health.json()["ok"]) == (503, False)
        assert health.json()["message"] in TOLD
        await asyncio.to_thread(postgres.start)
        await writers.until(20)
    await until_healthy(client)


async def until_healthy(client: httpx.AsyncClient) -> None:
    health = await looked_until(partial(client.get, "/api/health"), lambda answer: answer.status_code == 200)
    assert health.json()["ok"]


async def test_without_a_single_notification_each_server_learns_of_the_others_commits(
    postgres: Postgres,
) -> None:
    """They are lost: what sends them does nothing in this database."""
    async with serving(postgres, []) as servers, receiving() as receiver:
        with postgres.connect(servers.database) as connection:
            connection.execute(
                "CREATE FUNCTION public.pg_notify(text, text) RETURNS void LANGUAGE sql AS 'SELECT'"
            )
            name = servers.database
            connection.execute(f"ALTER DATABASE {name} SET search_path TO public, pg_catalog".encode())
        one, other = servers.running[:] = [Server(servers.address) for _ in range(2)]
        for each in servers.running:
            await asyncio.to_thread(each.start)
        key = one.make_key()
        revoked = one.cli("keys", "create", "--project", project_of(servers), "--mode", "test")
        await register(other, key, receiver)
        async with connected(revoked["key"]) as connection:
            assert (await connection.request(other.port, "GET", "/v1/accounts")).status == 200
            await asyncio.to_thread(one.cli, "keys", "revoke", revoked["id"])
            async with asyncio.timeout(LEARNT_WITHIN_S):
                await looked_until(
                    partial(connection.request, other.port, "GET", "/v1/accounts"),
                    lambda answer: answer.status == 401,
                )
        for each in servers.running:
            before = len(receiver.received)
            await open_accounts(each.port, key, count=1)
            async with asyncio.timeout(LEARNT_WITHIN_S):
                await receiver.until_received(before + 1)


def project_of(servers: Servers) -> str:
    ((project,),) = servers.query("SELECT id FROM projects WHERE name = 'Faults'")
    return str(project)
