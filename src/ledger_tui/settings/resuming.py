"""Where the dashboard was left, for `--resume`: a screen, its filters and the object, by connection.

It is kept in `resume.json` beside the config file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ledger_tui.settings.kept import keep_entry, read_entry


@dataclass(frozen=True, slots=True)
class Left:
    """A screen with its filters, and the object under the cursor, which was open or not."""

    kind: str
    filters: Mapping[str, str] = field(default_factory=dict)
    record_id: str | None = None
    opened: bool = False


def read_left(file: Path, connection: str) -> Left | None:
    """Return where the dashboard of this connection was left, None if that is not known."""
    entry = read_entry(file, connection)
    if not isinstance(entry, dict) or not isinstance(entry.get("kind"), str):
        return None
    filters, record_id = entry.get("filters"), entry.get("record_id")
    pairs = filters.items() if isinstance(filters, dict) else ()
    return Left(
        entry["kind"],
        {name: value for name, value in pairs if isinstance(value, str)},
        record_id if isinstance(record_id, str) else None,
        entry.get("opened") is True,
    )


def keep_left(file: Path, connection: str, left: Left) -> None:
    """Keep where the dashboard was left, beside the entries of the connections used last."""
    keep_entry(file, connection, asdict(left))
