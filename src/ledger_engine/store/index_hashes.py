"""Fingerprints of the transactions, made once from their table and once from its indexes, to be compared.

They are compared within one process and its copies, as Python's hashes differ from one program to the next.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

# The amount of a transaction as its account's balance is changed by it.
SIGNED = "CASE type WHEN 'credit' THEN amount ELSE -amount END"
# What a transaction has that the usual one has not, with its values between tabulators; NULL for that one.
SPECIAL = (
    "CASE WHEN coalesce(transfer, destination, reverses) IS NOT NULL THEN format("
    f"'%s\t%s\t%s\t%s\t%s\t%s\t%s', id, account, {SIGNED}, created, transfer, destination, reverses) END"
)
# A description may have a comma, so descriptions have a character between them that hardly any has. Both
# characters are literals, as SQLite would call `char` for each row.
NO_DESCRIPTION, _BETWEEN = "\x1e", "\x1f"
DESCRIPTIONS = f"coalesce(description, '{NO_DESCRIPTION}'), '{_BETWEEN}'"


class Listed:
    """A hash of texts in their order, whatever the parts in which they are added.

    It can be pickled to be compared elsewhere; nothing can be added to what is read then.
    """

    __slots__ = ("_hash", "_whole", "is_empty")

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._whole: bytes | None = None
        self.is_empty = True

    def add(self, texts: str) -> None:
        """Add some texts with commas between; '' adds nothing."""
        if texts:
            if not self.is_empty:
                self._hash.update(b",")
            self._hash.update(texts.encode())
            self.is_empty = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Listed) and self._digest() == other._digest()

    def __getstate__(self) -> tuple[bytes, bool]:
        return self._digest(), self.is_empty

    def __setstate__(self, state: tuple[bytes, bool]) -> None:
        self._whole, self.is_empty = state

    def _digest(self) -> bytes:
        return self._hash.digest() if self._whole is None else self._whole


@dataclass(slots=True)
class Prints:
    """The fingerprints of the large indexes of transactions, and of three that only some rows are in.

    `by_type` has the ids of each book and type in their order. The others are sums of the hashes of what the
    entries contain, with the `weight` of their book: they do not depend on the order, and a missing, foreign
    or altered entry changes them. `by_object` has the events that have a body. `events` is how many events
    there are, as a search may pass over some where they are not in order. `damaged` says that an index is out
    of order.
    """

    by_account: int = 0
    by_type: dict[tuple[int, str], Listed] = field(default_factory=lambda: defaultdict(Listed))
    by_transfer: int = 0
    by_reversed: int = 0
    by_object: int = 0
    events: int = 0
    damaged: bool = False

    def add(self, book: int, columns: tuple[Iterable[str | int], ...], specials: Iterable[str]) -> None:
        """Add entries of the index by account.

        The columns are the account, id, signed amount, balance after it, time as a text, and description.
        """
        entries = zip(*columns, strict=True)
        self.by_account += weight(book) * (sum(map(hash, entries)) + sum(map(hash, specials)))

    def list_ids(self, book: int, type: str, ids: str) -> None:
        """Add ids of the index by type, with commas between."""
        if ids:
            self.by_type[book, type].add(ids)


def weight(book: int) -> int:
    """Return the factor of a book in `Prints`, which is different for each, and never 0."""
    return 2 * book + 1


def entry(value: str, book: int, id: str) -> int:
    """Return the hash of an entry of an index that only some rows are in."""
    return hash(value) * hash(id) * weight(book)


def descriptions(text: str, count: int, read: Callable[[], list[str | None]]) -> list[str]:
    """Return what `DESCRIPTIONS` has put together; `read` reads them one by one."""
    pieces = text.split(_BETWEEN)
    if len(pieces) == count:
        return pieces
    return [NO_DESCRIPTION if each is None else each for each in read()]
