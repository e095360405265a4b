"""Books: one mode of one project each, and the conditions that limit a statement to a tenant's rows.

Most tables have the columns `project` and `livemode`. Those that grow with each posting have the number of
their book instead, which is small. All conditions take the parameters `:project` and `:livemode`, which
`Tenant.bind` adds.
"""

from __future__ import annotations

from ledger_engine.core.tenant import Tenant
from ledger_engine.database import Unit

BOOK = "(SELECT book FROM books WHERE project = :project AND livemode = :livemode)"
OF_TENANT = "project = :project AND livemode = :livemode"
OF_BOOK = f"book = {BOOK}"
_WITH_BOOK = ("transactions", "events")


def number_of(unit: Unit, tenant: Tenant) -> int:
    """Return the number of the tenant's book."""
    row = unit.first(f"SELECT book FROM books WHERE {OF_TENANT}", tenant.bind())
    assert row is not None, "a project is made with its books"
    number: int = row["book"]
    return number


def condition_on(table: str) -> str:
    """Return the condition on the rows of a table that belong to the tenant."""
    return OF_BOOK if table in _WITH_BOOK else OF_TENANT
