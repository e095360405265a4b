"""The navigation history: places to go back and forward to, and the objects opened. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

KEPT = 100
RECENT_KEPT = 50


@dataclass(frozen=True, slots=True)
class Location:
    """A screen, its filters, and the object that was open there, as it was then, or None."""

    kind: str
    filters: Mapping[str, str] = field(default_factory=dict)
    record_id: str | None = None
    record: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    by_link: bool = field(default=False, compare=False)


class History:
    """A history like a browser's: going to a new place forgets the places ahead."""

    def __init__(self) -> None:
        self._behind: list[Location] = []
        self._ahead: list[Location] = []

    def leave(self, location: Location) -> None:
        """Leave this place for a new one."""
        if not self._behind or self._behind[-1] != location:
            self._behind.append(location)
            del self._behind[:-KEPT]
        self._ahead.clear()

    def clear(self) -> None:
        """Forget all places."""
        self._behind.clear()
        self._ahead.clear()

    def back(self, here: Location) -> Location | None:
        """Return the place before this one; None at the beginning."""
        return self._step(self._behind, self._ahead, here)

    def forward(self, here: Location) -> Location | None:
        """Return the place that `back` left; None if there is none."""
        return self._step(self._ahead, self._behind, here)

    @staticmethod
    def _step(source: list[Location], target: list[Location], here: Location) -> Location | None:
        while source:
            location = source.pop()
            if location != here:
                target.append(here)
                return location
        return None


@dataclass(frozen=True, slots=True)
class Recent:
    """An object that was opened, and its name."""

    kind: str
    record_id: str
    label: str


def recent_of(kind: str, record: Mapping[str, Any]) -> Recent:
    """Return an object under the name people use: a name, a number, or its id."""
    names = (record.get(field) for field in ("name", "number", "customer", "description", "email"))
    label = next((name for name in names if isinstance(name, str) and name), "")
    return Recent(kind, str(record.get("id", "")), label)


class RecentObjects:
    """The objects opened last, the latest first."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, Recent] = OrderedDict()

    def saw(self, recent: Recent) -> None:
        self._seen.pop(recent.record_id, None)
        self._seen[recent.record_id] = recent
        while len(self._seen) > RECENT_KEPT:
            self._seen.popitem(last=False)

    def clear(self) -> None:
        """Forget all objects."""
        self._seen.clear()

    def __iter__(self) -> Iterator[Recent]:
        return iter(reversed(self._seen.values()))
