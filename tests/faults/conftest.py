from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.server import Server
from tests.faults.tracing import Tracer
from tests.marking import mark_folder


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_folder(Path(__file__).parent, items, "process")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server on a new file; killed at the end, if the test has not ended it."""
    server = Server(tmp_path / "ledger.db")
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def tracer(tmp_path_factory: pytest.TempPathFactory) -> Tracer:
    """Return what runs commands under strace."""
    return Tracer(tmp_path_factory.mktemp("tracer"))
