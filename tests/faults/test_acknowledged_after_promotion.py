"""A standby without the last commits is promoted: nothing acknowledged is lost, or servers refuse it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator

import psycopg
import pytest

from tests.faults.client import Answer, connected, open_accounts
from tests.faults.postgres import ROLE, Postgres
from tests.faults.server import Server
from tests.ledger_engine.waiting import looked_until, until

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


class Client:
    """Sends requests to one server, each on a connection of its own."""

    def __init__(self, server: Server, key: str, account: str) -> None:
        self._port = server.port
        self._key = key
        self._account = account

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
        await asyncio.to_thread(primary.stop, "immediate")
        await asyncio.to_thread(standby.start)
        await asyncio.to_thread(standby.promote)
        for each in servers:  # nothing is lost that was acknowledged
            health = await Client(each, "", "").health_when_settled()
            assert (health.status, health.body["notice"]) == (200, None)
        account = await looked_until(client.account, lambda answer: answer.status != 503)
        assert account.body["balance"] == 2
        statuses = [(await client.post(name)).status for name in ("at once", "late", "lost")]
        assert statuses == [409, 409, 201]
        servers[1].assert_books_are_right()
    finally:
        for each in servers:
            each.kill()
