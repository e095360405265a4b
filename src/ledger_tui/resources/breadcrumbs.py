"""Where links were followed from, in words: the way back that `esc` takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ledger_tui.resources.base import Resource
from ledger_tui.resources.filtering import filter_line
from ledger_tui.resources.registry import PLACE_OF_KIND, is_id
from ledger_tui.state.history import Location, recent_of
from ledger_tui.state.names import AccountNames
from ledger_tui.state.text import literal


def breadcrumb(location: Location, names: AccountNames) -> str:
    """Return a location in a few words: `Invoice INV-000001`, `Transactions account:Till`, `Overview`."""
    place = PLACE_OF_KIND[location.kind]
    if location.record is not None:
        singular = place.singular.capitalize() if isinstance(place, Resource) else place.title
        return f"{singular} {literal(_name(location.kind, location.record))}"
    if isinstance(place, Resource) and location.filters:
        shown = {param: _short(names.name(value)) for param, value in location.filters.items()}
        return f"{place.title} {literal(filter_line(shown, place.filters))}".rstrip()
    return place.title


def _name(kind: str, record: Mapping[str, Any]) -> str:
    """Return what people know an object by, else its request line, its type or the end of its id."""
    if label := recent_of(kind, record).label:
        return label
    if isinstance(path := record.get("path"), str):
        return f"{record.get('method', '')} {path}".strip()
    kind_of = record.get("type") or record.get("event_type")
    return kind_of if isinstance(kind_of, str) else _short(str(record.get("id", "")))


def _short(text: str) -> str:
    """Return the end of an id in place of all of it, and any other text as it is."""
    return f"…{text[-6:]}" if is_id(text) else text
