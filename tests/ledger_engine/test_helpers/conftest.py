"""One server with test helpers for the tests of a file, and a project of its own for each test."""

from collections.abc import Iterator

import pytest

from tests.helped_server import HelpedServer, Owned


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HelpedServer]:
    with HelpedServer(tmp_path_factory.mktemp("helped") / "ledger.db") as running:
        yield running


@pytest.fixture
def own(server: HelpedServer) -> Owned:
    return server.owned()
