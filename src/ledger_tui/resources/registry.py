"""All screens of the dashboard, in the order of their keys. A new screen is one file and one line here."""

from __future__ import annotations

from ledger_tui.resources.accounts import ACCOUNTS
from ledger_tui.resources.api_keys import API_KEYS
from ledger_tui.resources.base import Place, Resource
from ledger_tui.resources.deliveries import DELIVERIES
from ledger_tui.resources.endpoints import ENDPOINTS
from ledger_tui.resources.events import EVENTS
from ledger_tui.resources.invoices import INVOICES
from ledger_tui.resources.orders import ORDERS
from ledger_tui.resources.requests import REQUESTS
from ledger_tui.resources.statements import STATEMENT
from ledger_tui.resources.transactions import TRANSACTIONS
from ledger_tui.resources.users import USERS

TOKEN = Place("token", "6", "Token", "Token")
OVERVIEW = Place("overview", "0", "Overview", "Home")

# With a number key each, as they stand on the line of tabs …
PLACES: tuple[Place, ...] = (
    ACCOUNTS,
    TRANSACTIONS,
    INVOICES,
    USERS,
    ORDERS,
    TOKEN,
    EVENTS,
    REQUESTS,
    API_KEYS,
    OVERVIEW,
)
# … and those that other screens lead to.
RESOURCES: tuple[Resource, ...] = (
    *(place for place in PLACES if isinstance(place, Resource)),
    STATEMENT,
    ENDPOINTS,
    DELIVERIES,
)
BY_KIND = {resource.kind: resource for resource in RESOURCES}
PLACE_OF_KIND: dict[str, Place] = {place.kind: place for place in (*PLACES, *RESOURCES)}


def resource_of_id(object_id: str) -> Resource | None:
    """The kind of object an id belongs to, by its prefix."""
    return next(
        (r for r in RESOURCES if r.id_prefix and object_id.startswith(r.id_prefix)),
        None,
    )
