"""A server of a build, as a stranger starts it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

LISTENING = "Listening on "
KEY = "sk_test_" + "Binary00" * 4


@contextmanager
def serving(command: Sequence[str | Path], folder: Path) -> Iterator[str]:
    """Run `serve` in an empty folder with nothing that leads to this checkout; yield its URL."""
    home = folder / "home"
    home.mkdir()
    environment = {"PATH": os.defpath, "HOME": str(home), "LEDGER_API_KEY_TEST": KEY}
    words = ["serve", "--database", str(folder / "ledger.db"), "--port", "0"]
    with subprocess.Popen(
        [*command, *words], cwd=home, env=environment, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line.startswith(LISTENING), line
        yield line.removeprefix(LISTENING).strip()
        server.terminate()
    assert server.returncode == 0
