"""The dashboard's own server, which runs as a subprocess.

Only this module starts the server program. The server is a separate process, so that dashboard and server do
not share an interpreter lock. The server stops when its standard input closes, so that it cannot outlive the
dashboard.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

START_SECONDS = 30.0
STOP_SECONDS = 5.0
_STDERR_LINES_KEPT = 20


def _sets_another_server(name: str) -> bool:
    """Return whether this variable configures servers that the user starts with `serve`.

    The dashboard's own server must not inherit such a variable.
    """
    ours = ("LEDGER_DATABASE", "LEDGER_SECRET_KEY", "LEDGER_SECRET_KEY_PREVIOUS")
    return name.startswith("LEDGER_") and name not in ours


class ServerDied(Exception):
    """The server ended, or printed something other than its address, before it accepted requests.

    The message gives the reason.
    """


class Address(NamedTuple):
    url: str
    key: str


class EmbeddedServer:
    """A server process of the dashboard's own. `start` and `stop` block: call them from a thread."""

    def __init__(self, database: str | None = None, *, demo: bool = False) -> None:
        self._arguments = [
            *(["--database", database] if database else []),
            *(["--demo"] if demo else []),
        ]
        self._process: subprocess.Popen[str] | None = None
        self._last_lines: deque[str] = deque(maxlen=_STDERR_LINES_KEPT)
        self._has_stopped = False

    def start(self, report: Callable[[float], None] = lambda _share: None) -> Address:
        """Start the server and wait until it accepts requests. Raises ServerDied.

        While a demo loads its data, this method calls `report` repeatedly with the loaded fraction (0 to 1).
        """
        # The server process gets the `sys.path` of this process, to find the same packages, even if the
        # dashboard runs from a one-file archive.
        environment = {
            **{name: value for name, value in os.environ.items() if not _sets_another_server(name)},
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ledger_engine", "serve", "--embedded", *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
            errors="replace",
            start_new_session=True,  # the terminal's signals must reach only the dashboard
        )
        if self._has_stopped:  # stop() was called while the process was being created
            self.stop()
        self._listener = threading.Thread(target=self._keep_last_lines, name="server-stderr", daemon=True)
        self._listener.start()
        lines = self._lines()
        line = self._next_line(lines)
        try:
            while (message := json.loads(line)).keys() == {"loaded"}:
                report(float(message["loaded"]))
                line = self._next_line(lines)
            return Address(message["url"], message["key"])
        except (ValueError, TypeError, KeyError, AttributeError):
            self.stop()
            self._listener.join(STOP_SECONDS)
            raise ServerDied(self._reason(line)) from None

    @property
    def pid(self) -> int | None:
        """The process id; None before `start`."""
        return self._process.pid if self._process is not None else None

    def wait_for_end(self) -> str | None:
        """Block until the server ends. Return the last line of its stderr; None if `stop` ended it."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.wait()
        if self._has_stopped:
            return None
        self._process.stdin.close()
        self._listener.join(STOP_SECONDS)  # the listener may not have read the server's last line yet
        return self._last_lines[-1] if self._last_lines else "the server ended and printed nothing"

    def stop(self) -> None:
        """Close the server's standard input, and wait for the end of the process.

        If the process does not end within STOP_SECONDS, terminate it. If it still runs after another
        STOP_SECONDS, kill it.
        """
        self._has_stopped = True
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        for end in (None, process.terminate, process.kill):
            if end is not None:
                end()
            try:
                process.wait(STOP_SECONDS)
                return
            except subprocess.TimeoutExpired:
                continue

    def _lines(self) -> queue.Queue[str]:
        """Return a queue that receives each line that the server prints, and "" when the output ends."""
        assert self._process is not None
        stdout = self._process.stdout
        assert stdout is not None
        lines: queue.Queue[str] = queue.Queue()

        def read() -> None:
            with stdout:
                for line in stdout:  # read to the end, because a full pipe would block the server
                    lines.put(line)
            lines.put("")

        threading.Thread(target=read, name="server-stdout", daemon=True).start()
        return lines

    @staticmethod
    def _next_line(lines: queue.Queue[str]) -> str:
        """Return the next line; "" if the output has ended or no line arrives within START_SECONDS."""
        try:
            return lines.get(timeout=START_SECONDS)
        except queue.Empty:
            return ""

    def _keep_last_lines(self) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        with self._process.stderr as stderr:
            for line in stderr:
                if line.strip():
                    self._last_lines.append(line.strip())

    def _reason(self, line: str) -> str:
        if self._last_lines:
            return self._last_lines[-1].removeprefix("Error: ")
        if line.strip():
            return f"the server printed {line.strip()[:80]!r} instead of its address"
        assert self._process is not None
        return f"the server ended with exit code {self._process.returncode} and printed nothing"
