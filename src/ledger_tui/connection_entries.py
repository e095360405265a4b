"""Files beside the config file with an entry for each connection, for their owner alone.

What is there is only a convenience: a file that cannot be read or written changes nothing else.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

_KEPT = 20  # connections


def read_entry(file: Path, connection: str) -> Any:
    """Return the entry of a connection, None if there is none."""
    return _read(file).get(connection)


def keep_entry(file: Path, connection: str, entry: Any) -> None:
    """Keep an entry beside those of the connections used last."""
    known = _read(file)
    known.pop(connection, None)
    known[connection] = entry
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
