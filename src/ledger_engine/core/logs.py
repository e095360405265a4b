"""The server's own log, on stderr: one line for each record, as text or as JSON."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

from ledger_engine.core.printable import LineFormatter, printable_json

FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")
FIELDS = "fields"  # the attribute of a record whose entries become fields of the JSON line


class JsonFormatter(logging.Formatter):
    """Write each record as one JSON object: time, level, logger, message, and the fields it has."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return printable_json(json.dumps(line, ensure_ascii=False, default=str))


def configure(form: str, level: str) -> None:
    """Write what the ledger logs from this level on, and warnings of the libraries, to stderr."""
    lines = logging.StreamHandler()
    text = LineFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    lines.setFormatter(JsonFormatter() if form == "json" else text)
    number = getattr(logging, level.upper())
    logging.basicConfig(level=max(number, logging.WARNING), handlers=[lines])
    logging.getLogger("ledger_engine").setLevel(number)
