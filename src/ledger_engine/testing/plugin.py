"""The pytest plugin: fixtures for a server, a project for each test, a webhook inbox and the test helpers.

The plugin itself imports only pytest; each fixture loads the modules that it needs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ledger_engine.testing import Clock, Faults, Inbox, Ledger, LedgerServer, Snapshots


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that name a running server. With them the tests use this server, and start none."""
    group = parser.getgroup("ledger")
    group.addoption(
        "--ledger-url",
        default=os.environ.get("LEDGER_TEST_URL"),
        metavar="URL",
        help="use the server at URL, which runs with --test-helpers, and start none (or LEDGER_TEST_URL)",
    )
    group.addoption(
        "--ledger-key",
        default=os.environ.get("LEDGER_API_KEY_TEST"),
        metavar="KEY",
        help="a test key with the role owner, for the server at --ledger-url (or LEDGER_API_KEY_TEST)",
    )


@pytest.fixture(scope="session")
def ledger_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LedgerServer]:
    """Return a server with test helpers, for all tests; with xdist, each worker has its own server."""
    from ledger_engine.testing.server import LedgerServer

    url, key = request.config.getoption("--ledger-url"), request.config.getoption("--ledger-key")
    if url is not None:
        if not key:
            pytest.fail("--ledger-url needs --ledger-key, a test key with the role owner", pytrace=False)
        try:
            server = LedgerServer.connect(url, key)
        except (ValueError, ConnectionError) as error:
            sentence = f"--ledger-url and --ledger-key: {error}"
            raise pytest.fail.Exception(sentence, pytrace=False) from None
    else:
        server = LedgerServer.start(tmp_path_factory.mktemp("ledger") / "ledger.db")
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def ledger(ledger_server: LedgerServer) -> Iterator[Ledger]:
    """Return an empty project for this test alone, with an owner's test key and a client that sends it."""
    project = ledger_server.new_project()
    try:
        yield project
    finally:
        project.close()


@pytest.fixture
def ledger_inbox(ledger: Ledger) -> Iterator[Inbox]:
    """Return an inbox that receives every event of the test's project by webhook, and checks signatures."""
    from ledger_engine.testing.inbox import Inbox

    with Inbox(ledger) as inbox:
        yield inbox


@pytest.fixture
def ledger_clock(ledger: Ledger) -> Iterator[Clock]:
    """Return the server's clock. After the test the clock is unfrozen, but it is not set back."""
    from ledger_engine.testing.helpers import Clock

    clock = Clock(ledger.client)
    try:
        yield clock
    finally:
        clock.unfreeze()


@pytest.fixture
def ledger_faults(ledger: Ledger) -> Iterator[Faults]:
    """Return an object that makes requests and webhooks of the test's project fail, until the test ends."""
    from ledger_engine.testing.helpers import Faults

    faults = Faults(ledger.client)
    try:
        yield faults
    finally:
        faults.clear()


@pytest.fixture
def ledger_snapshots(ledger: Ledger) -> Iterator[Snapshots]:
    """Return an object that takes and restores snapshots of the server; they are deleted after the test."""
    from ledger_engine.testing.helpers import Snapshots

    snapshots = Snapshots(ledger.client)
    try:
        yield snapshots
    finally:
        snapshots.delete_all()
