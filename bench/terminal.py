"""A real terminal to measure in: a program in a pseudo-terminal, and the times of its output."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from types import TracebackType

PATIENCE_SECONDS = 120.0  # beyond this it will not come, on a busy machine either
_SETTLING_SECONDS_MAX = 20.0  # a screen that moves all the time never settles
_QUIET_SECONDS = 0.005  # a frame is written at once; after this long without a byte it is complete
# The output of the dashboard: moves of the cursor, other sequences, line ends, and letters.
_OUTPUT = re.compile(
    r"\x1b\[(?P<row>\d*);?(?P<column>\d*)H|\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|\x1b.|(?P<end>\r?\n)|[\x00-\x1f]|(?P<letters>[^\x00-\x1f]+)"
)


class Screen:
    """The letters that a terminal shows, as far as a search for plain words needs them."""

    def __init__(self, columns: int, rows: int) -> None:
        self._lines = [[" "] * columns for _ in range(rows + 1)]
        self._row = self._column = 0
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def write(self, output: bytes) -> None:
        """Change the letters as this output does; a sequence that is cut in two is lost."""
        for part in _OUTPUT.finditer(self._decode(output)):
            if part["row"] is not None:
                self._row, self._column = int(part["row"] or 1) - 1, int(part["column"] or 1) - 1
            elif part["end"]:
                self._row, self._column = self._row + 1, 0
            elif part["letters"]:
                line = self._lines[min(self._row, len(self._lines) - 1)]
                line[self._column : self._column + len(part["letters"])] = part["letters"]
                self._column += len(part["letters"])

    def __contains__(self, text: str) -> bool:
        return any(text in "".join(line) for line in self._lines)


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
        self._screen = Screen(columns, rows)
        self._unwritten = b""  # output that the screen lacks

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
                self.read(0.05)  # its last output; a full buffer would keep the program from ending
        finally:
            self.process.kill()
            self.process.wait()
            os.close(self._master)

    def read(self, seconds: float) -> bytes:
        """Return what is written within a time; empty if nothing is."""
        ready, _, _ = select.select([self._master], [], [], max(0.0, seconds))
        if not ready:
            return b""
        try:
            data = os.read(self._master, 1 << 20)
        except OSError:  # the program has ended
            return b""
        self.seen += data
        self._unwritten += data
        return data

    def forget(self) -> None:
        self.seen = b""

    def until(self, text: str) -> float:
        """Wait until the screen shows a text; return the moment when the output with it arrived."""
        deadline = time.perf_counter() + PATIENCE_SECONDS
        arrived = time.perf_counter()
        while True:
            self._screen.write(self._unwritten)
            self._unwritten = b""
            if text in self._screen:
                return arrived
            if time.perf_counter() > deadline or self.process.poll() is not None:
                raise RuntimeError(f"{text!r} never came; at last there was {self.seen[-2000:]!r}")
            self.read(0.05)
            arrived = time.perf_counter()

    def settle(self, seconds: float = 0.15) -> None:
        """Read until nothing is written for a while, but no longer than 20 seconds."""
        deadline = time.perf_counter() + _SETTLING_SECONDS_MAX
        while self.read(seconds) and time.perf_counter() < deadline:
            pass

    def press(self, key: str) -> float:
        """Press a key; returns the moment when it was pressed."""
        while self.read(_QUIET_SECONDS):  # output that is on its way now does not come from this key
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
        """Return the largest resident size that the program has had, in MB."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            line = next(line for line in status if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e6
