"""A standby without the last commits is promoted: nothing acknowledged is lost, or servers refuse it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Iterator
from pathlib import Path

import psycopg
import pytest

from tests.faults.client import Answer, connected, open_accounts
from tests.faults.postgres import ROLE, Postgres
from tests.faults.server import PATIENCE_S, CouldNotServe, Server
from tests.forking import run
from tests.ledger_engine.waiting import looked_until, until

LOST = 30
LACKS = "it lacks changes that were acknowledged"
_WAITS = f"FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND usename = '{ROLE}'"


@pytest.fixture(scope="module")
def primary() -> Iterator[Postgres]:
    primary = Postgres()
    yield primary
    primary.remove()


@pytest.fixture
def standby(primary: Postgres) -> Iterator[Postgres]:
    """A synchronous standby, which is promoted in the test."""
    standby = Postgres(primary)
    yield standby
    standby.remove()
    primary.wait_for_no_standby()


class Client:
    """Sends requests to one server, each on a connection of its own."""

    def __init__(self, server: Server, key: str, account: str) -> None:
        self._port = server.port
        self._key = key
        self._account = account

    def at(self, server: Server) -> Client:
        """Return a client of another server of the same ledger."""
        return Client(server, self._key, self._account)

    async def post(self, name: str) -> Answer:
        """Post 1 with this idempotency key, which is the description too."""
        body = {"account": self._account, "amount": 1, "type": "credit", "description": name}
        async with connected(self._key) as connection:
            return await connection.request(
                self._port, "POST", "/v1/transactions", body, idempotency_key=name
            )

    async def get(self, path: str) -> Answer:
        async with connected(self._key) as connection:
            return await connection.request(self._port, "GET", path)

    async def account(self) -> Answer:
        return await self.get(f"/v1/accounts/{self._account}")

    async def health_when_settled(self) -> Answer:
        """Return the health once it is good, or explains what is wrong."""
        return await looked_until(
            lambda: self.get("/api/health"), lambda answer: answer.status == 200 or answer.body["notice"]
        )


async def client_of(server: Server) -> Client:
    key = server.make_key()
    (account,) = await open_accounts(server.port, key, 1)
    return Client(server, key, account)


def address_of(primary: Postgres, standby: Postgres, database: str) -> str:
    both = f"{primary.sockets},{standby.sockets}"
    return f"postgresql://{ROLE}@/{database}?host={both}&target_session_attrs=read-write"


async def without_standby(superuser: psycopg.Connection, *requests: Awaitable[Answer]) -> list[Answer]:
    """Return the answers, while each wait of a commit for the standby is cancelled."""
    answering = asyncio.gather(*requests)
    while not answering.done():
        await asyncio.to_thread(superuser.execute, f"SELECT pg_cancel_backend(pid) {_WAITS}")
        await asyncio.wait({answering}, timeout=0.05)
    return answering.result()


async def post_without_standby(superuser: psycopg.Connection, client: Client, name: str) -> None:
    """Post, until everybody sees the posting at the primary, although it is not acknowledged."""
    visible = "SELECT count(*) FROM transactions WHERE description = %s"
    while superuser.execute(visible, [name]).fetchone() == (0,):
        (answer,) = await without_standby(superuser, client.post(name))
        assert answer.status == 503


def waits(superuser: psycopg.Connection) -> bool:
    """Whether a commit waits for the standby."""
    return superuser.execute(f"SELECT 1 {_WAITS}").fetchone() is not None


async def test_no_answer_rests_on_a_posting_that_a_promotion_loses(
    primary: Postgres, standby: Postgres
) -> None:
    database = primary.new_database()
    servers = [Server(address_of(primary, standby, database)) for _ in range(2)]
    try:
        for each in servers:
            await asyncio.to_thread(each.start)
        client = await client_of(servers[0])
        with primary.connect(database) as superuser:
            assert (await client.post("at once")).status == 201
            with standby.stopped():
                await post_without_standby(superuser, client, "late")
                again = asyncio.create_task(client.post("late"))
                await until(lambda: again.done() or waits(superuser))
                assert not again.done() or again.result().status == 503
            late = await looked_until(lambda: client.post("late"), lambda answer: answer.status != 503)
            assert (late.status, late.body["error"]["same_request"]) == (409, True)
            assert (await again).status in (409, 503)
            with standby.stopped():
                await post_without_standby(superuser, client, "lost")
                lists = [client.get(path) for path in ("/v1/transactions", "/v1/events")]
                seen = await without_standby(superuser, client.post("lost"), client.account(), *lists)
                assert [answer.status for answer in seen] == [503] * 4
                await asyncio.to_thread(standby.kill)
        with primary.down():
            await asyncio.to_thread(standby.start)
            await asyncio.to_thread(standby.promote)
            for each in servers:  # nothing is lost that was acknowledged
                health = await client.at(each).health_when_settled()
                assert (health.status, health.body["notice"]) == (200, None)
            account = await looked_until(client.account, lambda answer: answer.status != 503)
            assert account.body["balance"] == 2
            statuses = [(await client.post(name)).status for name in ("at once", "late", "lost")]
            assert statuses == [409, 409, 201]
            await asyncio.to_thread(servers[1].assert_books_are_right)
    finally:
        for each in servers:
            each.kill()


async def test_servers_refuse_a_promoted_standby_without_what_they_acknowledged_also_after_a_stop(
    primary: Postgres, standby: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = address_of(primary, standby, primary.new_database())
    # The first one writes its folder because of its own changes alone, and not twice a second too.
    never = {"ledger_engine.store.postgres.notifications.POLL_S": 3600.0}
    ended, running = Server(address, constants=never), Server(address)

    async def start(server: Server) -> None:
        folder = tmp_path / ("ended" if server is ended else "running")
        folder.mkdir(exist_ok=True)
        monkeypatch.setenv("STATE_DIRECTORY", str(folder))
        await asyncio.to_thread(server.start)

    try:
        await start(ended)
        await start(running)
        client = await client_of(ended)
        assert (await client.at(running).post("before")).status == 201
        primary.wait_for_no_standby()
        await asyncio.to_thread(standby.stop)
        assert [(await client.at(running).post(f"at the other {n}")).status for n in range(3)] == [201] * 3
        assert [(await client.post(f"lost {n}")).status for n in range(LOST)] == [201] * LOST
        assert await asyncio.to_thread(ended.stop) == 0
        with primary.down():
            await asyncio.to_thread(standby.start)
            await asyncio.to_thread(standby.promote)
            health = await client.at(running).health_when_settled()
            assert health.status == 503
            assert re.search(r" lacks \d+ commits that this server has acknowledged ", health.body["notice"])
            answer = await client.at(running).post("more")
            assert (answer.status, LACKS in answer.body["error"]["message"]) == (503, True)
            await asyncio.to_thread(running.kill)
            for each in (ended, running):
                with pytest.raises(CouldNotServe):
                    await start(each)
            monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "ended"))
            words = ["serve", "--port", "0", "--database", address]
            refused = await asyncio.to_thread(run, words, timeout=PATIENCE_S)
            assert (refused.returncode, LACKS in refused.stderr) == (1, True)
            count = re.search(r" lacks (\d+) commits", refused.stderr)
            assert count is not None
            assert int(count[1]) >= LOST
    finally:
        for each in (ended, running):
            each.kill()
