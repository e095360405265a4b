"""Books: one mode of one project each, and the conditions that limit a statement to a tenant's rows.

Most tables have the columns `project` and `livemode`. Those that grow with each posting have the number of
their book instead, which is small. All conditions take the parameters `:project` and `:livemode`, which
`Tenant.bind` adds.
"""

from __future__ import annotations

BOOK = "(SELECT book FROM books WHERE project = :project AND livemode = :livemode)"
OF_TENANT = "project = :project AND livemode = :livemode"
OF_BOOK = f"book = {BOOK}"
_WITH_BOOK = ("transactions", "events")


def condition_on(table: str) -> str:
    """Return the condition on the rows of a table that belong to the tenant."""
    return OF_BOOK if table in _WITH_BOOK else OF_TENANT
