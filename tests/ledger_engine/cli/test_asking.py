"""The server that a command finds by its ledger."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.commands import run_command
from tests.faults.server import Server
from tests.ledger_engine.cli.conftest import only_line

pytestmark = [pytest.mark.process, pytest.mark.sqlite]


def test_no_key_is_sent_to_the_address_of_a_killed_server(tmp_path: Path) -> None:
    """Any program of this machine may listen there now, and the key would be one of an owner."""
    server = Server(tmp_path / "ledger.db")
    server.start()
    server.make_key()
    server.kill()
    with socket.create_server(("127.0.0.1", server.port)) as stranger:
        stranger.setblocking(False)
        done = run_command(server.database, "post", "acc_1", "5", "credit")
        with pytest.raises(BlockingIOError):
            stranger.accept()
    assert done.exit_code == 1
    assert only_line(done.stderr).startswith(f"ledger-engine: No server serves {server.database}: ")
