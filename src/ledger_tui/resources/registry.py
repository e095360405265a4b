"""All screens of the dashboard, in the order of their keys. A new screen is one file and one line here."""

from __future__ import annotations

import re

from ledger_tui.resources.accounts import ACCOUNTS, STATEMENT
from ledger_tui.resources.api_keys import API_KEYS
from ledger_tui.resources.base import Place, Resource
from ledger_tui.resources.difference import DIFFERENCE
from ledger_tui.resources.directory import ORDERS, USERS
from ledger_tui.resources.endpoints import ENDPOINTS
from ledger_tui.resources.invoices import INVOICES
from ledger_tui.resources.links import KIND_OF_OBJECT
from ledger_tui.resources.requests import REQUESTS
from ledger_tui.resources.transactions import TRANSACTIONS
from ledger_tui.resources.webhooks import DELIVERIES, EVENTS

OVERVIEW = Place("overview", "Overview", "0", "Home")
TOKEN = Place("token", "Token", "6", "Token")
TEST_HELPERS = Place("test_helpers", "Test helpers", "H")
TRACE = Place("trace", "Trace")
COMPARISON = Place("comparison", "Compare accounts")
FLOWS = Place("flows", "Flows")

# The screens with a number key, in the order of the tabs.
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
# All screens of resources, including screens without a number key, which only other screens lead to.
RESOURCES: tuple[Resource, ...] = (
    *(place for place in PLACES if isinstance(place, Resource)),
    STATEMENT,
    ENDPOINTS,
    DELIVERIES,
    DIFFERENCE,
)
BY_KIND = {resource.kind: resource for resource in RESOURCES}
PLACE_OF_KIND: dict[str, Place] = {
    place.kind: place for place in (*PLACES, *RESOURCES, TRACE, FLOWS, COMPARISON, TEST_HELPERS)
}
# The kinds of objects that the screen `trace` can trace.
TRACED = (*KIND_OF_OBJECT.values(), "events", "deliveries", "requests")

_OTHER_PREFIXES = ("prj_", "app_")  # prefixes of objects that no screen shows
# An id begins with a known prefix. It also contains a digit, so `key_id` and similar words are not ids.
_IDS = re.compile(
    rf"(?<!\w)(?:{'|'.join([*filter(None, (each.id_prefix for each in RESOURCES)), *_OTHER_PREFIXES])})"
    r"(?=[a-z]*\d)[0-9a-z]+(?!\w)"
)


def ids_within(text: str) -> list[str]:
    """Return all ids in a text, in the order of the text."""
    return _IDS.findall(text)


def is_id(text: str) -> bool:
    """Return whether the whole text is an id."""
    return _IDS.fullmatch(text) is not None


def short_id(text: str) -> str:
    """Return `…` and the last six characters of an id; return any other text unchanged."""
    return f"…{text[-6:]}" if is_id(text) else text


def resource_of_id(object_id: str) -> Resource | None:
    """Return the resource that an id belongs to, by the prefix of the id; None for an unknown prefix."""
    return next(
        (r for r in RESOURCES if r.id_prefix and object_id.startswith(r.id_prefix)),
        None,
    )
