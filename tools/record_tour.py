"""Record the dashboard's tour in a real terminal: `python -m tools.record_tour [FILE]`.

It writes an asciinema recording (asciicast v2: a header, then a line for each piece of output with its time),
which `asciinema play docs/pictures/tour.cast` shows.
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
from ledger_tui.tour import STEPS

FILE = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "tour.cast"
COLUMNS, ROWS = 120, 34
_QUESTION = re.compile(
    r"\x1b\[[?>]?[0-9;]*(?:\$p|u|c|n)"
)  # to the terminal, which would answer it when played
_PIECE_SECONDS = 0.1  # output within this time is one piece
# What gives the terminal back as it was: its screen, its cursor, and the mouse.
_RESTORED = "\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?2004l\x1b[?1004l\x1b[?7h\x1b[?25h\x1b[?1049l"
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
    """Write the output of the terminal until the tour's last caption has been shown."""
    header = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "ledger-tui --tour"}
    cast.write(json.dumps(header) + "\n")
    ends_at: float | None = None
    rest, seconds, before = b"", 0.0, ""
    while ends_at is None or time.perf_counter() < ends_at:
        if terminal.process.poll() is not None:
            raise SystemExit(f"the tour ended too early: {terminal.seen.decode(errors='replace')[-500:]}")
        piece_ends_at = time.perf_counter() + _PIECE_SECONDS
        piece = rest
        while (left := piece_ends_at - time.perf_counter()) > 0:
            piece += terminal.read(left)
        text, rest = _whole(piece)
        text = _QUESTION.sub("", text)
        if text and text != before:  # drawing the same again changes nothing
            before = text
            seconds = round(time.perf_counter() - terminal.started, 2)
            cast.write(json.dumps([seconds, "o", text], ensure_ascii=False) + "\n")
        if ends_at is None and STEPS[-1].caption in text:
            ends_at = time.perf_counter() + _LAST_SECONDS
        terminal.forget()
    cast.write(json.dumps([seconds + 0.1, "o", _RESTORED]) + "\n")


def _whole(piece: bytes) -> tuple[str, bytes]:
    """Return the text of a piece, and the bytes of a character that has not arrived whole."""
    for cut in range(min(4, len(piece) + 1)):
        try:
            return piece[: len(piece) - cut].decode(), piece[len(piece) - cut :]
        except UnicodeDecodeError:
            continue
    return piece.decode(errors="replace"), b""


if __name__ == "__main__":
    sys.exit(main())
