"""Where one has been: places to go back to and forward again, and the objects met on the way. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

KEPT = 100
RECENT_KEPT = 50


@dataclass(frozen=True, slots=True)
class Spot:
    """A screen, its filters, and the object that was open there, if one was, as it was then."""

    kind: str
    filters: Mapping[str, str] = field(default_factory=dict)
    record_id: str | None = None
    record: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    by_link: bool = field(default=False, compare=False)


class History:
    """As a browser's: going somewhere new forgets what was ahead."""

    def __init__(self) -> None:
        self._behind: list[Spot] = []
        self._ahead: list[Spot] = []

    def leave(self, spot: Spot) -> None:
        """Go somewhere new from here."""
        if not self._behind or self._behind[-1] != spot:
            self._behind.append(spot)
            del self._behind[:-KEPT]
        self._ahead.clear()

    def back(self, here: Spot) -> Spot | None:
        """Where one was before; None at the beginning."""
        return self._step(self._behind, self._ahead, here)

    def forward(self, here: Spot) -> Spot | None:
        """Where one went back from; None if nowhere."""
        return self._step(self._ahead, self._behind, here)

    @staticmethod
    def _step(source: list[Spot], target: list[Spot], here: Spot) -> Spot | None:
        while source:
            spot = source.pop()
            if spot != here:
                target.append(here)
                return spot
        return None


@dataclass(frozen=True, slots=True)
class Recent:
    """An object that was looked at, and what it was called."""

    kind: str
    record_id: str
    label: str


def recent_of(kind: str, record: Mapping[str, Any]) -> Recent:
    """An object by what people call it: a name, a number, else its id alone."""
    names = (record.get(field) for field in ("name", "number", "customer", "description", "email"))
    label = next((name for name in names if isinstance(name, str) and name), "")
    return Recent(kind, str(record.get("id", "")), label)


class RecentObjects:
    """The latest objects that were opened, the latest first."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, Recent] = OrderedDict()

    def saw(self, recent: Recent) -> None:
        self._seen.pop(recent.record_id, None)
        self._seen[recent.record_id] = recent
        while len(self._seen) > RECENT_KEPT:
            self._seen.popitem(last=False)

    def __iter__(self) -> Iterator[Recent]:
        return iter(reversed(self._seen.values()))
