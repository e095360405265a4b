"""Text as a terminal may have it: what would steer it, or reorder a line, is shown as its escape."""

from __future__ import annotations

import logging
import re
from copy import copy

# Controls (C0, DEL, C1), line ends, marks of direction, and the halves of pairs that no encoding takes.
_BEYOND_ASCII = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_STEERING = re.compile(f"[\x00-\x1f{_BEYOND_ASCII}]")
_STEERING_IN_JSON = re.compile(f"[{_BEYOND_ASCII}]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str) -> str:
    """The text in one line that only shows: `\\x1b`, `\\u202e` and `\\n` stand for what is not shown."""
    return _STEERING.sub(lambda found: _SHORT.get(found[0]) or _escape(found[0]), text)


def printable_json(text: str) -> str:
    """A JSON document with the same meaning; JSON has escaped C0 itself, and its own line ends stay."""
    return _STEERING_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class LineFormatter(logging.Formatter):
    """Log lines that stay lines, whatever a client has put into what they tell."""

    def format(self, record: logging.LogRecord) -> str:
        shown = copy(record)
        shown.msg, shown.args = printable(record.getMessage()), ()
        return "\n".join(printable(line) for line in super().format(shown).split("\n"))


def _escape(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
