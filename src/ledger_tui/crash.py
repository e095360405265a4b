"""What is said when the dashboard itself is at fault: where, and nothing of what it held.

Textual's own report prints the variables of every frame, and among them are keys and what the server told.
"""

from __future__ import annotations

import traceback
from pathlib import Path

from ledger_tui.state.text import literal
from ledger_tui.state.traffic import masked

_FRAMES_KEPT = 6
_PARTS_KEPT = 3  # of a file's path: whose home it lies in says nothing of the fault


def crash_report(error: BaseException, secrets: list[str]) -> str:
    """Lines for stderr: the kind of error, its message and the way to it, with every secret taken out.

    `secrets` are values to take out beside all that looks like one.
    """
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES_KEPT:]
    lines = [f"  {_short(frame.filename)}:{frame.lineno} in {frame.name}" for frame in frames]
    # The message may quote anything: what the server said, what was typed.
    message = _without(str(error), secrets)
    head = "ledger-tui failed and ended. Nothing was lost: what the server answered is done."
    return "\n".join([head, *lines, f"{type(error).__name__}: {message}", ""])


def _without(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        if secret:
            text = text.replace(secret, "••••")
    return literal(masked(text))[:500]


def _short(file: str) -> str:
    return "/".join(Path(file).parts[-_PARTS_KEPT:])
