"""The bodies of events: the text that is signed and sent, with the same bytes whenever it is read.

Most events are stored with their body. The event of a posting is not, because a transaction never changes:
its body is rendered from the transaction whenever it is read. So the form of that body is fixed here, and
does not follow when the `transaction` of the interface gets another field.
"""

from __future__ import annotations

import json
from typing import Any

from ledger_engine.core.clock import iso
from ledger_engine.core.records import dumps
from ledger_engine.store import Row

POSTING = "transaction.created"

# What `body_of` needs in a statement on `events AS e`, besides a column `livemode`.
COLUMNS = (
    "e.id, e.type, e.body, e.created, e.object, t.account, t.amount, t.type AS direction,"
    " coalesce(t.long_description, t.description) AS description, t.balance_after, t.destination, t.transfer,"
    " t.reverses"
)
JOIN = "LEFT JOIN transactions AS t ON e.body IS NULL AND t.book = e.book AND t.id = e.object"


def body_of(row: Row) -> str:
    """Return the body of the event in a row of `COLUMNS` and `livemode`."""
    stored: str | None = row["body"]
    return _posting_text(row) if stored is None else stored


def data_of(row: Row) -> dict[str, Any]:
    """Return the `data` of the event in a row of `COLUMNS` and `livemode`."""
    stored: str | None = row["body"]
    data: dict[str, Any] = (_posting(row) if stored is None else json.loads(stored))["data"]
    return data


def message(id: str, kind: str, created: int, *, livemode: bool, subject: dict[str, Any]) -> dict[str, Any]:
    """Return an event as it is sent; `created` is in milliseconds."""
    return {
        "id": id,
        "object": "event",
        "type": kind,
        "created": iso(created),
        "livemode": livemode,
        "data": {"object": subject},
    }


def _posting(row: Row) -> dict[str, Any]:
    livemode = bool(row["livemode"])
    created: int = row["created"]
    subject = {
        "id": row["object"],
        "object": "transaction",
        "account": row["account"],
        "amount": row["amount"],
        "type": row["direction"],
        "description": row["description"],
        "balance_after": row["balance_after"],
        "created": iso(created),
        "livemode": livemode,
        "destination": row["destination"],
        "transfer": row["transfer"],
        "reverses": row["reverses"],
    }
    return message(row["id"], POSTING, created, livemode=livemode, subject=subject)


def _posting_text(row: Row) -> str:
    """Return what `dumps` returns for `_posting`, in a third of the time: each delivery needs it.

    Only a description has characters that JSON escapes.
    """
    description = row["description"]
    created = iso(row["created"])
    livemode = "true" if row["livemode"] else "false"
    return (
        f'{{"id":"{row["id"]}","object":"event","type":"{POSTING}","created":"{created}","livemode":{livemode},'
        f'"data":{{"object":{{"id":"{row["object"]}","object":"transaction","account":"{row["account"]}",'
        f'"amount":{row["amount"]},"type":"{row["direction"]}",'
        f'"description":{"null" if description is None else dumps(description)},'
        f'"balance_after":{row["balance_after"]},"created":"{created}","livemode":{livemode},'
        f'"destination":{_id(row["destination"])},'
        f'"transfer":{_id(row["transfer"])},'
        f'"reverses":{_id(row["reverses"])}}}}}}}'
    )


def _id(id: str | None) -> str:
    return "null" if id is None else f'"{id}"'
