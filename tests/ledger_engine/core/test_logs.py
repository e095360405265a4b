"""The server's log: one line a record, whatever clients put into it."""

from __future__ import annotations

import json
import logging
import sys
import time
from datetime import UTC, datetime

import pytest

from ledger_engine.core.logs import FIELDS, JsonFormatter, LineFormatter


def record(message: str, *values: object, **more: object) -> logging.LogRecord:
    made = logging.LogRecord("ledger_engine.http", logging.INFO, "x.py", 1, message, values, None)
    made.__dict__.update(more)
    return made


def test_a_record_is_one_json_object_with_its_fields() -> None:
    made = record("request %s", "req_1", **{FIELDS: {"request": "req_1", "status": 201}})
    line = json.loads(JsonFormatter().format(made))
    assert datetime.strptime(line.pop("time"), "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    assert line == {
        "level": "info",
        "logger": "ledger_engine.http",
        "message": "request req_1",
        "request": "req_1",
        "status": 201,
    }


def test_a_line_of_text_has_its_time_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        made = record("request %s", "req_1", created=1_790_000_000.123)
        line = LineFormatter("%(time)s %(levelname)s %(message)s").format(made)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert line == "2026-09-21T14:13:20.123Z INFO request req_1"


def test_what_would_steer_a_terminal_or_end_the_line_is_escaped() -> None:
    line = JsonFormatter().format(record("a\nb\x1b[31m\u202e\x9b"))
    assert len(line.splitlines()) == 1
    assert not set("\x1b\u202e\x9b") & set(line)
    assert json.loads(line)["message"] == "a\nb\x1b[31m\u202e\x9b"


def test_a_failure_has_its_traceback() -> None:
    try:
        raise ValueError("deep inside")
    except ValueError:
        made = record("it failed", exc_info=sys.exc_info())
    assert "ValueError: deep inside" in json.loads(JsonFormatter().format(made))["exception"]
