"""Meanings and examples of the test helpers, which are in the document of a server that has them."""

from __future__ import annotations

from typing import Any

from ledger_engine.http.openapi import examples

_CREATED = "2026-11-20T04:31:00.123Z"
_FAULT = "flt_01kafztd9rec4t6v8x0z2b4d6f"

TERMS = {
    "action": "What happens.",
    "advance": "Seconds by which the clock goes forward.",
    "SetFaultAction.code": "The `code` of the error; the usual one of its status when left out.",
    "Fault.action.code": "The `code` of the error; null for the usual one of its status.",
    "cut": "Where the connection is cut: before the work, after its commit, or in half of the answer.",
    "delay_ms": "Milliseconds of the machine's clock to wait.",
    "deleted": "How many were deleted.",
    "bytes": "The size of its file.",
    "Emptied.accounts": "How many were deleted.",
    "Emptied.events": "How many were deleted.",
    "Emptied.invoices": "How many were deleted.",
    "Emptied.orders": "How many were deleted.",
    "Emptied.transactions": "How many were deleted.",
    "Emptied.users": "How many were deleted.",
    "Emptied.webhook_endpoints": "How many were deleted.",
    "Fault.match.key": "Id of an API key or app, with its tokens.",
    "Fault.match.method": "The request's method.",
    "Fault.match.path": "The request's path, or its beginning and `*`.",
    "Fault.match.type": "The type of the event.",
    "SetFaultMatch.key": "Id of an API key or app, with its tokens.",
    "SetFaultMatch.path": "The request's path, or its beginning and `*`.",
    "SetFaultMatch.type": "The type of the event.",
    "frozen": "Whether the clock stands still.",
    "header": "A name, or a name and a value: `X-Test: 1`.",
    "hits": "How often it has happened.",
    "jitter_ms": "Up to so many milliseconds more, at random.",
    "match": "What it happens to; everything when left out.",
    "SetClock.now": "ISO 8601 date or date-time to go forward to.",
    "now": "The ledger's time.",
    "TakeSnapshot.name": "1 to 64 letters, digits, dots, dashes and underscores.",
    "objects": "What was made for it, the event's own object among it.",
    "offset_ms": "By how many milliseconds the clock is ahead of the machine's.",
    "probability": "From 0 to 1; 1 when left out.",
    "seed": "The same seed makes the same random choices.",
    "SetFaultAction.status": "The status of the error, 400 to 599.",
    "Fault.action.status": "The status of the error.",
    "times": "How often it happens at most; without an end when left out.",
    "TriggerEvent.type": "The type of the event that is to happen.",
    "webhook": "What happens to an attempt to send an event.",
}

_NO_MATCH = {"method": None, "path": None, "key": None, "header": None, "endpoint": None, "type": None}
_NO_ACTION = {
    "status": None,
    "code": None,
    "delay_ms": None,
    "jitter_ms": None,
    "cut": None,
    "webhook": None,
}
_POSTINGS = {"method": "POST", "path": "/v1/transactions"}
_PAID = {**examples.RECORDS["Invoice"], **examples.AFTER["invoice.paid"]}

BODIES: dict[str, dict[str, Any]] = {
    "SetClock": {"advance": 86_400},
    "TakeSnapshot": {"name": "before-payment"},
    "SetFault": {"match": _POSTINGS, "action": {"cut": "after_commit"}, "times": 1},
    "TriggerEvent": {"type": "invoice.paid"},
}
RECORDS: dict[str, dict[str, Any]] = {
    "LedgerClock": {"now": _CREATED, "offset_ms": 86_400_000, "frozen": False},
    "Snapshot": {
        "id": "snp_01kafzt6wkek3m5p7r9t1v3x5z",
        "object": "snapshot",
        "name": "before-payment",
        "bytes": 249_856,
        "created": _CREATED,
        "livemode": False,
    },
    "Emptied": {
        "accounts": 2,
        "transactions": 7,
        "invoices": 1,
        "users": 0,
        "orders": 0,
        "events": 11,
        "webhook_endpoints": 1,
    },
    "Fault": {
        "id": _FAULT,
        "object": "fault",
        "match": {**_NO_MATCH, **_POSTINGS},
        "action": {**_NO_ACTION, "cut": "after_commit"},
        "probability": 1.0,
        "seed": None,
        "times": 1,
        "hits": 0,
        "created": _CREATED,
        "livemode": False,
    },
    "ForgottenFaults": {"deleted": 2},
    "TriggeredEvent": {
        "event": {**examples.RECORDS["Event"], "type": "invoice.paid", "data": {"object": _PAID}},
        "objects": [examples.RECORDS["Account"], _PAID, examples.RECORDS["Transaction"]],
    },
}
