"""Run a program in a pseudo-terminal, and measure the times of its output."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from types import TracebackType

from tools.terminal_grid import TerminalGrid

PATIENCE_SECONDS = 120.0  # even on a busy machine the output comes earlier, if it comes at all
_SETTLING_SECONDS_MAX = 20.0  # because a screen that changes all the time never becomes quiet
_QUIET_SECONDS = 0.005  # a frame is written at once; after this long without a byte it is complete


class Terminal:
    """`with Terminal(command, columns, rows) as terminal:` runs the command until the block ends."""

    def __init__(
        self, command: Sequence[str], columns: int, rows: int, environment: Mapping[str, str]
    ) -> None:
        self._command = list(command)
        self._size = (rows, columns)
        self._environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **environment}
        self.seen = b""  # everything written since the last `forget`
        # The dashboard sends only the cells that change, so a new word may never be in the output as a whole.
        self._grid = TerminalGrid(columns, rows)
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._undrawn = b""  # output that was read, but not yet drawn into the grid

    def __enter__(self) -> Terminal:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *self._size, 0, 0))
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            self._command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=self._environment,
            start_new_session=True,
        )
        os.close(slave)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.terminate()
        try:
            deadline = time.monotonic() + 5
            while self.process.poll() is None and time.monotonic() < deadline:
                self.read(0.05)  # read the last output: with a full buffer the program could not end
        finally:
            self.process.kill()
            self.process.wait()
            os.close(self._master)

    def read(self, seconds: float) -> bytes:
        """Return output that arrives within this time; empty if no output arrives."""
        ready, _, _ = select.select([self._master], [], [], max(0.0, seconds))
        if not ready:
            return b""
        try:
            data = os.read(self._master, 1 << 20)
        except OSError:  # the program has ended
            return b""
        self.seen += data
        self._undrawn += data
        return data

    def forget(self) -> None:
        self.seen = b""

    def until(self, text: str) -> float:
        """Wait until the screen shows a text; return the moment when the output with this text arrived."""
        deadline = time.perf_counter() + PATIENCE_SECONDS
        arrived = time.perf_counter()
        while True:
            self._grid.feed(self._decode(self._undrawn))
            self._undrawn = b""
            if any(text in "".join(piece for piece, _style in row) for row in self._grid.rows()):
                return arrived
            if time.perf_counter() > deadline or self.process.poll() is not None:
                raise RuntimeError(f"{text!r} never came; at last there was {self.seen[-2000:]!r}")
            self.read(0.05)
            arrived = time.perf_counter()

    def settle(self, seconds: float = 0.15) -> None:
        """Read until no output arrives for `seconds`, but no longer than 20 seconds."""
        deadline = time.perf_counter() + _SETTLING_SECONDS_MAX
        while self.read(seconds) and time.perf_counter() < deadline:
            pass

    def press(self, key: str) -> float:
        """Press a key; return the moment of the press."""
        while self.read(_QUIET_SECONDS):  # output that arrives before the press is not caused by this key
            pass
        os.write(self._master, key.encode())
        return time.perf_counter()

    def key_to_first_byte_ms(self, key: str) -> float:
        """Press a key and return the milliseconds to the first byte that is written after it."""
        pressed = self.press(key)
        if not self.read(PATIENCE_SECONDS):
            raise RuntimeError("a key had no answer")
        return (time.perf_counter() - pressed) * 1000

    def peak_memory_mb(self) -> float:
        """Return the largest resident size of the program so far, in MB."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            line = next(line for line in status if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e6
