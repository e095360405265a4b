"""The text of statements and values: what can be known of a statement, and NUL, which PostgreSQL lacks."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

KEPT = 4096
_READS = re.compile(r"\s*(?:SELECT|WITH|VALUES|EXPLAIN|SHOW|PRAGMA)\b", re.IGNORECASE)
_WORD = re.compile(r"[a-z_]+")
# JSON and SQLite allow NUL in texts and PostgreSQL does not, so two characters stand for it there: this one,
# from those that Unicode leaves to programs, and a digit.
SUBSTITUTE = "\ufdd0"


class StatementWords(NamedTuple):
    """`words` contains a statement's table names, among others; `reads` says that it changes nothing."""

    words: frozenset[str]
    reads: bool


@lru_cache(maxsize=KEPT)
def described(sql: str) -> StatementWords:
    """Return what is known of a statement."""
    return StatementWords(frozenset(_WORD.findall(sql)), _READS.match(sql) is not None)


def substituted(text: str) -> str:
    """Return a text as PostgreSQL stores it."""
    if "\0" in text or SUBSTITUTE in text:
        return text.replace(SUBSTITUTE, SUBSTITUTE + "1").replace("\0", SUBSTITUTE + "0")
    return text


def restored(text: str) -> str:
    """Return a text that PostgreSQL stored as it was given."""
    if SUBSTITUTE in text:
        return text.replace(SUBSTITUTE + "0", "\0").replace(SUBSTITUTE + "1", SUBSTITUTE)
    return text
