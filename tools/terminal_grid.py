"""The cells of a terminal, which interpret the dashboard's output: text, colours, and moves of the cursor.

After `feed(output)`, `changes()` returns a short output that leads to the same screen.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rich.cells import cell_len

_PIECE = re.compile(
    r"\x1b\[(?P<given>[0-9;]*)(?P<what>[Hm])|\x1b\[[0-9;?<>=]*[A-Za-z]|\x1b.|(?P<text>[^\x1b])"
)
_SHORT_GAP = 6  # `changes` rewrites fewer unchanged cells than this, because a move of the cursor is longer


class _Cell(NamedTuple):
    text: str  # "" if the character in the cell before it is two cells wide
    style: str  # the parameters between `ESC [` and `m` since the last reset


_BLANK = _Cell(" ", "")


class TerminalGrid:
    """A screen of cells. It ignores output that draws nothing, such as the modes of the mouse."""

    def __init__(self, columns: int, rows: int) -> None:
        self._columns = columns
        self._now = [[_BLANK] * columns for _ in range(rows)]
        self._written = [[*row] for row in self._now]
        self._row = self._column = 0
        self._style = ""

    def feed(self, output: str) -> None:
        """Draw output, which must not end within an escape sequence."""
        for piece in _PIECE.finditer(output):
            if (text := piece["text"]) is not None:
                self._draw(text)
            elif piece["what"] == "H":
                row, column = [*map(int, filter(None, piece["given"].split(";"))), 1, 1][:2]
                self._row, self._column = row - 1, column - 1
            elif piece["what"] == "m":
                given = piece["given"]
                if given in ("", "0") or given.startswith("0;"):
                    self._style, given = "", given[2:]
                self._style = ";".join(filter(None, (self._style, given)))

    def _draw(self, text: str) -> None:
        if text in "\r\n":
            self._row, self._column = (self._row, 0) if text == "\r" else (self._row + 1, self._column)
            return
        wide = cell_len(text)
        if text.isprintable() and self._row < len(self._now) and self._column + wide <= self._columns:
            row = self._now[self._row]
            if wide == 0:  # a combining character belongs to the character before it
                before = row[self._column - 1]
                row[self._column - 1] = before._replace(text=before.text + text)
            else:
                row[self._column : self._column + wide] = [_Cell(text, self._style), _Cell("", "")][:wide]
            self._column += wide

    def rows(self) -> list[list[tuple[str, str]]]:
        """Return the pieces of each row: texts with their styles, without blank pieces at the end."""
        found = []
        for row in self._now:
            pieces: list[tuple[str, str]] = []
            for cell in filter(lambda each: each.text, row):
                if pieces and pieces[-1][1] == cell.style:
                    pieces[-1] = (pieces[-1][0] + cell.text, cell.style)
                else:
                    pieces.append((cell.text, cell.style))
            while pieces and not pieces[-1][0].strip() and "48;" not in pieces[-1][1]:
                pieces.pop()
            found.append(pieces)
        return found

    def changes(self) -> str:
        """Return the output for the cells that have changed since the last call; "" if none have."""
        output, style = [], ""
        for number, (now, written) in enumerate(zip(self._now, self._written, strict=True)):
            at = -_SHORT_GAP  # the column of the cursor; negative while the cursor is not in this row
            for column in (c for c in range(self._columns) if now[c] != written[c] and now[c].text):
                if not at <= column < at + _SHORT_GAP:
                    output.append(f"\x1b[{number + 1};{column + 1}H")
                    at = column
                for cell in now[at : column + 1]:
                    if cell.text and cell.style != style:
                        style = cell.style
                        output.append(f"\x1b[0;{style}m" if style else "\x1b[m")
                    output.append(cell.text)
                at = column + max(1, cell_len(now[column].text))
        self._written = [[*row] for row in self._now]
        return "".join(output) + ("\x1b[m" if style else "")
