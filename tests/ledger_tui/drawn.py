"""A terminal in memory, and a dashboard that runs on it as a program. Its bytes are counted."""

from __future__ import annotations

import codecs
import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from select import select

from rich.cells import get_character_cell_size

PATIENCE_SECONDS = 60.0
_COLUMNS, _LINES = 120, 40
# without the variables with which a terminal or its user chooses colours
_ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("COLORTERM", "NO_COLOR")}
_SEQUENCE = re.compile(
    r"(?s)\x1b(?:\[([\d;?<>=$]*)([a-zA-Z@`{|}~])|[\]P].*?(?:\x07|\x1b\\)|[ =>()#].?|(?=\x1b))"
)
_UNFINISHED = re.compile(r"(?s)\x1b(?:\[[\d;?<>=$]*|[\]P][^\x07\x1b]*)?\Z")


class Drawn:
    """The cells of a terminal: each is a character with the parameters of its style."""

    def __init__(
        self,
        columns: int = _COLUMNS,
        lines: int = _LINES,
        width_of: Callable[[str], int] = get_character_cell_size,
    ) -> None:
        self._width_of = width_of
        self.cells = [[(" ", "")] * columns for _line in range(lines)]
        self._x = self._y = 0
        self._pen = ""
        self._rest = ""

    def write(self, text: str) -> None:
        """Obey what a program writes."""
        text = self._rest + text
        unfinished = _UNFINISHED.search(text)
        self._rest = text[unfinished.start() :] if unfinished else ""
        at = 0
        for sequence in _SEQUENCE.finditer(text := text.removesuffix(self._rest)):
            self._draw(text[at : sequence.start()])
            at = sequence.end()
            match sequence[2]:
                case "H":
                    line, _semicolon, column = (sequence[1] or "1;1").partition(";")
                    self._x, self._y = int(column or 1) - 1, int(line or 1) - 1
                case "m":
                    self._pen = sgr(self._pen, sequence[1])
        self._draw(text[at:])

    def _draw(self, text: str) -> None:
        line = self.cells[self._y]
        for character in text:
            if character in "\r\n\x0f\x07":
                continue
            width = self._width_of(character)
            if not width:
                line[self._x - 1] = (line[self._x - 1][0] + character, line[self._x - 1][1])
                continue
            if line[self._x][0] == "":  # half of a wide character disappears with the other half
                line[self._x - 1] = (" ", line[self._x - 1][1])
            line[self._x : self._x + width] = [(character, self._pen), ("", self._pen)][:width]
            self._x += width
            if self._x < len(line) and line[self._x][0] == "":
                line[self._x] = (" ", line[self._x][1])

    def pens_of(self, text: str) -> set[str]:
        """Return the styles of a text that is on the screen."""
        for cells in self.cells:
            at = "".join(character or "\0" for character, _pen in cells).find(text)
            if at >= 0:
                return {pen for _character, pen in cells[at : at + len(text)]}
        raise AssertionError(f"{text!r} is not on\n{self.text()}")

    def text(self) -> str:
        return "\n".join("".join(character for character, _pen in line) for line in self.cells)


def sgr(former: str, parameters: str) -> str:
    """Return a style in one order after `ESC [ parameters m` was written in the style `former`."""
    parts = {part[0]: part[1:] for part in former.split("|") if part}
    codes = iter((parameters or "0").split(";"))
    for code in codes:
        number = int(code)
        if number == 0:
            parts = {}
        elif number in (39, 49):
            parts.pop("f" if number == 39 else "b", None)
        elif number in (38, 48):
            kind = next(codes)
            color = [next(codes) for _part in range(1 if kind == "5" else 3)]
            parts["f" if number == 38 else "b"] = ";".join([code, kind, *color])
        elif number in {*range(30, 38), *range(90, 98)}:
            parts["f"] = code
        elif number in {*range(40, 48), *range(100, 108)}:
            parts["b"] = code
        else:
            parts[f"a{code}"] = ""
    return "|".join(sorted(name + value for name, value in parts.items()))


class DrawnDashboard:
    """A dashboard that runs as a program on a terminal of 120×40."""

    def __init__(self, url: str, key: str, term: str = "xterm-256color", **environment: str) -> None:
        self._ours, self._its = os.openpty()
        fcntl.ioctl(self._its, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, _COLUMNS, 0, 0))
        # Textual prefers these variables to the size of the terminal.
        size = {"COLUMNS": str(_COLUMNS), "LINES": str(_LINES)}
        self._program = subprocess.Popen(
            [sys.executable, "-m", "ledger_tui", "--url", url],
            stdin=self._its,
            stdout=self._its,
            stderr=self._its,
            env={**_ENVIRONMENT, **size, "TERM": term, "LEDGER_API_KEY": key, **environment},
        )
        self._decoded = codecs.getincrementaldecoder("utf-8")("replace")
        self.screen = Drawn()
        self.bytes_written = 0

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def sees(self, *texts: str) -> None:
        """Wait until all these texts are on the screen."""
        self.reads_until(lambda: all(text in self.screen.text() for text in texts), " and ".join(texts))

    def reads_until(self, is_reached: Callable[[], bool], name: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_reached():
            assert time.monotonic() < deadline, f"{name} never came to stand on\n{self.screen.text()}"
            if select([self._ours], [], [], 0.05)[0]:
                written = os.read(self._ours, 65_536)
                self.bytes_written += len(written)
                self.screen.write(self._decoded.decode(written))

    def close(self) -> None:
        self._program.kill()
        self._program.wait()
        os.close(self._ours)
        os.close(self._its)


@contextmanager
def dashboard_drawn_for(url: str, key: str, **environment: str) -> Iterator[DrawnDashboard]:
    dashboard = DrawnDashboard(url, key, **environment)
    try:
        yield dashboard
    finally:
        dashboard.close()
