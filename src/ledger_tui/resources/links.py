"""Links whose object is found when they are followed, as the record does not name it."""

from __future__ import annotations

import re
from urllib.parse import quote

from ledger_tui.client.records import Record
from ledger_tui.formats.text import literal
from ledger_tui.resources.base import Link, Via

_IN_PATH = re.compile(r"/((acc|txn|inv|usr|ord|evt|whe)_[0-9a-z]+)(?=/|$)")
_KINDS = {
    "acc": ("account", "accounts"),
    "txn": ("transaction", "transactions"),
    "inv": ("invoice", "invoices"),
    "usr": ("user", "users"),
    "ord": ("order", "orders"),
    "evt": ("event", "events"),
    "whe": ("webhook endpoint", "webhook_endpoints"),
}


def to_events(record: Record) -> tuple[Link, ...]:
    """Return the links to the newest event about an object and to the request that caused it."""
    newest = (("object", str(record.get("id"))), ("limit", "1"))
    request = Via("/v1/events", named="request", query=newest)
    return (
        Link("Its newest event", "events", via=Via("/v1/events", query=newest)),
        Link("The request that changed it last", "requests", via=request),
    )


def to_other_side(record: Record) -> tuple[Link, ...]:
    """Return the links from a transaction to the other side of its transfer and to its reversal."""
    transaction = str(record.get("id"))
    path = f"/v1/transactions/{quote(transaction, safe='')}/related"
    links = []
    if isinstance(transfer := record.get("transfer"), str):
        links.append(Link("Its other side", "transactions", via=Via(path, "transfer", transfer)))
    if record.get("reverses") is None:
        links.append(Link("Its reversal", "transactions", via=Via(path, "reverses", transaction)))
    return tuple(links)


def to_delivery(delivery: Record, url: str) -> Link:
    """Return the link from an event to one of its deliveries, in the list of its endpoint."""
    event = quote(str(delivery.get("event")), safe="")
    via = Via(f"/v1/events/{event}/deliveries", "endpoint", str(delivery.get("endpoint")))
    return Link(f"Its delivery to {literal(url)}", "deliveries", via=via)


def to_objects_in(path: str) -> tuple[Link, ...]:
    """Return the links to the objects whose ids are in the path of a request."""
    found = dict.fromkeys(_IN_PATH.findall(path))
    return tuple(
        Link(f"The {_KINDS[prefix][0]} in its path", _KINDS[prefix][1], record_id=record_id)
        for record_id, prefix in found
    )
