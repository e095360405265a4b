"""The server's own log on stderr: one line for each record, as text or as JSON."""

from __future__ import annotations

import json
import logging
import re
import threading
from copy import copy
from time import monotonic

from ledger_engine.core.clock import iso

# Control characters (C0, DEL, C1), line ends, direction marks, and lone surrogates (they are not UTF-8).
_BEYOND_ASCII = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_STEERING = re.compile(f"[\x00-\x1f{_BEYOND_ASCII}]")
_STEERING_IN_JSON = re.compile(f"[{_BEYOND_ASCII}]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

# Commands do not call `configure`, and report an error in one line. Without this handler, Python would also
# print on stderr each warning and error that the ledger logs.
logging.getLogger("ledger_engine").addHandler(logging.NullHandler())


def printable(text: str) -> str:
    """Return the text as one safe line; invisible characters become `\\x1b`, `\\u202e` or `\\n`."""
    return _STEERING.sub(lambda match: _SHORT.get(match[0]) or _escape(match[0]), text)


def printable_json(text: str) -> str:
    """Return a JSON document in a form that is safe to print; its meaning stays the same.

    C0 characters need no escape here. Inside a string, the document already escapes them. Between its
    members, the document contains only one kind of C0 characters: line ends, which stay.
    """
    return _STEERING_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class LineFormatter(logging.Formatter):
    """A log formatter that writes one line for each record. Line ends in a client's text are escaped.

    `time` in the formatter's pattern is the time in UTC.
    """

    def format(self, record: logging.LogRecord) -> str:
        safe = copy(record)
        safe.msg, safe.args = printable(record.getMessage()), ()
        safe.__dict__["time"] = _time(record)
        return "\n".join(printable(line) for line in super().format(safe).split("\n"))


def _time(record: logging.LogRecord) -> str:
    return iso(round(record.created * 1000))


def _escape(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


REPEATED_AFTER_S = 60.0
_REMEMBERED_MAX = 1000


class OncePerMinute(logging.Filter):
    """Drops a warning or error that the same logger has already written within the last minute.

    In an outage the background tasks try again about every second; without this filter each attempt would
    write a line. A record with a traceback is never dropped.
    """

    def __init__(self) -> None:
        super().__init__()
        self._written: dict[tuple[str, str], float] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING or record.exc_info:
            return True
        line, now = (record.name, record.getMessage()), monotonic()
        with self._lock:
            written_at = self._written.get(line)
            if written_at is not None and now - written_at < REPEATED_AFTER_S:
                return False
            if len(self._written) >= _REMEMBERED_MAX:
                self._written.clear()
            self._written[line] = now
        return True


FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")
# The name of an attribute of log records. Its value is a dict, whose entries become fields of the JSON line.
FIELDS = "fields"


class JsonFormatter(logging.Formatter):
    """A log formatter that writes each record as a JSON object: time, level, logger, message and fields."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return printable_json(json.dumps(line, ensure_ascii=False, default=str))


def configure(form: str, level: str) -> None:
    """Write the ledger's log records of this level and above to stderr.

    A record of a library is written only if its level is also `warning` or above.
    """
    lines = logging.StreamHandler()
    text = LineFormatter("%(time)s %(levelname)s %(name)s: %(message)s")
    lines.setFormatter(JsonFormatter() if form == "json" else text)
    lines.addFilter(OncePerMinute())
    number = getattr(logging, level.upper())
    logging.basicConfig(level=max(number, logging.WARNING), handlers=[lines])
    logging.getLogger("ledger_engine").setLevel(number)
