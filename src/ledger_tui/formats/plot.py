"""Draws numbers as text: a line in Braille dots, bars, a meter."""

from __future__ import annotations

from collections.abc import Sequence

BRAILLE = 0x2800
# DOTS[column][row] is the bit that sets this dot in a Braille character. Row 0 is at the top.
DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_LEFT_EIGHTHS = " ▏▎▍▌▋▊▉█"
UNKNOWN = "·"


def line(
    values: Sequence[float],
    width: int,
    height: int,
    times: Sequence[float] | None = None,
    within: tuple[float, float] | None = None,
) -> list[str]:
    """Draw the values from left to right as a stepped line; return `height` texts of `width` cells.

    Each value lasts until the time of the next value; without times all values last equally long. A column of
    dots stands for a span of time and shows all values of this span, so that no value is lost. The scale runs
    from the lowest to the highest value. With `within`, the scale runs between these two numbers, so that
    several lines can have the same scale. If all values are equal, the line is in the middle.
    """
    columns, rows = width * 2, height * 4
    cells = [[0] * width for _ in range(height)]
    if not values or width < 1 or height < 1:
        return [" " * max(0, width)] * height
    low, high = within or (min(values), max(values))
    span = (high - low) or 1

    def level(value: float) -> int:
        return round((high - value) / span * (rows - 1)) if high != low else rows // 2

    before = level(values[0])
    for column, new in enumerate(_by_column(values, columns, times)):
        levels = [before, *map(level, new)]
        for row in range(min(levels), max(levels) + 1):
            cells[row // 4][column // 2] |= DOTS[column % 2][row % 4]
        before = levels[-1]
    return ["".join(chr(BRAILLE + cell) if cell else " " for cell in row) for row in cells]


def _by_column(values: Sequence[float], columns: int, times: Sequence[float] | None) -> list[list[float]]:
    """Return a list for each column of dots, with the values whose time begins in the column."""
    by_column: list[list[float]] = [[] for _ in range(columns)]
    duration = times[-1] - times[0] if times else 0.0
    for number, value in enumerate(values):
        share = (times[number] - times[0]) / duration if times and duration > 0 else number / len(values)
        by_column[max(0, min(columns - 1, int(share * columns)))].append(value)
    return by_column


def bars(values: Sequence[float | None], height: int, top: float) -> list[str]:
    """Draw one bar per value, each one cell wide, and return the `height` lines from the top.

    A bar for the value `top` has the full height; None, an unknown value, is drawn as a dot.
    """
    eighths = [
        None if value is None else round(max(0.0, value) / (top or 1) * height * 8) for value in values
    ]
    # A value other than 0 is always visible, even if it is tiny compared with `top`.
    eighths = [max(1, n) if n is not None and value else n for n, value in zip(eighths, values, strict=True)]
    lines = []
    for row in range(height - 1, -1, -1):
        cells = []
        for full in eighths:
            if full is None:
                cells.append(UNKNOWN if row == 0 else " ")
            else:
                cells.append(_EIGHTHS[max(0, min(8, full - row * 8))])
        lines.append("".join(cells))
    return lines


def meter(share: float, width: int) -> tuple[str, str]:
    """Return a horizontal bar of `width` cells for a fraction from 0 to 1: its filled and its empty part."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    full, rest = divmod(eighths, 8)
    bar_text = "█" * full + (_LEFT_EIGHTHS[rest] if rest else "")
    return bar_text, "░" * (width - len(bar_text))


def nice_top(value: float) -> float:
    """Return the smallest round number that is at least `value`, for the top of an axis."""
    if value <= 0:
        return 1.0
    power: float = 1.0
    while power * 10 <= value:
        power *= 10
    steps = (1, 2, 3, 4, 5, 6, 8, 10) if power < 10 else (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
    return next(power * step for step in steps if power * step >= value) if value >= 1 else 1.0
