"""The report of a crash of the dashboard: where it failed, without the data it held.

Textual's own report prints the variables of every frame, which include keys and the server's answers.
"""

from __future__ import annotations

import traceback
from pathlib import Path

from ledger_tui.client.traffic import masked
from ledger_tui.formats.text import literal

_FRAMES_KEPT = 6
_PARTS_KEPT = 3  # of a file's path; the user's home folder is left out


def crash_report(error: BaseException, secrets: list[str]) -> str:
    """Return lines for stderr: the stack, the kind of error and its message, with every secret masked.

    `secrets` are values to mask in addition to all text that looks like a secret.
    """
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES_KEPT:]
    lines = [f"  {_short(frame.filename)}:{frame.lineno} in {frame.name}" for frame in frames]
    # The message may quote anything: the server's answer, or what the user typed.
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
