"""Which balances and states on screen have just changed, to be drawn inverted for a moment. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ledger_tui.state.window import Record

FLASH_SECONDS = 1.0
_WATCHED = ("balance", "status")  # fields, which are the names of their columns too
_NONE: frozenset[str] = frozenset()


class ChangedRows:
    """The changed fields by the row's id, until `forget`."""

    def __init__(self) -> None:
        self._fields: dict[object, frozenset[str]] = {}

    def note(self, before: Mapping[object, Record], rows: Sequence[Record | None]) -> bool:
        """Compare the rows with those shown before, by id; return whether a watched field has changed."""
        found = False
        for row in rows:
            old = before.get(row.get("id")) if row is not None else None
            if row is None or old is None or old is row:
                continue
            changed = frozenset(name for name in _WATCHED if old.get(name) != row.get(name))
            if changed:
                self._fields[row.get("id")] = changed
                found = True
        return found

    def of(self, record: Record) -> frozenset[str]:
        """Return the fields of a row that have just changed."""
        return self._fields.get(record.get("id"), _NONE) if self._fields else _NONE

    def forget(self) -> None:
        self._fields.clear()
