"""Bodies as they are shown in a detail, JSON and others: indented, wrapped to the width, literal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import chop_cells

from ledger_tui.formats.text import literal
from ledger_tui.resources.base import Cell, Section

_INDENT = 2
_LINES_MAX = 400


def body_section(title: str, body: object) -> Section:
    """Return a body, text or decoded JSON, as a section; without a body the section is not drawn."""
    if body is None or body == "":
        return Section(title)
    if not isinstance(body, str):
        text = json.dumps(body, indent=_INDENT, ensure_ascii=False)
    else:
        try:
            text = json.dumps(json.loads(body), indent=_INDENT, ensure_ascii=False)
        except (ValueError, RecursionError):  # cut off after 4 KB, or not JSON
            text = body
    lines = tuple(("", literal(line)) for line in text.split("\n")[:_LINES_MAX])
    return Section(title, drawing=_Lines(lines))


def header_section(title: str, headers: object) -> Section:
    """Return the headers of a request or an answer, one per line."""
    if not isinstance(headers, Mapping):
        return Section(title)
    lines = tuple((f"{literal(name)}: ", literal(value)) for name, value in headers.items())
    return Section(title, drawing=_Lines(lines))


@dataclass(frozen=True)
class _Lines:
    """Lines of a dim prefix and a text. Equal lines compare equal, so nothing is drawn again."""

    lines: tuple[tuple[str, str], ...]

    def __call__(self, width: int) -> Sequence[Sequence[Cell]]:
        drawn: list[Sequence[Cell]] = []
        for name, text in self.lines:
            first, *rest = _wrapped(name + text, width)
            drawn.append((Cell(first[: len(name)], "dim"), Cell(first[len(name) :])))
            drawn += [(Cell(part),) for part in rest]
        return drawn


def _wrapped(line: str, width: int) -> list[str]:
    """Return a line in parts that fit; the later ones are indented as it is."""
    indent = " " * min(len(line) - len(line.lstrip()), width // 2)
    parts = list(_chopped(line, width, indent))
    return parts or [""]


def _chopped(line: str, width: int, indent: str) -> Iterator[str]:
    first, *rest = chop_cells(line, max(1, width)) or [""]
    yield first
    remaining = "".join(rest)
    if remaining:
        for part in chop_cells(remaining, max(1, width - len(indent))):
            yield indent + part
