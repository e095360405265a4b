"""Rectangles in place of the block characters of a picture, such as █ and ▃.

Without this, a viewer whose font leaves space between lines shows stripes in each bar and each plot.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_LOWER = "▁▂▃▄▅▆▇█"  # an eighth of the cell's height, two eighths, and so on
_LEFT = "▏▎▍▌▋▊▉"  # the same for the width
_EIGHTHS = {character: (8, number) for number, character in enumerate(_LOWER, 1)}
_EIGHTHS |= {character: (number, 8) for number, character in enumerate(_LEFT, 1)}
# Only a full width can be drawn together with its neighbours.
_RUN = re.compile(f"([{_LOWER}])\\1*|[{_LEFT}]")
_OVERLAP = 0.3  # neighbours overlap by this length, so that no line shows between them


def without_blocks(text: str) -> str:
    """Return the text with a space in place of each block character."""
    return _RUN.sub(lambda run: " " * len(run[0]), text)


def rectangles(text: str, x: float, y: float, width: float, height: float) -> Iterator[str]:
    """Yield an SVG element for each run of equal block characters in a text of single cells.

    `x` and `y` are the upper left corner of the text's first cell; `width` and `height` are those of a cell.
    """
    for run in _RUN.finditer(text):
        across, up = _EIGHTHS[run[0][0]]
        drawn = up * height / 8
        left, top = x + run.start() * width, y + height - drawn
        size = f'width="{len(run[0]) * across * width / 8 + _OVERLAP:.1f}" height="{drawn + _OVERLAP:.1f}"'
        yield f'<rect x="{left:.1f}" y="{top:.1f}" {size} shape-rendering="crispEdges"/>'
