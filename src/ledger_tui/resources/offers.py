"""Which keys a screen has for what its resource and the selected object allow."""

from __future__ import annotations

from ledger_tui.resources.base import Resource
from ledger_tui.state.names import AccountNames
from ledger_tui.state.window import Record


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
