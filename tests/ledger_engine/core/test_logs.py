"""The server's log: one line a record, whatever clients put into it."""

from __future__ import annotations

import json
import logging
import sys
import time
import unicodedata
from datetime import UTC, datetime

import pytest

from ledger_engine.core import logs
from ledger_engine.core.logs import (
    FIELDS,
    JsonFormatter,
    LineFormatter,
    OncePerMinute,
    printable,
    printable_json,
)


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


def test_a_character_that_would_steer_a_terminal_or_end_the_line_is_escaped() -> None:
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


#


BIDI = ("LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI")
STEERING = [
    *map(chr, (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, 0xD800, 0xDFFF)),
    *(c for c in map(chr, range(0x2000, 0x2100)) if unicodedata.bidirectional(c) in BIDI),
]


@pytest.mark.parametrize("character", [*STEERING, "\u200e", "\u200f", "\u061c"], ids=ascii)
def test_a_steering_character_is_shown_as_its_escape(character: str) -> None:
    shown = printable(f"a{character}b")
    assert shown.isascii()
    assert shown.isprintable()
    assert shown.encode().decode("unicode_escape") == f"a{character}b"
    text = printable_json(json.dumps([character], ensure_ascii=False, indent=2))
    assert json.loads(text) == [character]
    assert text.replace("\n", "").isascii()


@pytest.mark.parametrize("text", ["Café ☕", "Рога и копыта", "مقهى", "日本", "a\u00a0b", "👩\u200d💻"])
def test_a_printable_character_stays(text: str) -> None:
    assert printable(text) == text
    assert printable_json(text) == text


def test_a_log_line_stays_a_line_and_a_traceback_its_lines() -> None:
    lines = LineFormatter("%(levelname)s: %(message)s")
    record = logging.LogRecord("x", logging.WARNING, "", 0, "from %s", ("a\nb\x1b[2J",), None)
    assert lines.format(record) == r"WARNING: from a\nb\x1b[2J"
    try:
        raise ValueError("\x1b[2J")
    except ValueError as error:
        record.exc_info = (ValueError, error, error.__traceback__)
    printed = lines.format(record).splitlines()
    assert printed[1].startswith("Traceback")
    assert printed[-1] == r"ValueError: \x1b[2J"


def test_the_same_warning_is_written_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = 0.0
    monkeypatch.setattr(logs, "monotonic", lambda: seconds)
    once = OncePerMinute()

    def is_written(level: int, message: str, logger: str = "ledger_engine.http") -> bool:
        return once.filter(logging.LogRecord(logger, level, "x.py", 1, "%s", (message,), None))

    assert [is_written(logging.WARNING, each) for each in ("lost", "full", "lost")] == [True, True, False]
    assert is_written(logging.WARNING, "lost", "ledger_engine.events")
    assert [is_written(logging.INFO, "request") for _ in "12"] == [True, True]
    seconds = 59
    assert not is_written(logging.WARNING, "lost")
    seconds = 60
    assert is_written(logging.WARNING, "lost")
