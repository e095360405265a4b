"""Both servers of a database are restarted, one after the other, behind each proxy of `deploy/`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.faults.postgres import Postgres
from tests.faults.server import Server
from tests.ledger_engine.cli.test_listening import free_port
from tests.ledger_engine.waiting import looked_until, until
from tests.proxies import proxied

CLIENTS = 4
STOPS = 4
POSTINGS = 50  # between two restarts


class Load:
    """Clients that post as fast as they are answered, and the statuses of the answers."""

    def __init__(self, url: str, key: str) -> None:
        headers = {"Authorization": f"Bearer {key}"}
        self.client = httpx.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=60)
        self.statuses: Counter[int] = Counter()

    async def ready(self) -> bool:
        try:
            return (await self.client.get("/api/health/ready")).status_code == 200
        except httpx.TransportError:
            return False

    async def post(self, account: str) -> None:
        body = {"account": account, "amount": 1, "type": "credit"}
        while True:
            answer = await self.client.post("/v1/transactions", json=body)
            self.statuses[answer.status_code] += 1

    async def until_more(self) -> None:
        """Wait until so many more postings were answered, whatever the answers are."""
        enough = self.statuses.total() + POSTINGS
        await until(lambda: self.statuses.total() >= enough)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    postgres = Postgres()
    yield postgres
    postgres.remove()


@pytest.mark.parametrize("proxy", ["nginx", "haproxy"])
async def test_behind_the_shipped_proxy_both_servers_can_be_restarted_one_after_the_other(
    postgres: Postgres, proxy: str, tmp_path: Path
) -> None:
    address = postgres.address(postgres.new_database())
    ports = [free_port(), free_port()]
    servers = [Server(address, options=("--port", str(port))) for port in ports]
    entrance = free_port()
    with proxied(proxy, entrance, ports, tmp_path):
        try:
            for server in servers:
                await asyncio.to_thread(server.start)
            load = Load(f"http://127.0.0.1:{entrance}", servers[0].make_key())
            await looked_until(load.ready, bool)
            account = await load.client.post("/v1/accounts", json={"name": "Till", "currency": "EUR"})
            posting = [asyncio.create_task(load.post(account.json()["id"])) for _ in range(CLIENTS)]
            for server in servers * 2:  # whichever of them the credential belongs to
                await load.until_more()
                await asyncio.to_thread(server.stop)
                await load.until_more()
                await asyncio.to_thread(server.start)
            await load.until_more()
            for task in posting:
                task.cancel()
            await asyncio.gather(*posting, return_exceptions=True)
            await load.client.aclose()
        finally:
            for server in servers:
                server.kill()
    # nginx may have sent a request on a connection at the moment when the server closed that. It cannot know
    # whether the posting was made, so it answers 503. Each client has at most one such request at a stop.
    failed = load.statuses.total() - load.statuses[201]
    assert failed <= CLIENTS * STOPS, load.statuses
    assert set(load.statuses) <= {201, 503}
