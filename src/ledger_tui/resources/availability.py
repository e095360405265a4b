"""Returns whether an action of a screen is possible now, and why a key does nothing."""

from __future__ import annotations

from collections.abc import Callable

from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record
from ledger_tui.formats.text import literal, sentence
from ledger_tui.resources.base import Resource
from ledger_tui.resources.words import words_for


def offers(
    resource: Resource,
    action: str,
    name: str,
    record: Record | None,
    names: AccountNames,
    read_only: bool,
) -> bool | None:
    """Return True if an action is possible now, None to grey its key, False if the screen lacks the key.

    For the actions `act` and `go`, `name` is the name of the `ResourceAction` or the `RelatedView`.
    """
    match action:
        case "act":
            act = resource.action(name)
            if act is None:
                return False
            return True if record and not read_only and act.allowed(record) else None
        case "go":
            return resource.related_view(name) is not None
        case "create" | "transfer":
            form = resource.form if action == "create" else resource.transfer
            return False if form is None else None if read_only else True
        case "edit":
            if not resource.edits:
                return False
            return True if record and not read_only and resource.edit(record, names) else None
        case "follow":
            return not resource.still
        case _:
            return True


def why_not(
    resource: Resource,
    name: str,
    record: Record | None,
    *,
    has_marks: bool,
    key_of: Callable[[str], str],
) -> str:
    """Return why a key does nothing. Call this for a key for which `offers` returns None.

    `name` is the name of the key's action, or "" for the key that edits. `key_of` takes the id of a
    binding and returns its key; the sentence contains a key if another action must come first.
    """
    action = resource.action(name)
    verb = action.label if action is not None else "edit"
    if has_marks and action is not None:
        return f"No marked row allows this: {verb}."
    if record is None:
        return f"There is no {resource.singular} here to {verb}."
    if isinstance(status := record.get("status"), str):
        first = resource.action(action.after) if action is not None else None
        if first is not None and first.allowed(record):
            state = "a draft" if status == "draft" else literal(status)
            return f"Still {state}: {key_of(f'act.{first.name}')} {first.label}s it first."
        return f"{sentence(words_for(resource, record))} is {literal(status)}."
    return action.why_not if action is not None else f"This {resource.singular} cannot be changed."
