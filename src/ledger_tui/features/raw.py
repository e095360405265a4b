"""Shows the JSON of a record, in a dialog to read and copy, or in the user's pager or editor."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

from textual.app import App, ComposeResult, SuspendNotSupported
from textual.binding import Binding
from textual.widgets import Log

from ledger_tui.client.records import Record
from ledger_tui.client.traffic import masked
from ledger_tui.formats.text import literal
from ledger_tui.settings.own_commands import without_secrets
from ledger_tui.ui.dialogs import Dialog

DEEPEST = 200  # the maximum depth of nesting to show


def json_text(value: Any) -> str:
    """Return a value as indented, valid JSON with all secrets masked.

    Return a sentence instead of a value that is nested too deep.
    """
    # The memory for indents grows with the square of the depth, and some versions of Python do not limit the
    # depth.
    if _is_too_deep(value):
        return "nested too deep to be shown"
    try:
        text = json.dumps(value, indent=2, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:  # JSON allows a lone surrogate, but UTF-8 does not; escape it
        text = json.dumps(value, indent=2)
    return masked(text)


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST + 1):
        deeper = [each for each in level if isinstance(each, dict | list) and each]
        if not deeper:
            return False
        level = [inner for each in deeper for inner in (each.values() if isinstance(each, dict) else each)]
    return True


class JsonText(Log):
    """A read-only text. It draws only the visible lines, and the mouse can select text in them."""

    BINDINGS = [
        Binding("k", "scroll_up", "up", show=False),
        Binding("j", "scroll_down", "down", show=False),
        Binding("ctrl+b", "page_up", "page up", show=False),
        Binding("ctrl+f", "page_down", "page down", show=False),
    ]


class RawScreen(Dialog[None]):
    """Shows a value as JSON. The title must not contain data, because Textual reads markup in it."""

    BINDINGS = [
        Binding("escape,q,J", "dismiss", "close", show=True),
        Binding("y", "copy", "copy", show=True),
    ]

    def __init__(self, title: str, value: Any) -> None:
        super().__init__("raw", title)
        self._json = json_text(value)

    def content(self) -> ComposeResult:
        yield JsonText(auto_scroll=False)

    def on_mount(self) -> None:
        text = self.query_one(JsonText)
        text.write("\n".join(map(literal, self._json.split("\n"))))
        self.set_focus(text)

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self._json)
        self.notify("Copied the JSON", markup=False)


# If PAGER or EDITOR is not set, the dashboard runs the first installed program in the list of this variable.
_DEFAULTS = {"PAGER": ("less", "more"), "EDITOR": ("sensible-editor", "nano", "vi")}


def show_in_program(app: App[Any], variable: str, record: Record, key_variables: Collection[str] = ()) -> str:
    """Show a record's JSON in the program that an environment variable names.

    Return the reason for a failure, or "". The dashboard ignores the user's changes to the text.
    """
    return in_program(app, variable, json_text(record) + "\n", key_variables)[0]


def in_program(
    app: App[Any], variable: str, text: str, key_variables: Collection[str], suffix: str = ".json"
) -> tuple[str, str]:
    """Open a text in a program. Return the reason for a failure, or "", and the text as the user left it.

    The text is in a temporary file that only the user can read. The program gets the same environment as the
    user's own commands, without keys.
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
        edited_text = file.read_text(encoding="utf-8", errors="replace")
    except SuspendNotSupported:
        return "Another program cannot take over this terminal.", text
    except OSError as error:
        return f"{literal(command[0])} cannot be started: {error.strerror}.", text
    finally:
        file.unlink(missing_ok=True)
    return (f"{literal(command[0])} ended with status {status}." if status else ""), edited_text


def _command(variable: str) -> list[str] | None:
    import shutil

    program = os.environ.get("VISUAL" if variable == "EDITOR" and os.environ.get("VISUAL") else variable)
    if program:
        try:
            return shlex.split(program) or None
        except ValueError:  # the variable contains an unclosed quote
            return [program]
    return next(([each] for each in _DEFAULTS[variable] if shutil.which(each)), None)
