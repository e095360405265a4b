"""The sentences after a change: the new state, or why the state is unknown."""

from __future__ import annotations

from ledger_client.errors import ApiError, LedgerError, NotConnected, Unreadable
from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record
from ledger_tui.formats.text import literal
from ledger_tui.forms.questions import called
from ledger_tui.resources.base import Resource, ResourceAction
from ledger_tui.resources.webhooks import amount_of, items_of


def outcome(
    resource: Resource, action: ResourceAction, record: Record, answer: Record, names: AccountNames
) -> str:
    """Return `INV-000202 is open: 151.00 EUR`, from the object before an action and the server's answer."""
    answered_id = answer.get("id")
    if action.result is not None:
        return action.result(answer, literal(record.get("id")))
    is_same = answered_id == record.get("id")
    state, now = action.done.lower(), record
    if is_same:
        now = answer
        status = answer.get("status")
        if isinstance(status, str) and status != record.get("status"):
            state = literal(status)
    is_new = not is_same and str(answered_id).startswith(resource.id_prefix)
    about = answer if is_new else now
    sums = [*amount_of(about, names), *items_of(about)]
    facts = ", ".join([literal(answered_id), *sums] if is_new else sums)
    head = called(resource, now) or f"{resource.singular} {literal(now.get('id') or '')}".rstrip()
    return f"{head[0].upper()}{head[1:]} is {state}" + (f": {facts}" if facts else "")


def uncertain(error: LedgerError) -> str:
    """Return a sentence about a change that may have been made all the same; "" for one that was refused."""
    if isinstance(error, NotConnected):
        answer = "No usable answer" if isinstance(error, Unreadable) else "No answer"
        return f"{answer} ({literal(error).rstrip('.')}); the change may still have been made."
    # If the ledger cannot reach its storage, its message says whether the change was made.
    if isinstance(error, ApiError) and error.code != "storage_unavailable":
        request = f", request {literal(error.request_id)}" if error.request_id else ""
        return f"The server failed; the change may still have been made. Status {error.status}{request}."
    return ""
