"""The faults that an audit finds, each with its kind and the object that is wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

NAMED_MAX = 1000  # faults of one kind that are listed; further faults of the kind are only counted


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """A fault: its `kind` is one of the kinds in docs/verify.md#faults.

    `object` is the id of the object that is wrong; '' if the fault belongs to no object.
    """

    kind: str
    object: str
    message: str


@dataclass(slots=True)
class Discrepancies:
    """The faults that were found so far, without duplicates.

    `found` lists the first NAMED_MAX faults of each kind, and `counts` counts all faults of each kind.
    """

    found: dict[Discrepancy, None] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, kind: str, object: str, message: str) -> None:
        """Note a fault, unless it is already listed."""
        fault = Discrepancy(kind, object, message)
        if fault not in self.found:
            self.counts[kind] += 1
            if self.counts[kind] <= NAMED_MAX:
                self.found[fault] = None

    def all(self) -> tuple[Discrepancy, ...]:
        """Return the listed faults, and one more fault for each kind with further faults.

        The additional fault says how many further faults of the kind there are.
        """
        more = [
            Discrepancy(kind, "", f"there are {count - NAMED_MAX:,} more faults of this kind: {kind}.")
            for kind, count in self.counts.items()
            if count > NAMED_MAX
        ]
        return (*self.found, *more)
