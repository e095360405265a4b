"""Fixtures for servers (with the bare contract, or with every part) and for dashboards connected to them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx
import pytest

from ledger_tui.app import dashboard
from ledger_tui.app.application import LedgerApp
from ledger_tui.client import api, session
from ledger_tui.lists import arrivals
from ledger_tui.server.embedded import Address
from ledger_tui.settings.config import Options
from tests.ledger_tui.cheap_textual import count_frames, make_textual_cheap
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver, until
from tests.ledger_tui.forked_servers import fork_servers, forked_server


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--whole-textual"):
        count_frames()
    else:
        make_textual_cheap()


@pytest.fixture(scope="session", autouse=True)
def nobodys_config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the developer's own config file out of the tests, and the tests' settings out of that file."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("LEDGER_TUI_CONFIG", str(tmp_path_factory.mktemp("config") / "config.toml"))
        yield


@pytest.fixture
def short_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the test's dashboards poll more often, so that a test waits less.

    Only the pauses are shorter; the requests, and the rules for polling less often, stay.
    """
    monkeypatch.setattr(dashboard, "_TICK_SECONDS", 0.1)
    monkeypatch.setattr(arrivals, "_REACTION_SECONDS", 0.0)
    monkeypatch.setattr(arrivals, "_NEW_SECONDS", 0.0)
    monkeypatch.setattr(session, "_FASTEST_POLL_SECONDS", 0.6)
    monkeypatch.setattr(api, "_BACKOFF_SECONDS", (0.1, *api._BACKOFF_SECONDS))


@pytest.fixture
def forked_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the test's dashboards start their own servers with less CPU time."""
    fork_servers(monkeypatch)


@pytest.fixture
def server(short_intervals: None) -> Iterator[ContractServer]:
    with ContractServer() as running:
        yield running


class Dashboards:
    """Opens dashboards of any size on a server."""

    def __init__(self, server: ContractServer) -> None:
        self._server = server

    @asynccontextmanager
    async def open(
        self, size: tuple[int, int] = (80, 24), *, key: str | None = None, read_only: bool = False
    ) -> AsyncIterator[Driver]:
        """Open a dashboard and wait until its first list and its own requests at the start are answered.

        After that, a refusal that the test sets up meets only requests of the test.
        """
        async with self.start(size, key=key, read_only=read_only) as driver:
            await until(lambda: driver.view.model.window.loaded)
            await driver.connects()
            yield driver

    @asynccontextmanager
    async def start(
        self, size: tuple[int, int] = (80, 24), *, key: str | None = None, read_only: bool = False
    ) -> AsyncIterator[Driver]:
        """Open a dashboard without waiting for an answer."""
        app = LedgerApp(Options(url=self._server.url, key=key or self._server.key, read_only=read_only))
        async with app.run_test(size=size, notifications=True) as pilot:
            driver = Driver(app, pilot)
            yield driver
            driver.text()


@pytest.fixture
def dashboards(server: ContractServer) -> Dashboards:
    return Dashboards(server)


@pytest.fixture
async def bare(dashboards: Dashboards) -> AsyncIterator[Driver]:
    """Open a dashboard on a server with the bare contract and nothing in it."""
    async with dashboards.open() as opened:
        yield opened


@pytest.fixture
async def with_till(server: ContractServer, dashboards: Dashboards) -> AsyncIterator[Driver]:
    """Open a dashboard on a server with the bare contract and one account, Till."""
    server.add_account("Till")
    async with dashboards.open() as opened:
        yield opened


@pytest.fixture(scope="session")
def whole_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """Run a server with every part, one process for all tests."""
    server, address = forked_server(tmp_path_factory.mktemp("whole") / "ledger.db")
    yield address
    server.stop()


@pytest.fixture
def own_project(whole_server: Address, short_intervals: None) -> Address:
    """Return that server with a key of an empty project."""
    headers = {"Authorization": f"Bearer {whole_server.key}"}
    body = {"name": "Roastery", "plan": "enterprise"}
    answer = httpx.post(f"{whole_server.url}/v1/projects", json=body, headers=headers)
    assert answer.status_code == 201, answer.text
    return Address(whole_server.url, answer.json()["api_key"]["key"])


@pytest.fixture
async def driver(own_project: Address) -> AsyncIterator[Driver]:
    """Open a dashboard on a server with every part, with one account: Till in EUR."""
    async with dashboard_on(own_project) as opened:
        await opened.sees("● online")
        await opened.app.api.write("POST", "/v1/accounts", {"name": "Till", "currency": "EUR"}, "a")
        opened.view.poll_soon()
        await opened.sees("Till")
        yield opened


@asynccontextmanager
async def dashboard_on(address: Address, size: tuple[int, int] = (100, 30)) -> AsyncIterator[Driver]:
    """Open a dashboard on a running server."""
    app = LedgerApp(Options(url=address.url, key=address.key))
    async with app.run_test(size=size, notifications=True) as pilot:
        driver = Driver(app, pilot)
        yield driver
        driver.text()
