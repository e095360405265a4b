"""Books: one mode of one project each, and the conditions that limit a statement to a tenant's rows.

Most tables have the columns `project` and `livemode`. Those that grow with each posting have the number of
their book instead, which is small. All conditions take the parameters `:project` and `:livemode`, which
`Tenant.bind` adds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ledger_engine.core.clock import iso
from ledger_engine.core.errors import Conflict, PermissionDenied
from ledger_engine.core.tenant import Tenant, mode_name
from ledger_engine.store import GroupCache, Unit

BOOK = "(SELECT book FROM books WHERE project = :project AND livemode = :livemode)"
OF_TENANT = "project = :project AND livemode = :livemode"
OF_BOOK = f"book = {BOOK}"
TABLES = frozenset({"books"})  # what the number of a book is held from
# A copy has one book that is copied, and no other book of it may be written to either.
_COPY_OF = "SELECT copy_of FROM books WHERE copy_of > '' LIMIT 1"
_WITH_BOOK = ("transactions", "events", "logs", "log_tiles", "log_commitments", "log_cosignatures")


@dataclass(frozen=True, slots=True)
class Source:
    """The server that a book is a copy of. `pulled_at` is None until the first pull is complete."""

    url: str
    project: str
    livemode: bool
    pulled_at: int | None

    def description(self) -> str:
        """Return what the copy is of, in words."""
        if self.pulled_at is None:
            return f"a copy of {self.url}, not yet complete"
        return f"a copy of {self.url} as of {iso(self.pulled_at)}"


class _Number:
    """The number of a book and what the ledger is a copy of, which no work of its own changes."""

    tables: ClassVar = TABLES
    __slots__ = ("copy_of", "number")

    def __init__(self, cache: GroupCache, tenant: Tenant) -> None:
        (row,) = cache.execute(
            f"SELECT book, ({_COPY_OF}) AS copy_of FROM books WHERE {OF_TENANT}", tenant.bind()
        )
        self.number: int = row["book"]
        self.copy_of: str | None = row["copy_of"]

    def write(self) -> None:
        """Do nothing: the number of a book never changes."""


def number_of(unit: Unit | GroupCache, tenant: Tenant) -> int:
    """Return the number of the tenant's book, to be written to. Raises PermissionDenied for a copy."""
    book = unit.cached(_Number, tenant)
    _require_own(book.copy_of)
    return book.number


def require_own(unit: Unit) -> None:
    """Raise PermissionDenied when the ledger is a copy, for works that record no event."""
    row = unit.first(_COPY_OF)
    _require_own(None if row is None else row["copy_of"])


def _require_own(copy_of: str | None) -> None:
    if copy_of is not None:
        raise PermissionDenied(
            "read_only",
            f"This ledger is a copy of {copy_of} and cannot be changed: change it there, and pull.",
        )


def source(unit: Unit) -> Source | None:
    """Return what this ledger is a copy of; None for one of its own."""
    row = unit.first(
        "SELECT b.copy_of, b.project, b.livemode, p.pulled_at FROM books AS b"
        " LEFT JOIN pulls AS p ON p.book = b.book WHERE b.copy_of > '' LIMIT 1"
    )
    if row is None:
        return None
    return Source(row["copy_of"], row["project"], bool(row["livemode"]), row["pulled_at"])


def require_mode(unit: Unit, *, livemode: bool) -> None:
    """Raise Conflict when the ledger is a copy of the other mode."""
    copied = source(unit)
    if copied is not None and copied.livemode != livemode:
        raise Conflict(
            "not_recoverable",
            f"This ledger is a copy of the {mode_name(copied.livemode)} mode of {copied.url} and has no data"
            f" in {mode_name(livemode)} mode.",
        )


def condition_on(table: str) -> str:
    """Return the condition on the rows of a table that belong to the tenant."""
    return OF_BOOK if table in _WITH_BOOK else OF_TENANT
