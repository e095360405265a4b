"""Returns the words for an object in a sentence."""

from __future__ import annotations

from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record
from ledger_tui.formats.text import literal
from ledger_tui.resources.base import Resource


def number_or_name(resource: Resource, record: Record) -> str | None:
    """Return an object's number or, without a number, its kind with its URL or name; otherwise None."""
    if isinstance(number := record.get("number"), str):
        return literal(number)
    texts = (record.get(field) for field in ("url", "name"))
    text = next((text for text in texts if isinstance(text, str)), None)
    return None if text is None else f"{resource.singular} {literal(text)}"


def words_for(resource: Resource, record: Record, names: AccountNames | None = None) -> str:
    """Return the words for an object inside a sentence: `INV-000202`, `account Till`, `the order of Ada`."""
    event = record.get("type" if resource.kind == "events" else "event_type")
    if isinstance(event, str):
        return literal(event)
    if (words := number_or_name(resource, record)) is not None:
        return words
    if isinstance(customer := record.get("customer"), str):
        return f"the {resource.singular} for {literal(customer)}"
    if names is not None and (user := names.user(record.get("user_id"))):
        return f"the {resource.singular} of {literal(user)}"
    if names is not None and (account := names.get(record.get("account"))):
        return f"the {resource.singular} on {literal(account.name)}"
    return f"the {resource.singular}"
