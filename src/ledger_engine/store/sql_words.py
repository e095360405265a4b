"""What can be known of a statement from its text, whichever database runs it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

KEPT = 4096
_READS = re.compile(r"\s*(?:SELECT|WITH|VALUES|EXPLAIN|SHOW|PRAGMA)\b", re.IGNORECASE)
_WORD = re.compile(r"[a-z_]+")


class Described(NamedTuple):
    """`words` has the names of a statement's tables, among others; `reads` says that it changes nothing."""

    words: frozenset[str]
    reads: bool


@lru_cache(maxsize=KEPT)
def described(sql: str) -> Described:
    """Return what is known of a statement."""
    return Described(frozenset(_WORD.findall(sql)), _READS.match(sql) is not None)
