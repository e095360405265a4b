"""What is asked before something is done that cannot be taken back."""

from __future__ import annotations

from collections.abc import Iterator

from ledger_tui.resources.base import Action, Resource
from ledger_tui.resources.events import known_by, subject
from ledger_tui.state.names import AccountNames
from ledger_tui.state.text import literal
from ledger_tui.state.window import Record


def question(resource: Resource, action: Action, record: Record, names: AccountNames) -> str:
    """`Void invoice inv_…?`, and under it what people know the object by."""
    begins = action.asks or action.label.capitalize()
    asked = f"{begins} {resource.singular} {literal(record.get('id'))}?"
    told = " · ".join([*known_by(subject(record) or record, names), *_beside(record, names)])
    return f"{asked}\n\n{told}" if told else asked


def _beside(record: Record, names: AccountNames) -> Iterator[str]:
    for name in ("url", "event"):
        if isinstance(record.get(name), str):
            yield literal(record[name])
    if isinstance(last := record.get("last4"), str):
        yield f"…{literal(last)}"
    if account := names.get(record.get("account")):
        yield literal(account.name)
    if user := names.user(record.get("user_id")):
        yield literal(user)
