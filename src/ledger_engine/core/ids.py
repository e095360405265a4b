"""Ids: a prefix that names the kind and a UUIDv7 that sorts by time (decisions.md 1)."""

from __future__ import annotations

import random
import threading
from functools import lru_cache

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [high + low for high in _ALPHABET for low in _ALPHABET]
_RANDOM_BITS = 74  # what RFC 9562 leaves free: 12 bits behind the version, 62 behind the variant
_LENGTH = 26
# Ids are names, not secrets: a fast source will do, seeded by the system and by nobody else.
_random_bits = random.Random().getrandbits


class IdSource:
    """Makes ids that are greater, as text, than every earlier one of the same prefix.

    Within one millisecond the random part counts upwards by random steps (RFC 9562, 6.2, method 2).
    Keyset paging and the running balances rest on this order. Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._moment = -1
        self._random = 0

    def new(self, prefix: str, moment: int) -> str:
        """An id such as `acc_01kafz…`, for the time `moment` in milliseconds."""
        with self._lock:
            if moment > self._moment:
                self._moment = moment
                # The top bit stays free, so that counting upwards has 2^73 to go before it runs over.
                self._random = _random_bits(_RANDOM_BITS - 1)
            else:
                self._random += 1 + _random_bits(32)
            return prefix + "_" + _encode(self._moment, self._random)


def _encode(moment: int, random: int) -> str:
    tail = 7 << 76 | (random >> 62) << 64 | 2 << 62 | random & (1 << 62) - 1
    pairs = _PAIRS
    return _head(moment) + "".join([pairs[tail >> shift & 1023] for shift in range(70, -1, -10)])


@lru_cache(maxsize=16)
def _head(moment: int) -> str:
    """The ten letters of the time, which all ids of a millisecond share."""
    return "".join([_PAIRS[moment >> shift & 1023] for shift in range(40, -1, -10)])


def moment_of(id: str) -> int:
    """The time in an id that `IdSource` made, in milliseconds."""
    value = 0
    for letter in id.rpartition("_")[2]:
        value = value << 5 | _ALPHABET.index(letter)
    return value >> 80


def first_at(prefix: str, moment: int) -> str:
    """The least text that sorts before every id of `moment` or later and after every earlier one."""
    return prefix + "_" + _encode(max(0, min(moment, (1 << 48) - 1)), 0)


def is_id(text: str, prefix: str) -> bool:
    """Whether `text` has the form of an id of this prefix."""
    head, separator, tail = text.partition("_")
    return head == prefix and separator == "_" and len(tail) == _LENGTH and all(c in _ALPHABET for c in tail)
