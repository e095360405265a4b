"""The text of statements and values: finds the words in a statement, and replaces NUL for PostgreSQL."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

KEPT = 4096  # how many statements are remembered with their words
_READS = re.compile(r"\s*(?:SELECT|WITH|VALUES|EXPLAIN|SHOW|PRAGMA)\b", re.IGNORECASE)
_WORD = re.compile(r"[a-z_]+")
# JSON and SQLite allow the character NUL in texts, but PostgreSQL does not. On PostgreSQL the ledger stores
# SUBSTITUTE and the digit 0 instead of NUL. Unicode reserves the character SUBSTITUTE for the internal use of
# programs. If a text contains SUBSTITUTE, the ledger stores SUBSTITUTE and the digit 1 instead.
SUBSTITUTE = "\ufdd0"


class StatementWords(NamedTuple):
    """The words of a statement, including the names of its tables.

    `reads` is true if the statement changes nothing.
    """

    words: frozenset[str]
    reads: bool


@lru_cache(maxsize=KEPT)
def described(sql: str) -> StatementWords:
    """Return the words of a statement, and whether it only reads."""
    return StatementWords(frozenset(_WORD.findall(sql)), _READS.match(sql) is not None)


def substituted(text: str) -> str:
    """Return a text in the form in which PostgreSQL stores it."""
    if "\0" in text or SUBSTITUTE in text:
        return text.replace(SUBSTITUTE, SUBSTITUTE + "1").replace("\0", SUBSTITUTE + "0")
    return text


def restored(text: str) -> str:
    """Return the original of a text that PostgreSQL has stored."""
    if SUBSTITUTE in text:
        return text.replace(SUBSTITUTE + "0", "\0").replace(SUBSTITUTE + "1", SUBSTITUTE)
    return text
