"""A server with the bare contract, and dashboards on it that are waited for, never slept for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ledger_tui.app import LedgerApp
from ledger_tui.embedded import EmbeddedServer
from ledger_tui.options import Options
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver, until


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


@pytest.fixture
async def driver(tmp_path: Path) -> AsyncIterator[Driver]:
    """A dashboard on a server that has every part, with one account: Till in EUR."""
    async with dashboard_on_a_server(tmp_path) as opened:
        await opened.sees("● online")
        await opened.app.api.write("POST", "/v1/accounts", {"name": "Till", "currency": "EUR"}, "a")
        await opened.sees("Till")
        yield opened


@asynccontextmanager
async def dashboard_on_a_server(folder: Path, size: tuple[int, int] = (100, 30)) -> AsyncIterator[Driver]:
    server = EmbeddedServer(str(folder / "ledger.db"))
    address = server.start()
    try:
        app = LedgerApp(Options(url=address.url, key=address.key))
        async with app.run_test(size=size, notifications=True) as pilot:
            yield Driver(app, pilot)
    finally:
        server.stop()
