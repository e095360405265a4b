"""Where a test's clock stands, in a file beside the ledger: a server that starts again goes on from there."""

from __future__ import annotations

import json
from pathlib import Path

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.sandbox.clock import MovableClock
from ledger_engine.store.private_files import write_private


def clock_of(database: Path) -> MovableClock:
    """Return the clock as the last server with test helpers left it; a new one for a ledger yet to be made.

    Raises StorageUnavailable for a file that cannot be read.
    """
    file = _file(database)
    if not database.exists():  # a ledger that was deleted takes its time along
        file.unlink(missing_ok=True)
        return MovableClock()
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        return MovableClock(offset_ms=int(kept["offset_ms"]), frozen_at=_optional(kept["frozen_at"]))
    except FileNotFoundError:
        return MovableClock()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StorageUnavailable(
            f"{file} does not say where the test clock stands ({error!r}); delete it to begin anew"
        ) from error


def keep(database: Path, clock: MovableClock) -> None:
    """Store where the clock stands. Raises StorageUnavailable."""
    file = _file(database)
    try:
        write_private(file, json.dumps(clock.kept()))
    except OSError as error:
        raise StorageUnavailable(f"{file} cannot be written: {error.strerror}") from error


def _file(database: Path) -> Path:
    return database.with_name(f"{database.name}.clock")


def _optional(moment: object) -> int | None:
    return None if moment is None else int(str(moment))
