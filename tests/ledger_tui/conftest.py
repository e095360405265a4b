"""Servers with the bare contract and with every part, and dashboards on them that are waited for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx
import pytest

from ledger_tui.app import LedgerApp
from ledger_tui.embedded import Address, EmbeddedServer
from ledger_tui.options import Options
from tests.ledger_tui.cheap_textual import parse_styles_once
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver, until

parse_styles_once()


@pytest.fixture
def server() -> Iterator[ContractServer]:
    with ContractServer() as running:
        yield running


class Dashboards:
    """Opens dashboards on a server, as large as a test wants them."""

    def __init__(self, server: ContractServer) -> None:
        self._server = server

    @asynccontextmanager
    async def open(
        self, size: tuple[int, int] = (80, 24), *, key: str | None = None, read_only: bool = False
    ) -> AsyncIterator[Driver]:
        """A dashboard whose first list has come, and whose own questions at the start are answered: what
        the server is told to refuse from now on is what the test asks for."""
        async with self.start(size, key=key, read_only=read_only) as driver:
            await until(lambda: driver.view.window.loaded)
            await driver.connects()
            yield driver

    @asynccontextmanager
    async def start(
        self, size: tuple[int, int] = (80, 24), *, key: str | None = None, read_only: bool = False
    ) -> AsyncIterator[Driver]:
        """A dashboard that may never get an answer."""
        app = LedgerApp(Options(url=self._server.url, key=key or self._server.key, read_only=read_only))
        async with app.run_test(size=size, notifications=True) as pilot:
            yield Driver(app, pilot)


@pytest.fixture
def dashboards(server: ContractServer) -> Dashboards:
    return Dashboards(server)


@pytest.fixture(scope="session")
def whole_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """A server that has every part, one process for all tests."""
    server = EmbeddedServer(str(tmp_path_factory.mktemp("whole") / "ledger.db"))
    yield server.start()
    server.stop()


@pytest.fixture
def own_project(whole_server: Address) -> Address:
    """That server with a key of a project in which there is nothing."""
    headers = {"Authorization": f"Bearer {whole_server.key}"}
    body = {"name": "Roastery", "plan": "enterprise"}
    answer = httpx.post(f"{whole_server.url}/v1/projects", json=body, headers=headers)
    assert answer.status_code == 201, answer.text
    return Address(whole_server.url, answer.json()["api_key"]["key"])


@pytest.fixture
async def driver(own_project: Address) -> AsyncIterator[Driver]:
    """A dashboard on a server that has every part, with one account: Till in EUR."""
    async with dashboard_on(own_project) as opened:
        await opened.sees("● online")
        await opened.app.api.write("POST", "/v1/accounts", {"name": "Till", "currency": "EUR"}, "a")
        await opened.sees("Till")
        yield opened


@asynccontextmanager
async def dashboard_on(address: Address, size: tuple[int, int] = (100, 30)) -> AsyncIterator[Driver]:
    """A dashboard on a server that runs."""
    app = LedgerApp(Options(url=address.url, key=address.key))
    async with app.run_test(size=size, notifications=True) as pilot:
        yield Driver(app, pilot)
