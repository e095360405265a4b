from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.server import Server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server on a new file; killed at the end, if the test has not ended it."""
    server = Server(tmp_path / "ledger.db")
    server.start()
    yield server
    server.kill()
