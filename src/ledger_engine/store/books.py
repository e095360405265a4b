"""The numbers of books, and the conditions that limit a statement to a tenant's rows.

A book is one mode, test or live, of one project. Most tables contain the columns `project` and `livemode`.
Tables that grow with each posting instead contain `book`, the short number of the book. All conditions take
the parameters `:project` and `:livemode`, which `Tenant.bind` adds.
"""

from __future__ import annotations

from typing import ClassVar

from ledger_engine.core.tenant import Tenant
from ledger_engine.store import GroupCache, Unit

BOOK = "(SELECT book FROM books WHERE project = :project AND livemode = :livemode)"
OF_TENANT = "project = :project AND livemode = :livemode"
OF_BOOK = f"book = {BOOK}"
TABLES = frozenset({"books"})  # a statement that changes one of these tables drops the cached book number
_WITH_BOOK = ("transactions", "events", "logs", "log_tiles", "log_commitments", "log_cosignatures")


class _Number:
    """The number of the tenant's book, which never changes. Implements `store.CachedValues`."""

    tables: ClassVar = TABLES
    __slots__ = ("number",)

    def __init__(self, cache: GroupCache, tenant: Tenant) -> None:
        (row,) = cache.execute(f"SELECT book FROM books WHERE {OF_TENANT}", tenant.bind())
        self.number: int = row["book"]

    def write(self) -> None:
        """Do nothing, because the number never changes."""


def number_of(unit: Unit | GroupCache, tenant: Tenant) -> int:
    """Return the number of the tenant's book."""
    return unit.cached(_Number, tenant).number


def condition_on(table: str) -> str:
    """Return the condition that selects a tenant's rows in a table."""
    return OF_BOOK if table in _WITH_BOOK else OF_TENANT
