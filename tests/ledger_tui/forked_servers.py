"""Forks the dashboards' own servers from a process that has imported all modules (`tests.forking`).

Starting such a server in the usual way takes a second of CPU time. `test_embedded` and `test_tour` start them
as users do.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ledger_tui.server import embedded
from ledger_tui.server.embedded import Address, EmbeddedServer
from tests.forking import Process


class _Server(Process):
    """A forked process for which several threads may wait, like a `subprocess.Popen`."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], new_session: bool) -> None:
        pipe = subprocess.PIPE
        super().__init__(
            words, stdin=pipe, stdout=pipe, stderr=pipe, environment=environment, new_session=new_session
        )
        self._ended = threading.Event()
        threading.Thread(target=self._note_end, daemon=True).start()

    def _note_end(self) -> None:
        super().wait()
        self._ended.set()

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        assert self.returncode is not None
        return self.returncode


class _Forking:
    """Replaces the module `subprocess` in the module that starts a dashboard's server."""

    PIPE = subprocess.PIPE
    TimeoutExpired = subprocess.TimeoutExpired

    @staticmethod
    def Popen(  # noqa: N802 - it stands for the class
        command: Sequence[str], *, env: Mapping[str, str], start_new_session: bool, **_streams: object
    ) -> _Server:
        assert command[:3] == [sys.executable, "-m", "ledger_engine"]
        return _Server(command[3:], env, start_new_session)


def fork_servers(patch: pytest.MonkeyPatch) -> None:
    """Make dashboards fork their servers until the patch is undone."""
    patch.setattr(embedded, "subprocess", _Forking)


def forked_server(database: Path) -> tuple[EmbeddedServer, Address]:
    """Start one on this file."""
    server = EmbeddedServer(str(database))
    with pytest.MonkeyPatch.context() as patch:
        fork_servers(patch)
        return server, server.start()
