"""A server with the bare contract, and dashboards on it that are waited for, never slept for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from ledger_tui.app import LedgerApp, Options
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
        """A dashboard whose first list has come."""
        async with self.start(size, key=key, read_only=read_only) as driver:
            await until(lambda: driver.view.window.loaded)
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
