"""Emptying one project and mode: everything but the project, its books and its API keys."""

from __future__ import annotations

from dataclasses import dataclass

from ledger_engine.access import api_keys
from ledger_engine.core.tenant import Tenant
from ledger_engine.events.webhooks import endpoints
from ledger_engine.store import Unit
from ledger_engine.store.books import OF_BOOK, OF_TENANT, require_own

_OF_APPS = f"(SELECT id FROM apps WHERE {OF_TENANT})"
_OF_GRANTS = f"(SELECT id FROM grants WHERE app IN {_OF_APPS})"
# By table, in this order, as rows are referred to by those before them: the condition on what is deleted.
EMPTIED: dict[str, str] = {
    "requests": OF_TENANT,
    "delivery_attempts": f"delivery IN (SELECT id FROM deliveries WHERE {OF_TENANT})",
    "deliveries": OF_TENANT,
    "webhook_endpoints": OF_TENANT,
    "deleted_webhook_endpoints": OF_TENANT,
    "log_cosignatures": OF_BOOK,
    "log_commitments": OF_BOOK,
    "log_tiles": OF_BOOK,
    "logs": OF_BOOK,
    "events": OF_BOOK,
    "idempotency_keys": OF_TENANT,
    "oauth_tokens": f"grant_id IN {_OF_GRANTS}",
    "grants": f"app IN {_OF_APPS}",
    "apps": OF_TENANT,
    "sign_ins": f"user_id IN (SELECT id FROM users WHERE {OF_TENANT})",
    "orders": OF_TENANT,
    "users": OF_TENANT,
    "invoices": OF_TENANT,
    "transactions": OF_BOOK,
    "accounts": OF_TENANT,
    "settlements": OF_TENANT,
    "counters": OF_TENANT,
}
# What stays: the project, its books, its keys and their tokens, and the servers of the ledger. A copy, which
# has the last three, is not emptied at all.
KEPT = ("projects", "books", "api_keys", "tokens", "servers", "pulls", "pull_lists", "pulled", "log_keys")
_COUNTED = ("accounts", "transactions", "invoices", "users", "orders", "events", "webhook_endpoints")


@dataclass(slots=True)
class Emptied:
    """How many of each were deleted."""

    accounts: int
    transactions: int
    invoices: int
    users: int
    orders: int
    events: int
    webhook_endpoints: int


def empty(unit: Unit, tenant: Tenant) -> Emptied:
    """Delete everything of the project and mode; its keys and their tokens go on working.

    Raises PermissionDenied for a copy of another server.
    """
    require_own(unit)
    counts = {table: _count(unit, tenant, table) for table in _COUNTED}
    for table, condition in EMPTIED.items():
        unit.execute(f"DELETE FROM {table} WHERE {condition}", tenant.bind())
    # A data set that was loaded into the test mode can be loaded again.
    unit.execute("DELETE FROM seeds WHERE project = :project", {"project": tenant.project})
    unit.announce(endpoints.TOPIC)
    unit.announce(api_keys.TOPIC)  # the tokens of apps are gone
    return Emptied(**counts)


def _count(unit: Unit, tenant: Tenant, table: str) -> int:
    row = unit.first(f"SELECT count(*) AS rows FROM {table} WHERE {EMPTIED[table]}", tenant.bind())
    assert row is not None
    return int(row["rows"])
