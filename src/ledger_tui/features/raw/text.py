"""A record as it came over the wire, line by line, and the ids in it. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from ledger_tui.client.traffic import masked
from ledger_tui.formats.text import literal

_INDENT = 2


DEEPEST = 200  # levels of nesting that are shown


Kind = Literal["plain", "name", "text", "number", "word"]


class Piece(NamedTuple):
    """A part of a line, and what it is."""

    text: str
    kind: Kind = "plain"


@dataclass
class Line:
    """One line. Where it opens an object or a list, `end` is the number of the line that closes it."""

    pieces: list[Piece]
    end: int | None = None
    size: int = 0  # the members of what it opens
    folded: bool = field(default=False, compare=False)

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)


class JsonTree:
    """All lines of a value, and which of them are visible: those that are not within a folded one."""

    def __init__(self, value: Any) -> None:
        self.lines: list[Line] = []
        try:
            self._add(value, 0, [], "")
        except RecursionError:
            self.lines = [Line([Piece("nested too deep to be shown")])]
        self._show()

    def _add(self, value: Any, depth: int, before: list[Piece], after: str) -> None:
        if depth > DEEPEST:
            raise RecursionError
        indent = Piece(" " * (_INDENT * depth))
        if isinstance(value, dict | list) and value:
            opens, closes = "{}" if isinstance(value, dict) else "[]"
            line = Line([indent, *before, Piece(opens)], size=len(value))
            self.lines.append(line)
            members = [*value.items()] if isinstance(value, dict) else [(None, each) for each in value]
            for number, (name, each) in enumerate(members, 1):
                named = [] if name is None else [Piece(_written(name), "name"), Piece(": ")]
                self._add(each, depth + 1, named, "," if number < len(members) else "")
            line.end = len(self.lines)
            self.lines.append(Line([indent, Piece(closes + after)]))
        else:
            self.lines.append(Line([indent, *before, Piece(_written(value), _kind(value)), Piece(after)]))

    def _show(self) -> None:
        self.visible: list[int] = [*self._unfolded()]

    def _unfolded(self) -> Iterator[int]:
        number = 0
        while number < len(self.lines):
            yield number
            line = self.lines[number]
            number = line.end + 1 if line.folded and line.end is not None else number + 1

    # ------------------------------------------------------------------ folding

    def pieces(self, number: int) -> list[Piece]:
        """Return a line as it is drawn: `{ … 3 }` where it is folded."""
        line = self.lines[number]
        if not line.folded or line.end is None:
            return line.pieces
        closes = self.lines[line.end].text.strip()
        return [*line.pieces, Piece(f" … {line.size} ", "word"), Piece(closes)]

    def fold(self, number: int, folded: bool | None = None) -> int:
        """Fold or unfold the line, or what it is within; return the line that was folded."""
        if self.lines[number].end is None or (folded and self.lines[number].folded):
            number = self._around(number)
        line = self.lines[number]
        if line.end is not None:
            line.folded = not line.folded if folded is None else folded
            self._show()
        return number

    def fold_all(self, folded: bool) -> None:
        """Fold everything but the outermost, or unfold everything."""
        for number, line in enumerate(self.lines):
            line.folded = folded and line.end is not None and number > 0
        self._show()

    def _around(self, number: int) -> int:
        """Return the line that opens what a line is within; the first where there is none."""
        return next(
            (n for n in range(number - 1, -1, -1) if (self.lines[n].end or -1) >= number),
            0,
        )

    # ------------------------------------------------------------------ finding

    def find(self, text: str, start: int, step: int = 1) -> int | None:
        """Return the next line with a text, in any case, from `start` on; after the end it starts over.

        What it is within is unfolded.
        """
        wanted, count = text.casefold(), len(self.lines)
        for offset in range(count):
            number = (start + step * offset) % count
            if wanted in self.lines[number].text.casefold():
                for line in self.lines[:number]:
                    if line.folded and line.end is not None and line.end >= number:
                        line.folded = False
                self._show()
                return number
        return None

    def count(self, text: str) -> int:
        """Return how many lines have a text."""
        wanted = text.casefold()
        return sum(wanted in line.text.casefold() for line in self.lines)


def _written(value: Any) -> str:
    return literal(masked(json.dumps(value, ensure_ascii=False)))


def _kind(value: Any) -> Kind:
    if isinstance(value, str):
        return "text"
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else "word"


def json_text(value: Any) -> str:
    """Return indented JSON with secrets masked; it is still JSON when copied."""
    if _is_too_deep(value):  # the indents take its depth squared, and not every Python has a limit of its own
        return "nested too deep to be shown"
    try:
        text = json.dumps(value, indent=2, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:  # JSON allows a lone surrogate, but it cannot be encoded
        text = json.dumps(value, indent=2)
    return masked(text)


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST + 1):
        filled = [each for each in level if isinstance(each, dict | list) and each]
        if not filled:
            return False
        level = [inner for each in filled for inner in (each.values() if isinstance(each, dict) else each)]
    return True


class FoundId(NamedTuple):
    """An id in a record; `where` is its dotted path."""

    where: str
    record_id: str


def ids_in(value: Any, is_id: Callable[[str], bool], where: str = "") -> Iterator[FoundId]:
    """Yield every id in a record, in its order, each once, the record's own last."""
    seen: dict[str, FoundId] = {}
    for path, text in _texts(value, where):
        if is_id(text):
            seen.setdefault(text, FoundId(path, text))
    own = value.get("id") if isinstance(value, dict) else None
    yield from (found for found in seen.values() if found.record_id != own)
    if own in seen:
        yield seen[own]


def _texts(value: Any, where: str) -> Iterator[tuple[str, str]]:
    stack = [(where, value)]
    while stack:  # without recursion, because the server decides how deeply an answer is nested
        path, inner = stack.pop()
        if isinstance(inner, str):
            yield path, inner
        elif isinstance(inner, dict):
            stack.extend((f"{path}.{key}".lstrip("."), each) for key, each in reversed(inner.items()))
        elif isinstance(inner, list):
            stack.extend(
                (f"{path}.{number}".lstrip("."), each) for number, each in reversed([*enumerate(inner)])
            )
