"""Nothing that is shown steers the terminal it is shown in."""

from __future__ import annotations

import json
import logging
import unicodedata

import pytest

from ledger_engine.core.logs import LineFormatter, printable, printable_json

BIDI = ("LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI")
STEERING = [
    *map(chr, (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, 0xD800, 0xDFFF)),
    *(c for c in map(chr, range(0x2000, 0x2100)) if unicodedata.bidirectional(c) in BIDI),
]


@pytest.mark.parametrize("character", [*STEERING, "\u200e", "\u200f", "\u061c"], ids=ascii)
def test_what_steers_is_shown_as_its_escape(character: str) -> None:
    shown = printable(f"a{character}b")
    assert shown.isascii()
    assert shown.isprintable()
    assert shown.encode().decode("unicode_escape") == f"a{character}b"
    text = printable_json(json.dumps([character], ensure_ascii=False, indent=2))
    assert json.loads(text) == [character]
    assert text.replace("\n", "").isascii()


@pytest.mark.parametrize("text", ["Café ☕", "Рога и копыта", "مقهى", "日本", "a\u00a0b", "👩\u200d💻"])
def test_what_only_shows_stays(text: str) -> None:
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
    told = lines.format(record).splitlines()
    assert told[1].startswith("Traceback")
    assert told[-1] == r"ValueError: \x1b[2J"
