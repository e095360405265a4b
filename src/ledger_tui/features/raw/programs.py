"""Showing a record in the user's pager or editor, which get the terminal until they end."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

from ledger_tui.client.records import Record
from ledger_tui.features.raw.text import json_text
from ledger_tui.formats.text import literal
from ledger_tui.settings.own_commands import without_secrets

# Used when the variable is not set, the first that is installed.
_DEFAULTS = {"PAGER": ("less", "more"), "EDITOR": ("sensible-editor", "nano", "vi")}


def show_in_program(app: App[Any], variable: str, record: Record, key_variables: Collection[str] = ()) -> str:
    """Show the record's JSON in the program that the environment variable names; return why it failed, or "".

    The file is the user's alone and is removed afterwards: what is changed in it is not sent. The program's
    environment is that of own commands, without keys.
    """
    command = _command(variable)
    if command is None:
        return f"${variable} is not set, and none of {', '.join(_DEFAULTS[variable])} is installed."
    descriptor, name = tempfile.mkstemp(prefix="record-", suffix=".json")
    file = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(json_text(record) + "\n")
        with app.suspend():
            environment = without_secrets(key_variables)
            status = subprocess.run([*command, name], check=False, env=environment).returncode
    except SuspendNotSupported:
        return "Another program cannot take over this terminal."
    except OSError as error:
        return f"{literal(command[0])} cannot be started: {error.strerror}."
    finally:
        file.unlink(missing_ok=True)
    return f"{literal(command[0])} ended with status {status}." if status else ""


def _command(variable: str) -> list[str] | None:
    import shutil

    named = os.environ.get("VISUAL" if variable == "EDITOR" and os.environ.get("VISUAL") else variable)
    if named:
        try:
            return shlex.split(named) or None
        except ValueError:  # a quote is not closed
            return [named]
    return next(([each] for each in _DEFAULTS[variable] if shutil.which(each)), None)
