"""A copy of the terminal's screen. The dashboard writes only the cells that differ from this copy.

Textual alone writes each changed part of a widget as a whole: for a typed character the whole line of the
field, and for an open dialog every line from the left edge of the dialog. On a slow connection that takes
seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from rich.cells import split_graphemes
from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.strip import Strip

# A move of the cursor takes about as many bytes as writing this number of cells. So if at most this many
# unchanged cells lie between two changed cells, the dashboard writes the unchanged cells again. It moves the
# cursor only over a longer gap.
_CELLS_OF_A_MOVE = 6

# The characters about whose width all terminals agree: Latin, Greek, Cyrillic, the usual signs, kana, CJK
# and hangul. Terminals disagree about many other characters, such as the vowel signs of Devanagari, and
# emoji that are newer than the terminal. For a character outside these ranges, `write` first clears the
# cells, then draws the character, and then moves the cursor to the next column. In this way the rest of the
# line is in the right columns, whatever width the terminal gives the character.
_SURE = re.compile(
    "[\u00a0-\u02ff\u0370-\u0482\u1e00-\u1fff\u2010-\u2027\u2030-\u205e\u20a0-\u20bf\u2100-\u262f\u2638-\u2689"
    "\u2690-\u28ff\u3041-\u3096\u30a1-\u30fc\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff60]"
)


class Pen(NamedTuple):
    """A style as the parameters of a terminal's sequence `ESC [ … m`."""

    attributes: str = ""
    foreground: str = ""
    background: str = ""

    def instead_of(self, former: Pen) -> str:
        """Return the sequence that changes the terminal from the pen `former` to this pen."""
        if self == former:
            return ""
        if self.attributes != former.attributes:
            codes = ["0", *self]
        else:
            codes = []
            if self.foreground != former.foreground:
                codes.append(self.foreground or "39")
            if self.background != former.background:
                codes.append(self.background or "49")
        return f"\x1b[{';'.join(filter(None, codes))}m"


# A character with its pen. The second cell of a wide character contains "".
Cell = tuple[str, Pen]
_DEFAULT = Pen()
_UNKNOWN: Cell = ("\0", _DEFAULT)  # differs from every cell that can be drawn


class ScreenCopy:
    """The cells that the dashboard has written to the terminal."""

    def __init__(self) -> None:
        self._lines: dict[int, list[Cell]] = {}

    def forget(self) -> None:
        """Forget all cells, so that the next frame is written completely. Call this if another program may
        have changed the terminal.
        """
        self._lines.clear()

    def write(self, pieces: Iterable[tuple[int, int, Strip]], color_system: ColorSystem) -> str:
        """Return the sequences that make the terminal show `pieces`. A piece is a column, a line, and the
        strip that begins there.
        """
        sent: list[str] = []
        pen = _DEFAULT
        for x, y, strip in pieces:
            new = cells_of(strip, color_system)
            line = self._lines.setdefault(y, [])
            end = x + len(new)
            if len(line) < end:
                line += [_UNKNOWN] * (end - len(line))
            old = line[x:end]
            if old == new:
                continue
            line[x:end] = new
            # If the strip overwrites one half of a wide character, the terminal clears the other half.
            if old[0][0] == "" and x:
                line[x - 1] = _UNKNOWN
            if end < len(line) and line[end][0] == "":
                line[end] = _UNKNOWN
            for first, last in _changes(old, new):
                sent.append(_move(x + first, y))
                for at in range(first, last):
                    character, cell_pen = new[at]
                    if cell_pen is not pen:  # faster than `!=`; equal pens are almost always the same object
                        sent.append(cell_pen.instead_of(pen))
                        pen = cell_pen
                    if character.isascii() or _is_sure(character):
                        sent.append(character)
                    else:
                        width = 2 if new[at + 1 : at + 2] == [("", cell_pen)] else 1
                        sent += (" " * width, _move(x + at, y), character, _move(x + at + width, y))
        if pen != _DEFAULT:
            sent.append("\x1b[0m")
        return "".join(sent)


def _move(x: int, y: int) -> str:
    """Return the sequence that moves the cursor to a cell."""
    return f"\x1b[{y + 1};{x + 1}H"


@lru_cache(1024)
def _is_sure(character: str) -> bool:
    """Return whether all terminals agree with this program about the width of a character."""
    return _SURE.fullmatch(character) is not None


class ChangedCells(CompositorUpdate):
    """An update of Textual's compositor that writes only the cells that differ from the copy."""

    def __init__(self, update: LayoutUpdate | ChopsUpdate, copy: ScreenCopy) -> None:
        self._update = update
        self._copy = copy

    def render_segments(self, console: Console) -> str:
        color_system = console._color_system or ColorSystem.TRUECOLOR
        return self._copy.write(_pieces(self._update), color_system)


def _pieces(update: LayoutUpdate | ChopsUpdate) -> Iterator[tuple[int, int, Strip]]:
    """Yield the strips of an update, each with its column and line."""
    if isinstance(update, LayoutUpdate):
        for y, strips in enumerate(update.strips, update.region.y):
            x = update.region.x
            for strip in strips:
                yield x, y, strip
                x += strip.cell_length
        return
    for y, left, right in update.spans:
        for end, (x, chop) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            if chop is not None and x < right and end > left:
                yield x, y, chop if end <= right else chop.crop(0, right - x)


def _changes(old: list[Cell], new: list[Cell]) -> Iterator[tuple[int, int]]:
    """Yield the first cell of each run of changed cells, and the first cell after this run.

    Up to `_CELLS_OF_A_MOVE` unchanged cells between two changed cells belong to the run.
    """
    first = last = -1
    for at, (before, after) in enumerate(zip(old, new, strict=True)):
        if before == after:
            continue
        if first >= 0 and at - last > _CELLS_OF_A_MOVE:
            yield first, last
            first = -1
        if first < 0:
            first = at - 1 if after[0] == "" and at else at
        last = at + 1
    if first >= 0:
        yield first, last


def cells_of(strip: Strip, color_system: ColorSystem) -> list[Cell]:
    """Return the cells of a strip."""
    cells: list[Cell] = []
    for text, style, control in strip:
        if not control:
            cells += _styled_cells(text, style, color_system)
    return cells


@lru_cache(512)  # a cached text takes 72 bytes for each of its cells
def _styled_cells(text: str, style: Style | None, color_system: ColorSystem) -> list[Cell]:
    pen = _DEFAULT if style is None else pen_of(style, color_system)
    if text.isascii():
        return [(character, pen) for character in text]
    cells: list[Cell] = []
    for start, end, width in split_graphemes(text)[0]:
        cells += [(text[start:end], pen), ("", pen)][:width]
    return cells


@lru_cache(1024)
def pen_of(style: Style, color_system: ColorSystem) -> Pen:
    """Return the pen of a style for a terminal that has the colours of `color_system`."""
    foreground, background = (
        "" if color is None else ";".join(color.downgrade(color_system).get_ansi_codes(is_foreground))
        for color, is_foreground in ((style.color, True), (style.bgcolor, False))
    )
    attributes = style.without_color._make_ansi_codes(color_system)
    return Pen(attributes, foreground, background)
