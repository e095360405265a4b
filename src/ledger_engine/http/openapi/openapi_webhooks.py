"""The webhooks in the OpenAPI document: for each type of event the request that an endpoint gets."""

from __future__ import annotations

from typing import Any

from ledger_engine.events.outbox import KINDS
from ledger_engine.http.openapi import examples
from ledger_engine.http.openapi.schemas import MOMENT, Records, Schema, json_content
from ledger_engine.ledger.accounts import Account
from ledger_engine.ledger.invoices import Invoice
from ledger_engine.ledger.orders import Order
from ledger_engine.ledger.transactions import Transaction
from ledger_engine.ledger.users import User

# Not that of the operations on endpoints: a generator writes a class for each tag, the second over the first.
TAG = {"name": "webhooks", "description": "The requests that an endpoint gets, one for each type of event."}
# What an event is about, by the first word of its type.
_SUBJECTS: dict[str, type[Any]] = {
    "account": Account,
    "transaction": Transaction,
    "invoice": Invoice,
    "user": User,
    "order": Order,
}
_TEXT: Schema = {"type": "string"}
_HEX: Schema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_HEADERS: dict[str, tuple[Schema, str]] = {
    "Ledger-Signature": (
        _HEX,
        "Lowercase hex HMAC-SHA-256 of the raw body, keyed with the endpoint's secret: compare it in constant"
        " time.",
    ),
    "Ledger-Event-Id": (_TEXT, "The event's id, the same in every attempt."),
    "Ledger-Event-Type": (_TEXT, "The event's type."),
    "Ledger-Attempt": ({"type": "integer", "minimum": 1}, "1 for the first attempt, and so on."),
    "Ledger-Signature-Previous": (
        _HEX,
        "The signature with the secret before, for 24 hours after it was rolled. *Beyond the contract.*",
    ),
    "webhook-id": (_TEXT, "The event's id (Standard Webhooks). *Beyond the contract.*"),
    "webhook-timestamp": (
        {"type": "integer"},
        "When the attempt was made: Unix time in seconds (Standard Webhooks). *Beyond the contract.*",
    ),
    "webhook-signature": (
        _TEXT,
        "Signatures of id, timestamp and body (Standard Webhooks). *Beyond the contract.*",
    ),
}
_SOMETIMES = "Ledger-Signature-Previous"
PARAMETERS: dict[str, Any] = {
    name: {
        "name": name,
        "in": "header",
        "required": name != _SOMETIMES,
        "schema": schema,
        "description": description,
    }
    for name, (schema, description) in _HEADERS.items()
}


def webhooks(records: Records) -> dict[str, Any]:
    """Return the requests that endpoints get, by type of event; their schemas are added to `records`."""
    return {kind: {"post": _request(kind, records)} for kind in KINDS}


def schema_name(kind: str) -> str:
    """Return the name of the schema of an event: `InvoicePaidEvent` for `invoice.paid`."""
    return "".join(word.capitalize() for word in kind.split(".")) + "Event"


def _request(kind: str, records: Records) -> dict[str, Any]:
    subject, happened = kind.split(".")
    name = schema_name(kind)
    records.components[name] = _event(kind, records.refer(_SUBJECTS[subject]))
    return {
        "operationId": f"on_{subject}_{happened}",
        "tags": [TAG["name"]],
        "summary": f"{'An' if subject[0] in 'aeio' else 'A'} {subject} was {happened}",
        "description": f"Sent to the endpoints that want `{kind}`, at least once: remember the event's id to"
        " know which events were handled.",
        "security": [],
        # openapi-generator leaves out what is internal, and would else write a class that is no valid Python.
        "x-internal": True,
        "parameters": [{"$ref": f"#/components/parameters/{header}"} for header in PARAMETERS],
        "requestBody": {
            "required": True,
            "content": json_content({"$ref": f"#/components/schemas/{name}"}, _example(kind)),
        },
        "responses": {
            "2XX": {"description": "Received. Any other answer than this and 410 is tried again."},
            "410": {"description": "The endpoint is gone: it is disabled."},
        },
    }


def _event(kind: str, subject: Schema) -> Schema:
    members: dict[str, Schema] = {
        "id": {"type": "string"},
        "object": {"type": "string", "const": "event"},
        "type": {"type": "string", "const": kind},
        "created": dict(MOMENT),
        "livemode": {"type": "boolean"},
        "data": {
            "type": "object",
            "description": "The object as it was then.",
            "properties": {"object": subject},
            "required": ["object"],
            "additionalProperties": False,
        },
    }
    return {
        "type": "object",
        "description": f"The event `{kind}` as it is sent.",
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }


def _example(kind: str) -> Schema:
    subject = kind.partition(".")[0]
    example = {name: value for name, value in examples.RECORDS["Event"].items() if name != "request"}
    about = {**examples.RECORDS[_SUBJECTS[subject].__name__], **examples.AFTER.get(kind, {})}
    return {**example, "type": kind, "data": {"object": about}}
