"""All screens of the dashboard, in the order of their keys. A new screen is one file and one line here."""

from __future__ import annotations

from ledger_tui.resources.accounts import ACCOUNTS
from ledger_tui.resources.base import Resource
from ledger_tui.resources.invoices import INVOICES
from ledger_tui.resources.orders import ORDERS
from ledger_tui.resources.transactions import TRANSACTIONS
from ledger_tui.resources.users import USERS

RESOURCES: tuple[Resource, ...] = (ACCOUNTS, TRANSACTIONS, INVOICES, USERS, ORDERS)
BY_KIND = {resource.kind: resource for resource in RESOURCES}


def resource_of_id(object_id: str) -> Resource | None:
    """The kind of object an id belongs to, by its prefix."""
    return next((resource for resource in RESOURCES if object_id.startswith(resource.id_prefix)), None)
