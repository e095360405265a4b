"""Where the dashboard was left, for `--resume`: a screen, its filters and the object, by connection.

It is kept in `resume.json` beside the config file, for its owner alone. What is there is only a convenience:
a file that cannot be read or written changes nothing else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

_KEPT = 20  # connections


@dataclass(frozen=True, slots=True)
class Left:
    """A screen with its filters, and the object under the cursor, which was open or not."""

    kind: str
    filters: Mapping[str, str] = field(default_factory=dict)
    record_id: str | None = None
    opened: bool = False


def read_left(file: Path, connection: str) -> Left | None:
    """Return where the dashboard of this connection was left, None if that is not known."""
    entry = _read(file).get(connection)
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
    known = _read(file)
    known.pop(connection, None)
    known[connection] = asdict(left)
    while len(known) > _KEPT:
        del known[next(iter(known))]
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = file.with_name(f".{file.name}.{os.getpid()}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            json.dump(known, stream)
        os.replace(temporary, file)


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
