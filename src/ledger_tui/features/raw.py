"""The JSON of a record: coloured in a dialog, to fold, to search and to copy, or in the pager or editor."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
from bisect import bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events, on
from textual.app import App, ComposeResult, SuspendNotSupported
from textual.binding import Binding
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Input

from ledger_tui.client.records import Record
from ledger_tui.client.traffic import masked
from ledger_tui.formats.text import literal
from ledger_tui.settings.own_commands import without_secrets
from ledger_tui.ui.dialogs import Dialog

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


_KINDS = ("name", "text", "number", "word", "cursor", "found")


class JsonLines(ScrollView, can_focus=True):
    """The lines of a `JsonTree` with a cursor; only the visible ones are drawn."""

    COMPONENT_CLASSES = {f"json--{kind}" for kind in _KINDS}
    BINDINGS = [
        Binding("up,k", "step(-1)", "up", show=False),
        Binding("down,j", "step(1)", "down", show=False),
        Binding("pageup,ctrl+b", "pages(-1)", "page up", show=False),
        Binding("pagedown,ctrl+f", "pages(1)", "page down", show=False),
        Binding("home,g", "end(-1)", "the beginning", show=False),
        Binding("end,G", "end(1)", "the end", show=False),
        Binding("enter,space", "fold", "fold", show=True),
        Binding("left,h", "fold_to(True)", "fold", show=False),
        Binding("right,l", "fold_to(False)", "unfold", show=False),
        Binding("minus", "fold_all(True)", "fold all", show=True),
        Binding("plus", "fold_all(False)", "unfold all", show=False),
        Binding("less_than_sign", "sideways(-1)", "to the left", show=False),
        Binding("greater_than_sign", "sideways(1)", "to the right", show=False),
    ]

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.json = JsonTree(value)
        self.at = 0  # the line that the cursor is on
        self.text = ""  # what is searched
        self._width = max((cell_len(line.text) for line in self.json.lines), default=0)
        self._measure()

    def _measure(self) -> None:
        self.virtual_size = Size(self._width, len(self.json.visible))

    @property
    def _row(self) -> int:
        """The row of the cursor among the visible lines."""
        return max(0, bisect_right(self.json.visible, self.at) - 1)

    def go_to(self, line: int) -> None:
        """Put the cursor on a line and scroll it into view."""
        self._measure()
        self.at = line
        row, top, height = self._row, round(self.scroll_y), max(1, self.size.height)
        self.at = self.json.visible[row]
        wanted = max(min(top, row), row - height + 1)
        self.scroll_to(y=wanted, animate=False, immediate=True, force=True)
        self.refresh()

    def action_step(self, step: int) -> None:
        rows = self.json.visible
        self.go_to(rows[max(0, min(self._row + step, len(rows) - 1))])

    def action_pages(self, pages: int) -> None:
        self.action_step(pages * max(1, self.size.height - 1))

    def action_end(self, step: int) -> None:
        self.go_to(self.json.visible[0 if step < 0 else -1])

    def action_sideways(self, step: int) -> None:
        self.scroll_to(x=max(0, self.scroll_x + step * 20), animate=False, immediate=True, force=True)

    def action_fold(self) -> None:
        self.go_to(self.json.fold(self.at))

    def action_fold_to(self, folded: bool) -> None:
        self.go_to(self.json.fold(self.at, folded))

    def action_fold_all(self, folded: bool) -> None:
        self.json.fold_all(folded)
        self.go_to(self.at)

    def on_click(self, event: events.Click) -> None:
        row = round(self.scroll_y) + event.y
        if row < len(self.json.visible):
            self.go_to(self.json.visible[row])

    def render_line(self, y: int) -> Strip:
        left, row, width = round(self.scroll_x), round(self.scroll_y) + y, self.size.width
        base = self.rich_style
        if row >= len(self.json.visible):
            return Strip.blank(width, base)
        number = self.json.visible[row]
        if number == self.at:
            base += self._part("cursor")
        segments = []
        for text, kind in self.json.pieces(number):
            style = base if kind == "plain" else base + self._part(kind)
            segments += self._with_found(text, style)
        return Strip(segments).crop_extend(left, left + width, base)

    def _with_found(self, text: str, style: Style) -> list[Segment]:
        """Return a text with what is searched marked in it."""
        folded, wanted = text.casefold(), self.text.casefold()
        # Where folding changes the length, positions in it are not those in the text.
        if not wanted or wanted not in folded or len(folded) != len(text):
            return [Segment(text, style)]
        segments, at = [], 0
        while (found := folded.find(wanted, at)) >= 0:
            end = found + len(wanted)
            marked = style + self._part("found")
            segments += [Segment(text[at:found], style), Segment(text[found:end], marked)]
            at = end
        return [*segments, Segment(text[at:], style)]

    def _part(self, kind: str) -> Style:
        return self.get_component_rich_style(f"json--{kind}", partial=True)


class RawScreen(Dialog[None]):
    """Shows `value`, decoded from JSON. `title` must not contain data: Textual reads markup in it."""

    BINDINGS = [
        Binding("escape", "leave", "close", show=True),
        Binding("q,J", "dismiss", "close", show=False),
        Binding("y", "copy", "copy", show=True),
        Binding("slash", "search", "search", show=True),
        Binding("n", "next(1)", "next", show=False),
        Binding("N", "next(-1)", "the one before", show=False),
    ]

    def __init__(self, title: str, value: Any) -> None:
        super().__init__("raw", title)
        self._value = value
        self._from = 0  # the line from which the typed text is searched

    def content(self) -> ComposeResult:
        yield JsonLines(self._value)
        yield Input(placeholder="text to find", compact=True)
        yield self.notes

    def on_mount(self) -> None:
        self.query_one(Input).display = False
        self.notes.display = False
        self.query_one(JsonLines).focus()

    @property
    def _lines(self) -> JsonLines:
        return self.query_one(JsonLines)

    def action_leave(self) -> None:
        """End the search, or close."""
        search = self.query_one(Input)
        if not search.display:
            self.dismiss()
            return
        self._lines.text = ""
        self._end_typing()
        self.notes.display = False

    def _end_typing(self) -> None:
        self.query_one(Input).display = False
        self._lines.focus()
        self._lines.refresh()

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(json_text(self._value))
        self.notify("Copied the JSON", markup=False)

    # ------------------------------------------------------------------ searching

    def action_search(self) -> None:
        search = self.query_one(Input)
        search.display = True
        search.value = self._lines.text
        self._from = self._lines.at
        search.focus()

    @on(Input.Changed)
    def typed(self, event: Input.Changed) -> None:
        """Go to the first line with the text, from the cursor on, while it is typed."""
        event.stop()
        self._lines.text = event.value
        self._find(self._from, 1)

    @on(Input.Submitted)
    def entered(self, event: Input.Submitted) -> None:
        event.stop()
        self._end_typing()

    def action_next(self, step: int) -> None:
        self._find(self._lines.at + step, step)

    def _find(self, start: int, step: int) -> None:
        lines = self._lines
        self.notes.display = bool(lines.text)
        lines.refresh()
        if not lines.text:
            return
        found = lines.json.find(lines.text, start, step)
        if found is None:
            self.note("no match", problem=True)
        else:
            count = lines.json.count(lines.text)
            there = f"{count:,} matches; n and N go to the next and previous one" if count != 1 else "1 match"
            self.note(there)
            lines.go_to(found)


# Used when the variable is not set, the first that is installed.
_DEFAULTS = {"PAGER": ("less", "more"), "EDITOR": ("sensible-editor", "nano", "vi")}


def show_in_program(app: App[Any], variable: str, record: Record, key_variables: Collection[str] = ()) -> str:
    """Show the record's JSON in the program that the environment variable names; return why it failed, or "".

    What is changed in it is not sent.
    """
    return in_program(app, variable, json_text(record) + "\n", key_variables)[0]


def in_program(
    app: App[Any], variable: str, text: str, key_variables: Collection[str], suffix: str = ".json"
) -> tuple[str, str]:
    """Open a text in a program; return why it failed, or "", and the text as it was left.

    The file is the user's alone and is removed afterwards. The program's environment is that of own commands,
    without keys.
    """
    command = _command(variable)
    if command is None:
        return f"${variable} is not set, and none of {', '.join(_DEFAULTS[variable])} is installed.", text
    descriptor, name = tempfile.mkstemp(prefix="ledger-", suffix=suffix)
    file = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        with app.suspend():
            environment = without_secrets(key_variables)
            status = subprocess.run([*command, name], check=False, env=environment).returncode
        left = file.read_text(encoding="utf-8", errors="replace")
    except SuspendNotSupported:
        return "Another program cannot take over this terminal.", text
    except OSError as error:
        return f"{literal(command[0])} cannot be started: {error.strerror}.", text
    finally:
        file.unlink(missing_ok=True)
    return (f"{literal(command[0])} ended with status {status}." if status else ""), left


def _command(variable: str) -> list[str] | None:
    import shutil

    named = os.environ.get("VISUAL" if variable == "EDITOR" and os.environ.get("VISUAL") else variable)
    if named:
        try:
            return shlex.split(named) or None
        except ValueError:  # a quote is not closed
            return [named]
    return next(([each] for each in _DEFAULTS[variable] if shutil.which(each)), None)
