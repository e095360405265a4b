"""A record as the server sends it, and a page of a list."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any, Literal

Record = dict[str, Any]


PAGE_SIZE = 100


@dataclass(frozen=True, slots=True)
class Page:
    """One answer of the server: rows newest first, and the cursor for older ones (None on the last page)."""

    rows: Sequence[Record]
    older: str | None
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Want:
    """A page to fetch. `slot` is the place it fills; `generation` distinguishes answers to older requests."""

    generation: int
    kind: Literal["page", "news", "newer"]
    slot: int
    cursor: str | None
    limit: int = PAGE_SIZE
    met: Set[str | None] = frozenset()  # the cursors before it: meeting one of them again would be a circle
