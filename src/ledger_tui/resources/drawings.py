"""Drawings that fit the width of a detail: the wrapped lines of a body, and the states of an object."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.cells import chop_cells

from ledger_tui.client.records import Record
from ledger_tui.formats.text import literal
from ledger_tui.resources.base import Cell, Fact, Section, Tone
from ledger_tui.resources.cells import part_of_time, text_of

_INDENT = 2
_LINES_MAX = 400


def body_section(title: str, body: object) -> Section:
    """Return a section that shows a body, which is text or decoded JSON. JSON is shown indented.

    If `body` is None or "", the section is empty, and the detail does not draw it.
    """
    if body is None or body == "":
        return Section(title)
    if not isinstance(body, str):
        text = json.dumps(body, indent=_INDENT, ensure_ascii=False)
    else:
        try:
            text = json.dumps(json.loads(body), indent=_INDENT, ensure_ascii=False)
        except (ValueError, RecursionError):  # the body was cut off after 4 KB, or is not JSON
            text = body
    return Section(title, drawing=_Lines(tuple(map(literal, text.split("\n")[:_LINES_MAX]))))


@dataclass(frozen=True)
class _Lines:
    """Lines of text. Two drawings of the same lines are equal, so the pane does not redraw."""

    lines: tuple[str, ...]

    def __call__(self, width: int) -> Sequence[Sequence[Cell]]:
        return [(Cell(part),) for line in self.lines for part in _wrap(line, width)]


def _wrap(line: str, width: int) -> list[str]:
    """Return a line in parts that fit the width.

    No part begins with a comma. The second and later parts have the same indent as the line.
    """
    indent = " " * min(len(line) - len(line.lstrip()), width // 2)
    parts: list[str] = []
    while line:
        room = max(1, width - len(indent) if parts else width)
        part = chop_cells(line[:room], room)[0]
        # If the next part would begin with a comma, move the character before the comma to the next part.
        if line[len(part) :].startswith(",") and len(part) > 1:
            part = part[:-1]
        parts.append(indent + part if parts else part)
        line = line[len(part) :]
    return parts or [""]


Looks = Mapping[str, tuple[str, Tone]]
_STEP = 15  # cells from the start of one state to the next: wide enough for the time below a state


@dataclass(frozen=True)
class Lifecycle:
    """A drawing of an object's states in a row, with the time of each state that the object has reached.

    `aside` is a state that can follow the second state instead of the third; it is drawn below the row.
    `times` holds pairs of a state and its time.
    """

    states: tuple[tuple[str, str, Tone], ...]  # each state with its glyph and tone; the `aside` comes last
    status: str
    times: tuple[tuple[str, str], ...]
    aside: str | None = None

    @property
    def _path(self) -> list[str]:
        return [state for state, _glyph, _tone in self.states if state != self.aside]

    def __call__(self, width: int) -> Sequence[Sequence[Cell]]:
        return self._row_lines() if width >= 3 * _STEP else self._column_lines()

    def _row_lines(self) -> list[list[Cell]]:
        went, path = dict(self.times), self._path
        rows: list[Cell] = []
        for state, to in pairwise(path):
            cell = self._state(state)
            rows += [cell, self._arrow("", _STEP - len(cell.text), to)]
        times = "".join(f" {went.get(state, '')}".ljust(_STEP) for state in path)
        lines = [[*rows, self._state(path[-1])], [Cell(times.rstrip(), "dim")]]
        if self.aside is not None:
            down = self._arrow("└", _STEP - 2, self.aside)
            lines.append([Cell(" " * (_STEP + 2)), down, self._state(self.aside)])
            if self.aside in went:
                lines.append([Cell(" " * (2 * _STEP + 1) + went[self.aside], "dim")])
        return lines

    def _column_lines(self) -> list[list[Cell]]:
        went = dict(self.times)
        cells = [(state, self._state(state)) for state, _glyph, _tone in self.states]
        widest = max(len(cell.text) for _state, cell in cells) + 2
        return [
            [cell, Cell(" " * (widest - len(cell.text)) + went.get(state, ""), "dim")]
            for state, cell in cells
        ]

    def _state(self, state: str) -> Cell:
        glyph, tone = next((glyph, tone) for name, glyph, tone in self.states if name == state)
        if state == self.status:
            return Cell(f"[{glyph} {state}]", "accent" if tone == "dim" else tone)
        return Cell(f" {glyph} {state} ", "plain" if state in dict(self.times) else "dim")

    def _arrow(self, begins: str, length: int, to: str) -> Cell:
        is_reached = to == self.status or to in dict(self.times)
        return Cell(begins + "─" * (length - len(begins) - 1) + "▶", "plain" if is_reached else "dim")


def lifecycle(record: Record, looks: Looks, fields: Mapping[str, str], aside: str | None = None) -> Section:
    """Return a section with a drawing of a record's states; if its status is unknown, with the status alone.

    `looks` holds the glyph and the tone of each state. `fields` maps each state to the name of the
    record's field that holds the time of this state.
    """
    status = record.get("status")
    if str(status) not in looks:
        return Section("", (Fact("status", text_of(record, "status")),))
    times = tuple(
        (state, part_of_time(record, name, 5, 16)) for state, name in fields.items() if record.get(name)
    )
    states = tuple((state, glyph, tone) for state, (glyph, tone) in looks.items())
    return Section("", drawing=Lifecycle(states, str(status), times, aside))
