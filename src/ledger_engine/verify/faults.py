"""The faults that an audit finds, each with its kind and the wrong object."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

NAMED_MAX = 1000  # so many faults of one kind are listed; further faults are only counted


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """A broken rule: its `kind` as in docs/verify.md#faults, and the id of the `object`, or ''."""

    kind: str
    object: str
    message: str


@dataclass(slots=True)
class Discrepancies:
    """The faults so far, each once. If a kind is frequent, only its first NAMED_MAX faults are listed."""

    found: dict[Discrepancy, None] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, kind: str, object: str, message: str) -> None:
        """Note a fault."""
        fault = Discrepancy(kind, object, message)
        if fault not in self.found:
            self.counts[kind] += 1
            if self.counts[kind] <= NAMED_MAX:
                self.found[fault] = None

    def all(self) -> tuple[Discrepancy, ...]:
        """Return the faults, and for each frequent kind the number of further faults."""
        more = [
            Discrepancy(kind, "", f"there are {count - NAMED_MAX:,} more faults of this kind: {kind}.")
            for kind, count in self.counts.items()
            if count > NAMED_MAX
        ]
        return (*self.found, *more)
