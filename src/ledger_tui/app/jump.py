"""Lets the user jump to one of the ids in the selected record."""

from __future__ import annotations

from textual.content import Content

from ledger_tui.app.navigation import Navigation
from ledger_tui.client.records import FoundId, ids_in
from ledger_tui.formats.text import literal
from ledger_tui.resources.registry import ids_within, is_id, resource_of_id
from ledger_tui.ui.dialogs import ChooseScreen
from ledger_tui.ui.view import View


def choose_id(navigation: Navigation) -> None:
    """Let the user choose one of the ids in the selected record.

    Go to the object with this id; if no screen shows such an object, copy the id.
    """
    ids = ids_of(navigation.view)
    if not ids:
        navigation.notify("There is no id in this record.")
        return
    lines = [
        Content.assemble(
            (literal(each.where), "$muted"),
            "  ",
            literal(each.record_id),
            ("" if _has_screen(each.record_id) else "  no screen: ⏎ copies it", "$muted"),
        )
        for each in ids
    ]

    async def chosen(number: int | None) -> None:
        if number is None:
            return
        record_id = ids[number].record_id
        if _has_screen(record_id):
            await navigation.open_object(record_id)
        else:
            navigation.app.copy_to_clipboard(record_id)
            navigation.notify(f"Copied {literal(record_id)}", markup=False)

    navigation.app.push_screen(ChooseScreen("Jump to", lines, verb="jump"), chosen)


def ids_of(view: View) -> list[FoundId]:
    """Return each id in the selected record and its details once; the record's own id comes last."""
    record = view.record_being_read()
    in_details = (
        FoundId(label, record_id) for label, text in view.shown_texts() for record_id in ids_within(text)
    )
    by_id: dict[str, FoundId] = {}
    for each in (*ids_in(record, _is_id), *in_details):
        by_id.setdefault(each.record_id, each)
    own = by_id.pop(str((record or {}).get("id")), None)
    return [*by_id.values(), *([own] if own is not None else [])]


def _is_id(text: str) -> bool:
    return _has_screen(text) or is_id(text)


def _has_screen(text: str) -> bool:
    resource = resource_of_id(text)
    return resource is not None and resource.has_object_path and " " not in text
