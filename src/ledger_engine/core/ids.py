"""Ids of objects: a prefix that names the kind, and a UUIDv7 that sorts by time.

See docs/decisions.md#conventions-ids.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated

from ledger_engine.core.records import Pattern

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [high + low for high in _ALPHABET for low in _ALPHABET]
_RANDOM_BITS = 74  # the bits that RFC 9562 leaves free: 12 after the version, 62 after the variant
_LENGTH = 26
IdMark = tuple[int, int]  # the time and the random part of the last id that an `IdSource` made
# Ids are not secrets, so a fast generator is enough. A forked process gives the generator a new seed.
# Otherwise this process and its parent would make the same ids in the same millisecond.
_generator = random.Random()
os.register_at_fork(after_in_child=_generator.seed)
_random_bits = _generator.getrandbits


def id_pattern(*prefixes: str) -> str:
    """Return a regular expression for JSON Schema that matches ids with one of these prefixes."""
    return rf"^({'|'.join(prefixes)})_[{_ALPHABET}]{{{_LENGTH}}}$"


CHANGED = id_pattern("acc", "inv", "usr", "ord")  # ids of the objects that `ledger.differences` compares
AccountId = Annotated[str, Pattern(id_pattern("acc"))]
TransactionId = Annotated[str, Pattern(id_pattern("txn"))]
InvoiceId = Annotated[str, Pattern(id_pattern("inv"))]
UserId = Annotated[str, Pattern(id_pattern("usr"))]
OrderId = Annotated[str, Pattern(id_pattern("ord"))]
EventId = Annotated[str, Pattern(id_pattern("evt"))]
EndpointId = Annotated[str, Pattern(id_pattern("whe"))]
DeliveryId = Annotated[str, Pattern(id_pattern("dlv"))]
RequestId = Annotated[str, Pattern(id_pattern("req"))]
ProjectId = Annotated[str, Pattern(id_pattern("prj"))]
ApiKeyId = Annotated[str, Pattern(id_pattern("key"))]
CredentialId = Annotated[str, Pattern(id_pattern("key", "app"))]
ChangedId = Annotated[str, Pattern(CHANGED)]
SnapshotId = Annotated[str, Pattern(id_pattern("snp"))]
FaultId = Annotated[str, Pattern(id_pattern("flt"))]


class IdSource:
    """A generator of ids. As text, each id sorts after all earlier ids with the same prefix.

    Paging and running balances depend on this order. Within one millisecond the random part grows by random
    steps (RFC 9562, 6.2, method 2). Several threads may use one source.
    """

    def __init__(self, random_bits: Callable[[int], int] = _random_bits) -> None:
        self._random_bits = random_bits
        self._lock = threading.Lock()
        self._moment = -1
        self._random = 0

    def new(self, prefix: str, moment: int) -> str:
        """Return a new id such as `acc_01kafz…` for the time `moment` in milliseconds."""
        with self._lock:
            if moment > self._moment:
                self._moment = moment
                # The top bit starts as 0, so the number can grow by at least 2^73 before it overflows.
                self._random = self._random_bits(_RANDOM_BITS - 1)
            else:
                self._random += 1 + self._random_bits(32)
            return prefix + "_" + _encode(self._moment, self._random)

    def mark(self) -> IdMark:
        """Return the position of the source, for `go_back`."""
        with self._lock:
            return self._moment, self._random

    def go_back(self, mark: IdMark) -> None:
        """Go back to `mark`. Call this only after all objects with later ids were removed."""
        with self._lock:
            self._moment, self._random = mark


def _encode(moment: int, random: int) -> str:
    low, pairs = random & 0xFFFFFFFFFF, _PAIRS
    return (
        _head(moment, random >> 40)
        + pairs[low >> 30]
        + pairs[low >> 20 & 1023]
        + pairs[low >> 10 & 1023]
        + pairs[low & 1023]
    )


@lru_cache(maxsize=16)
def _head(moment: int, random: int) -> str:
    """Return the first 18 letters: the time, the version, the variant and the upper 34 random bits.

    The results are cached, because a few hundred consecutive ids of one millisecond share these letters.
    """
    bits = moment << 40 | 7 << 36 | (random >> 22) << 24 | 2 << 22 | random & (1 << 22) - 1
    return "".join([_PAIRS[bits >> shift & 1023] for shift in range(80, -1, -10)])


def moment_of(id: str) -> int:
    """Return the time in an id that `IdSource` made, in milliseconds."""
    value = 0
    for letter in id.rpartition("_")[2]:
        value = value << 5 | _ALPHABET.index(letter)
    return value >> 80


def first_at(prefix: str, moment: int) -> str:
    """Return a text that sorts before the first id of the millisecond `moment`, and after all earlier ids."""
    return prefix + "_" + _encode(max(0, min(moment, (1 << 48) - 1)), 0)


def is_before(id: str, prefix: str, moment: int) -> bool:
    """Return whether `id` is an id with this prefix and was made before `moment`."""
    return is_id(id, prefix) and id < first_at(prefix, moment)


def is_id(text: str, prefix: str) -> bool:
    """Return whether `text` looks like an id with this prefix."""
    head, separator, tail = text.partition("_")
    return head == prefix and separator == "_" and len(tail) == _LENGTH and all(c in _ALPHABET for c in tail)
