"""Record the dashboard's tour in a real terminal: `python -m tools.record_tour [FILE]`.

FILE is an asciinema recording (asciicast v2), which `asciinema play docs/pictures/tour.cast` shows. It
consists of a header and a line for each change of the screen, with the time of the change. The recording
contains only the cells that change, because the dashboard's own output is several times as long.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import TextIO

from bench.terminal import Terminal
from ledger_tui.features.tour import STEPS
from tools.terminal_grid import TerminalGrid

FILE = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "tour.cast"
COLUMNS, ROWS = 120, 34
_PIECE_SECONDS = 0.25  # output within this time is one change
# The first output opens an empty second screen without a cursor. The last output returns to the first screen.
_BEGINNING, _RESTORED = "\x1b[?1049h\x1b[?25l\x1b[2J", "\x1b[?25h\x1b[?1049l"
_BEGUN = re.compile(rb"\x1b(?:\[[0-9;?<>=$]*)?\Z")  # the beginning of an escape sequence whose end is missing
_LAST_SECONDS = 4.0  # how long the last caption is shown


def main() -> int:
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    with tempfile.TemporaryDirectory(prefix="ledger-tour-") as scratch:
        environment = {"LEDGER_TUI_CONFIG": str(Path(scratch, "config.toml")), "TEXTUAL_FPS": "10"}
        with (
            Terminal([sys.executable, "-m", "ledger_tui", "--tour"], COLUMNS, ROWS, environment) as terminal,
            file.open("w", encoding="utf-8", newline="\n") as cast,
        ):
            record(terminal, cast)
    print(f"{file.name}: {file.stat().st_size / 1e3:,.0f} KB")
    return 0


def record(terminal: Terminal, cast: TextIO) -> None:
    """Write the changes of the screen until the tour's last caption was shown for `_LAST_SECONDS`."""
    grid = TerminalGrid(COLUMNS, ROWS)
    header = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "ledger-tui --tour"}
    cast.write(json.dumps(header) + "\n")
    cast.write(json.dumps([0.0, "o", _BEGINNING]) + "\n")
    ends_at: float | None = None
    rest, seconds = b"", 0.0
    while ends_at is None or time.perf_counter() < ends_at:
        if terminal.process.poll() is not None:
            raise SystemExit(f"the tour ended too early: {terminal.seen.decode(errors='replace')[-500:]}")
        piece_ends_at = time.perf_counter() + _PIECE_SECONDS
        piece = rest
        while (left := piece_ends_at - time.perf_counter()) > 0:
            piece += terminal.read(left)
        text, rest = _whole(piece)
        grid.feed(text)
        if changed := grid.changes():
            seconds = round(time.perf_counter() - terminal.started, 2)
            cast.write(json.dumps([seconds, "o", changed], ensure_ascii=False) + "\n")
        if ends_at is None and STEPS[-1].caption in text:
            ends_at = time.perf_counter() + _LAST_SECONDS
        terminal.forget()
    cast.write(json.dumps([seconds + 0.1, "o", _RESTORED]) + "\n")


def _whole(piece: bytes) -> tuple[str, bytes]:
    """Return the text of a piece of output, and the bytes of a character or sequence that is not complete."""
    if begun := _BEGUN.search(piece):
        text, rest = _whole(piece[: begun.start()])
        return text, rest + begun[0]
    for cut in range(min(4, len(piece) + 1)):
        try:
            return piece[: len(piece) - cut].decode(), piece[len(piece) - cut :]
        except UnicodeDecodeError:
            continue
    return piece.decode(errors="replace"), b""


if __name__ == "__main__":
    sys.exit(main())
