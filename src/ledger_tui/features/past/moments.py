"""Moments: how they are typed, what happened around one, and the line that shows where one is. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from ledger_tui.client.past import Happening, moment_ms
from ledger_tui.resources.base import Cell, Tone

_AGO = re.compile(r"-(?=\d)((?:\d+[wdhms])+)")
_PART = re.compile(r"(\d+)([wdhms])")
_SECONDS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_CLOCK = re.compile(r"\d{1,2}:\d{2}(?::\d{2})?")
_DAY_MS = 86_400_000
_UNSURE_MS = 1_000  # the server tells its time in whole seconds


class BadMoment(ValueError):
    """The text names no moment; the message says what does."""


def parse_moment(text: str, now_ms: int) -> int | None:
    """Return the moment that a text names, in milliseconds, None for now. Raises BadMoment.

    It is a date, a time in UTC with or without its date, or how long ago: `2026-11-23 14:05`, `14:05`, `-2h`.
    """
    text = text.strip()
    if text == "now":
        return None
    if found := _AGO.fullmatch(text):
        seconds = sum(int(count) * _SECONDS[unit] for count, unit in _PART.findall(found[1]))
        return max(0, now_ms - seconds * 1000)
    if _CLOCK.fullmatch(text):
        text = f"{datetime.fromtimestamp(now_ms / 1000, UTC):%Y-%m-%d} {text.zfill(5)}"
    try:
        at = datetime.fromisoformat(text.replace("Z", "+00:00"))
        ms = moment_ms((at if at.tzinfo else at.replace(tzinfo=UTC)).isoformat())
    except ValueError:
        ms = None
    if ms is None:
        raise BadMoment("Write a time as 2026-11-23 14:05, 14:05, -2h or now.")
    if ms > now_ms + _UNSURE_MS:
        raise BadMoment("That time is yet to come.")
    return ms


class Around:
    """What happened around the moment that is shown, without a gap, oldest first.

    `begins` and `ends` say that nothing comes before the first, or after the last.
    """

    def __init__(self) -> None:
        self.known: list[Happening] = []
        self.begins = self.ends = False
        self._times: list[int] = []

    def begin(self, known: Sequence[Happening], *, begins: bool, ends: bool) -> None:
        """Know these alone."""
        self.known, self.begins, self.ends = [*known], begins, ends
        self._count()

    def add_older(self, known: Sequence[Happening], *, begins: bool) -> None:
        self.known, self.begins = [*known, *self.known], begins
        self._count()

    def add_newer(self, known: Sequence[Happening], *, ends: bool) -> None:
        self.known, self.ends = [*self.known, *known], ends
        self._count()

    def _count(self) -> None:
        # What happened in one millisecond is one step: no moment is between.
        self._times = sorted({each.ms for each in self.known})

    def step(self, ms: int | None, steps: int) -> int | None:
        """Return the moment so many steps from this one, the first or last known if there are fewer.

        None is now, before and after.
        """
        here = len(self._times) - 1 if ms is None else bisect_right(self._times, ms) - 1
        wanted = here + steps
        if wanted >= len(self._times) or not self._times:
            return None
        return self._times[max(0, wanted)]

    def needs(self, ms: int | None, steps: int) -> str:
        """Return which happenings are to be read before such a step: "older", "newer" or ""."""
        here = len(self._times) - 1 if ms is None else bisect_right(self._times, ms) - 1
        if here + steps < 0 and not self.begins:
            return "older"
        return "newer" if here + steps >= len(self._times) and not self.ends else ""

    def at(self, ms: int) -> Sequence[Happening]:
        """Return what happened last until this moment, all of it in one millisecond."""
        here = bisect_right(self._times, ms) - 1
        return [each for each in self.known if each.ms == self._times[here]] if here >= 0 else ()


# ---------------------------------------------------------------------- the line


def place_of(ms: int, first_ms: int, now_ms: int, width: int) -> int:
    """Return the column of a moment on a line from the first event to now."""
    share = (ms - first_ms) / max(1, now_ms - first_ms)
    return max(0, min(width - 1, round(share * (width - 1))))


def moment_at(column: int, first_ms: int, now_ms: int, width: int) -> int:
    """Return the moment at a column of the line."""
    return first_ms + round((now_ms - first_ms) * max(0, min(column, width - 1)) / max(1, width - 1))


def line(
    ms: int, first_ms: int, now_ms: int, failures: Sequence[int], marks: Mapping[str, int], width: int
) -> list[Cell]:
    """Return the line in so many cells: what has passed, the moment, failures, and the two marked moments."""
    here = place_of(ms, first_ms, now_ms, width)
    cells: list[tuple[str, Tone]] = [("━", "accent") if n < here else ("─", "dim") for n in range(width)]
    for failed in failures:
        if first_ms <= failed <= now_ms:
            cells[place_of(failed, first_ms, now_ms, width)] = ("✕", "bad")
    for name, marked in marks.items():
        cells[place_of(marked, first_ms, now_ms, width)] = (name, "warn")
    cells[here] = ("◆", "strong")
    merged: list[Cell] = []
    for text, tone in cells:  # neighbours of one tone are one cell: each is drawn by itself
        if merged and merged[-1].tone == tone:
            merged[-1] = Cell(merged[-1].text + text, tone)
        else:
            merged.append(Cell(text, tone))
    return merged


def short(ms: int, now_ms: int) -> str:
    """Return a moment as briefly as can be understood: without the year when it is this one."""
    at, now = (datetime.fromtimestamp(each / 1000, UTC) for each in (ms, now_ms))
    if now - at < timedelta(milliseconds=_DAY_MS) and at.date() == now.date():
        return f"{at:%H:%M:%S}"
    return f"{at:%m-%d %H:%M}" if at.year == now.year else f"{at:%Y-%m-%d}"


def long(ms: int) -> str:
    """Return a moment to the millisecond."""
    at = datetime.fromtimestamp(ms / 1000, UTC)
    return f"{at:%Y-%m-%d %H:%M:%S}.{ms % 1000:03}"
