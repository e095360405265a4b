"""Returns the links from a record to events, deliveries, and the objects that it names."""

from __future__ import annotations

import re
from urllib.parse import quote

from ledger_tui.client.records import Record
from ledger_tui.formats.text import literal, sentence
from ledger_tui.resources.base import Link, Via

_IN_PATH = re.compile(r"/((acc|txn|inv|usr|ord|evt|whe)_[0-9a-z]+)(?=/|$)")
KIND_OF_OBJECT = {
    "account": "accounts",
    "transaction": "transactions",
    "invoice": "invoices",
    "user": "users",
    "order": "orders",
}
_OF_PREFIX = {
    **dict(zip(("acc", "txn", "inv", "usr", "ord"), KIND_OF_OBJECT.items(), strict=True)),
    "evt": ("event", "events"),
    "whe": ("webhook endpoint", "webhook_endpoints"),
}


def to_events(record: Record) -> tuple[Link, ...]:
    """Return the links to the newest event about an object, and to the request that caused this event."""
    newest = (("object", str(record.get("id"))), ("limit", "1"))
    request = Via("/v1/events", named="request", query=newest)
    return (
        Link("Newest event", "events", via=Via("/v1/events", query=newest)),
        Link("Request of the last change", "requests", via=request),
    )


def to_delivery(delivery: Record, url: str) -> Link:
    """Return the link from an event to one of its deliveries, in the list of the delivery's endpoint."""
    event = quote(str(delivery.get("event")), safe="")
    via = Via(f"/v1/events/{event}/deliveries", "endpoint", str(delivery.get("endpoint")))
    return Link(f"Delivery to {literal(url)}", "deliveries", via=via)


def to_objects_in(path: str) -> tuple[Link, ...]:
    """Return the links to the objects whose ids are in the path of a request."""
    ids = dict.fromkeys(_IN_PATH.findall(path))
    return tuple(
        Link(f"{sentence(_OF_PREFIX[prefix][0])} in the path", _OF_PREFIX[prefix][1], record_id=record_id)
        for record_id, prefix in ids
    )
