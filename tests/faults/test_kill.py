"""SIGKILL under load: what was acknowledged is there, exactly once, and the books are right."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.conftest import Tally
from tests.faults.client import (
    GONE,
    Answer,
    Connection,
    Writers,
    assert_a_loss_is_seen,
    assert_all_is_there_once,
    connected,
    open_accounts,
    read_all,
)
from tests.faults.server import Server

WRITERS = 16


@pytest.mark.timeout(3600)
async def test_an_acknowledged_write_survives_a_kill(
    server: Server, soak: int, seed: int, tally: Tally
) -> None:
    chance = random.Random(seed)
    key = server.make_key()
    accounts = await open_accounts(server.port, key)
    writers = Writers(key, accounts, seed, lambda: server.port)
    async with writers.writing(WRITERS):
        for _ in range(soak):
            await writers.until(chance.randint(50, 400))
            server.kill()
            server.assert_books_are_right()
            server.start()
        await writers.until(100)
    assert writers.memory.surprises == []
    await writers.settle()
    server.assert_books_are_right()
    found = await assert_all_is_there_once(server.port, key, writers.memory)
    assert_a_loss_is_seen(found, writers.memory)
    tally(kills=soak, acknowledged=len(writers.memory.acknowledged))


@pytest.mark.timeout(3600)
async def test_a_retry_after_a_kill_names_the_object_it_made(server: Server, seed: int) -> None:
    key = server.make_key()
    writers = Writers(key, await open_accounts(server.port, key), seed, lambda: server.port)
    async with writers.writing(WRITERS):
        await writers.until(100)
        server.kill()
    server.start()
    async with connected(key) as connection:
        for used, made in writers.memory.acknowledged.items():
            body = {"account": made["account"], "amount": 1, "type": "credit"}
            answer = await connection.request(
                server.port, "POST", "/v1/transactions", body, idempotency_key=used
            )
            assert answer.status == 409
            assert answer.body["error"]["code"] == "duplicate_idempotency_key"
            assert answer.headers["idempotency-original"] == made["id"]
            assert made["id"] in answer.body["error"]["message"]


class Race:
    """Fifty clients that create one object with one idempotency key, and try until they are answered."""

    def __init__(self, server: Server, connections: list[Connection], number: int) -> None:
        self.name = f"Till {number}"
        self.answers: list[Answer] = []
        self._server = server
        self._connections = connections
        self._kill_after: int | None = None
        self._time_to_kill = asyncio.Event()

    async def run(self, kill_after: int | None) -> None:
        """Kill the server once so many are answered, and start it again."""
        self._kill_after = kill_after
        async with asyncio.TaskGroup() as tasks:
            for connection in self._connections:
                tasks.create_task(self._create(connection))
            if kill_after is not None:
                await self._time_to_kill.wait()
                self._server.kill()
                self._server.start()

    async def _create(self, connection: Connection) -> None:
        body = {"name": self.name, "currency": "EUR"}
        while True:
            try:
                answer = await connection.request(
                    self._server.port, "POST", "/v1/accounts", body, idempotency_key=self.name
                )
            except GONE:
                await asyncio.sleep(0.01)
                continue
            self.answers.append(answer)
            if len(self.answers) == self._kill_after:
                self._time_to_kill.set()
            return


@pytest.mark.timeout(3600)
async def test_of_fifty_creates_with_one_key_one_is_made_whenever_the_server_dies(
    server: Server, soak: int, seed: int, tally: Tally
) -> None:
    chance = random.Random(seed)
    key = server.make_key()
    connections = [Connection(key) for _ in range(50)]
    for number in range(2 * soak):
        kill_after = None if number % 4 == 0 else chance.choice([1, 2, 5, 25])
        race = Race(server, connections, number)
        await race.run(kill_after)
        tally(kills=kill_after is not None, races=1)
        statuses = sorted(answer.status for answer in race.answers)
        # The answer to the one that made it may have been lost with the server.
        assert statuses in ([201] + [409] * 49, [409] * 50), statuses
        assert kill_after is not None or 201 in statuses
        made = {answer.body["id"] for answer in race.answers if answer.status == 201}
        named = {answer.headers["idempotency-original"] for answer in race.answers if answer.status == 409}
        assert len(made | named) == 1
    for connection in connections:
        await connection.close()
    accounts = await read_all(server.port, key, "/v1/accounts")
    assert [each["name"] for each in accounts] == [f"Till {n}" for n in reversed(range(2 * soak))]
    server.assert_books_are_right()
