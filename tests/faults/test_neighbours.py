"""One project reads at random what takes long, or leaves it unread; another is still answered."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import Tally
from tests.faults.client import Connection, connected, open_accounts
from tests.faults.server import Server
from tests.ledger_engine import waiting
from tests.ledger_engine.waiting import until

LINES = 3000  # transactions of the account whose statements are read
BATCH = 1000
CLIENTS = 8
READS = 5  # of each client in a round
MEMORY_MAX_KB = 300_000
LEAKING = """
import os
from ledger_engine import cli
from ledger_engine.ledger import statements

def draw_up(*arguments, draw_up=statements.draw_up):
    os.open("/dev/null", os.O_RDONLY)
    return draw_up(*arguments)

statements.draw_up = draw_up
cli.main()
"""
LONG = (
    "/v1/accounts/{account}/statement",
    "/v1/diff?from=2020-01-01&to={moment}&limit=100",
    "/v1/accounts?limit=100&at={moment}",
    "/v1/invoices?limit=100&at={moment}&status=open",
    "/v1/requests?limit=100&path=/v1/none",
    "/v1/events?limit=100",
)


@dataclass(frozen=True)
class Noise:
    """A client of the noisy project: it reads an answer, a part of it or nothing, and counts the statuses."""

    port: int
    key: str
    account: str
    moment: str
    chance: random.Random
    statuses: Counter[str]

    async def read_once(self) -> None:
        path = self.chance.choice(LONG).format(account=self.account, moment=self.moment)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            head = f"GET {path} HTTP/1.1\r\nHost: ledger\r\nAuthorization: Bearer {self.key}\r\n"
            writer.write((head + "Connection: close\r\n\r\n").encode())
            part = self.chance.choice((0, 1, 20_000, -1, -1, -1))
            if not part:
                await writer.drain()
                return
            line = await reader.readexactly(len("HTTP/1.1 200"))
            self.statuses[line[9:].decode()] += 1
            await reader.read(part)
        finally:
            writer.close()


def descriptors(server: Server) -> int:
    return len(list(Path(f"/proc/{server.pid}/fd").iterdir()))


def peak_kb(server: Server) -> int:
    lines = Path(f"/proc/{server.pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


async def assert_neighbours_are_served(server: Server, rounds: int, chance: random.Random) -> Counter[str]:
    """Answer another project in each round, and keep neither descriptors nor memory of what is over."""
    noisy, quiet = server.make_key(), server.make_key()
    (account, *_), accounts = await open_accounts(server.port, noisy), await open_accounts(server.port, quiet)
    async with connected(noisy) as connection:
        posting = {"account": account, "amount": 100, "type": "credit", "description": "Flat white " * 8}
        for _ in range(LINES // BATCH):
            body = {"transactions": [posting] * BATCH}
            last = await connection.request(server.port, "POST", "/v1/transactions/batch", body)
            assert last.status == 201
    statuses: Counter[str] = Counter()
    moment = last.body["data"][-1]["created"]
    noise = Noise(server.port, noisy, account, moment, chance, statuses)
    before = descriptors(server)
    for _ in range(rounds):

        async def keep_reading() -> None:
            for _ in range(READS):
                await noise.read_once()

        noises = [asyncio.create_task(keep_reading()) for _ in range(CLIENTS)]
        async with connected(quiet) as connection:
            while not all(task.done() for task in noises):
                await _ask(connection, server, chance.choice(accounts), moment, statuses)
        await asyncio.gather(*noises)
    assert not [status for status in statuses if status not in ("200", "429", "quiet")], statuses
    await until(lambda: descriptors(server) <= before + 5)
    assert peak_kb(server) < MEMORY_MAX_KB
    return statuses


async def _ask(
    connection: Connection, server: Server, account: str, moment: str, statuses: Counter[str]
) -> None:
    body = {"account": account, "amount": 5, "type": "credit"}
    for method, path, content, status in (
        ("POST", "/v1/transactions", body, 201),
        ("GET", f"/v1/accounts/{account}", None, 200),
        ("GET", "/v1/transactions?limit=100", None, 200),
        ("GET", f"/v1/accounts?limit=20&at={moment}", None, 200),
    ):
        answer = await connection.request(server.port, method, path, content)
        assert answer.status == status, answer
        statuses["quiet"] += 1


@pytest.mark.timeout(600)
async def test_long_reads_of_one_project_leave_the_others_served(
    server: Server, soak: int, seed: int, tally: Tally
) -> None:
    statuses = await assert_neighbours_are_served(server, 2 * soak, random.Random(seed))
    tally(long_reads=2 * soak * CLIENTS * READS, answers_to_others=statuses["quiet"])


async def test_a_server_that_keeps_a_descriptor_of_each_statement_is_found(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "PATIENCE_S", 2)
    server = Server(tmp_path / "ledger.db", program=LEAKING)
    server.start()
    try:
        with pytest.raises(AssertionError, match="it did not come to be"):
            await assert_neighbours_are_served(server, 3, random.Random(seed))
    finally:
        server.kill()
