"""Which keys a screen has for what its resource and the selected object allow."""

from __future__ import annotations

from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record
from ledger_tui.formats.text import literal
from ledger_tui.resources.base import Resource


def offers(
    resource: Resource,
    action: str,
    name: str,
    record: Record | None,
    names: AccountNames,
    read_only: bool,
) -> bool | None:
    """Return True if an action is possible now, None to grey its key, False if the screen has no such key.

    `name` says which one, for the actions `act` and `go`.
    """
    match action:
        case "act":
            act = resource.action(name)
            if act is None:
                return False
            return True if record and not read_only and act.allowed(record) else None
        case "go":
            return resource.related_view(name) is not None
        case "create":
            return False if resource.form is None else None if read_only else True
        case "edit":
            if not resource.edits:
                return False
            return True if record and not read_only and resource.edit(record, names) else None
        case "follow":
            return not resource.still
        case _:
            return True


def why_not(resource: Resource, name: str, record: Record | None, *, marked: bool) -> str:
    """Return why a key that `offers` greys does nothing; `name` says which action, "" to edit."""
    action = resource.action(name)
    verb = action.label if action is not None else "edit"
    if marked and action is not None:
        return f"Of the marked rows there is none to {verb}."
    if record is None:
        return f"There is no {resource.singular} here to {verb}."
    if isinstance(status := record.get("status"), str):
        called = record.get("number") or record.get("id")
        return f"{literal(called)} is {literal(status)}."
    return action.why_not if action is not None else f"This {resource.singular} cannot be changed."
