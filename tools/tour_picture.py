"""Make an animated picture of the recorded tour: `python -m tools.tour_picture [CAST [SVG]]`.

The program plays the recording into a grid of cells, and makes a frame of the grid about once a second. The
SVG contains each line once, even if several frames show the line. The SVG's own animation shows each frame at
its time, also if a page embeds the SVG as an image. The picture begins with the first frame that has the text
`BEGINS_WITH`; a viewer without animations shows this frame.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import NamedTuple

from rich.cells import cell_len

from tools.block_shapes import rectangles, without_blocks
from tools.terminal_grid import TerminalGrid

CAST = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "tour.cast"
BEGINS_WITH = "to be tried again"  # before it, the demo is loading
FRAME_SECONDS = 0.9
_WIDTH, _HEIGHT, _FONT_SIZE = 8.4, 17, 14  # the width and height of a cell, and the size of its letters
_BASELINE = 13
_GROUND, _INK = "#171c24", "#d5dbe5"
_FONTS = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
_COLOR = re.compile(r"([34])8;2;(\d+);(\d+);(\d+)")


class Frame(NamedTuple):
    """The rows that are shown from `begins` (in seconds) on: pieces of text with their styles."""

    begins: float
    rows: tuple[tuple[tuple[str, str], ...], ...]


def main() -> int:
    cast = Path(sys.argv[1]) if len(sys.argv) > 1 else CAST
    file = Path(sys.argv[2]) if len(sys.argv) > 2 else cast.with_suffix(".svg")
    file.write_text(picture(cast.read_text(encoding="utf-8").splitlines()), encoding="utf-8")
    print(f"{file.name}: {file.stat().st_size / 1e3:,.0f} KB")
    return 0


def picture(cast: Sequence[str]) -> str:
    """Return the SVG of a recording's lines."""
    header = json.loads(cast[0])
    columns, rows = header["width"], header["height"]
    *drawn, last = map(json.loads, cast[1:])  # the last line restores the terminal and draws nothing
    found = [*frames(drawn, columns, rows)]
    first = next((number for number, each in enumerate(found) if BEGINS_WITH in _text(each)), 0)
    start = found[first].begins
    shown = [Frame(each.begins - start, each.rows) for each in found[first:]]
    return _Drawing(columns, rows, shown, last[0] - start).svg()


def frames(drawn: Sequence[tuple[float, str, str]], columns: int, rows: int) -> Iterator[Frame]:
    """Yield a frame for each change, but at most one frame in `FRAME_SECONDS`."""
    grid, shown, begins = TerminalGrid(columns, rows), Frame(0.0, ()), 0.0
    for number, (seconds, _kind, output) in enumerate(drawn):
        grid.feed(output)
        following = drawn[number + 1][0] if number + 1 < len(drawn) else seconds + FRAME_SECONDS
        # Several pieces of output with short times between them are one change.
        if following - begins >= FRAME_SECONDS:
            now = tuple(tuple(row) for row in grid.rows())
            if now != shown.rows:
                shown = Frame(begins if shown.rows else 0.0, now)
                yield shown
            begins = following


@dataclass
class _Drawing:
    columns: int
    rows: int
    frames: Sequence[Frame]
    ends: float
    _lines: dict[tuple[tuple[str, str], ...], str] = field(default_factory=dict)
    _styles: dict[str, str] = field(default_factory=dict)

    def svg(self) -> str:
        drawn = [self._frame(number) for number in range(len(self.frames))]
        lines = [f'<g id="{name}">{self._line(parts)}</g>' for parts, name in self._lines.items()]
        width, height = self.columns * _WIDTH + 20, self.rows * _HEIGHT + 20
        style = "".join(f".{name}{{{_css(of)}}}" for of, name in self._styles.items())
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-10 -10 {width:g} {height:g}">',
                f"<style>text{{font:{_FONT_SIZE}px {_FONTS};fill:{_INK};white-space:pre}}{style}</style>",
                f'<rect x="-10" y="-10" width="{width:g}" height="{height:g}" rx="8" fill="{_GROUND}"/>',
                "<defs>",
                *lines,
                "</defs>",
                *drawn,
                "</svg>\n",
            ]
        )

    def _frame(self, number: int) -> str:
        frame = self.frames[number]
        ends = self.frames[number + 1].begins if number + 1 < len(self.frames) else self.ends
        times, values = [frame.begins, ends], ["inline", "none"]
        if frame.begins:
            times, values = [0.0, *times], ["none", *values]
        if ends >= self.ends:
            times, values = times[:-1], values[:-1]
        keys = ";".join(f"{seconds / self.ends:.5f}".rstrip("0").rstrip(".") for seconds in times)
        uses = "".join(
            f'<use href="#{self._name(parts)}" y="{row * _HEIGHT}"/>'
            for row, parts in enumerate(frame.rows)
            if parts
        )
        return (
            f'<g display="{"inline" if number == 0 else "none"}">{uses}<animate attributeName="display"'
            f' values="{";".join(values)}" keyTimes="{keys}" calcMode="discrete" dur="{self.ends:g}s"'
            ' repeatCount="indefinite"/></g>'
        )

    def _name(self, parts: tuple[tuple[str, str], ...]) -> str:
        return self._lines.setdefault(parts, f"l{len(self._lines)}")

    def _line(self, parts: tuple[tuple[str, str], ...]) -> str:
        grounds, texts, at = [], [], 0
        for text, style in parts:
            cells = cell_len(text)
            ground, _ink, _words = _looks(style)
            if ground != _GROUND:
                size = f'width="{cells * _WIDTH + 0.4:.1f}" height="{_HEIGHT + 0.4:g}"'
                grounds.append(f'<rect x="{at * _WIDTH:.1f}" {size} fill="{ground}"/>')
            drawn = "".join(rectangles(text, at * _WIDTH, 0, _WIDTH, _HEIGHT))
            if drawn:
                texts.append(f'<g class="{self._style(style)}">{drawn}</g>')
            # Each word has its own position, because the viewer's font may have letters of another width.
            for word in re.finditer(r"\S+(?: \S+)*", without_blocks(text)):
                x = (at + cell_len(text[: word.start()])) * _WIDTH
                length = cell_len(word[0]) * _WIDTH
                name = self._style(style)
                texts.append(
                    f'<text class="{name}" x="{x:.1f}" y="{_BASELINE}" textLength="{length:.1f}"'
                    f' lengthAdjust="spacingAndGlyphs">{escape(word[0], quote=False)}</text>'
                )
            at += cells
        return "".join((*grounds, *texts))

    def _style(self, style: str) -> str:
        return self._styles.setdefault(style, f"s{len(self._styles)}")


def _text(frame: Frame) -> str:
    return "\n".join("".join(text for text, _style in row) for row in frame.rows)


def _looks(style: str) -> tuple[str, str, list[str]]:
    """Return the background colour and the letters' colour of a style, and its remaining codes."""
    ink, ground = _INK, _GROUND
    for which, *parts in _COLOR.findall(style):
        color = "#" + "".join(f"{int(part):02x}" for part in parts)
        ink, ground = (color, ground) if which == "3" else (ink, color)
    codes = [code for code in _COLOR.sub("", style).split(";") if code]
    return (ink, ground, codes) if "7" in codes else (ground, ink, codes)


def _css(style: str) -> str:
    _ground, ink, codes = _looks(style)
    rules = [f"fill:{ink}"]
    rules += ["font-weight:bold"] if "1" in codes else []
    rules += ["opacity:.6"] if "2" in codes else []
    rules += ["font-style:italic"] if "3" in codes else []
    rules += ["text-decoration:underline"] if "4" in codes else []
    return ";".join(rules)


if __name__ == "__main__":
    sys.exit(main())
