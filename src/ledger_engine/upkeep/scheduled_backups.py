"""Makes the backups of a running server, each in a separate process (docs/backups.md#made-by-the-server).

The serving process must not open the database file a second time: when a process closes any descriptor of a
file, the process loses all its locks on this file. So a separate process runs the command `backup`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from ledger_engine.core.clock import Clock, iso
from ledger_engine.core.processes import without_settings
from ledger_engine.core.tasks import cancel
from ledger_engine.store.engine import Engine

FIRST_AFTER_S = 10.0  # seconds before the first backup, so that the backup does not slow the start
RETRY_S = 300.0  # seconds before another attempt after a failure, or `every_s` seconds if that is shorter
STOP_TIMEOUT_S = 3.0  # seconds that a stopped backup has to remove its unfinished file
# The process of the backup is in a separate process group, so Ctrl-C does not reach it. Its low priority
# (nice) lets requests come first.
_BEHIND = "import os; os.setpgrp(); os.nice(5); "
_PROGRAM = f"{_BEHIND}from ledger_engine.cli import main; main()"
_STAMP = "%Y%m%dT%H%M%SZ"
_NOTICE = "backup"

log = logging.getLogger("ledger_engine.upkeep.scheduled_backups")


class ScheduledBackups:
    """Makes backups of a database file in a folder, from `start` to `stop`.

    `every_s` is the time from one backup to the next in seconds, even if the server restarts in between.
    `keep` is the number of backups that stay in the folder. `newest` is the Unix time of the newest backup in
    the folder; None if the folder contains no backup. `failures` counts failed backups. `took_s` and `bytes`
    are the duration and the size of the last backup that this server has made.
    """

    def __init__(self, engine: Engine, database: Path, folder: Path, every_s: float, keep: int) -> None:
        self._engine = engine
        self._database = database
        self._folder = folder.absolute()
        self._every_s = every_s
        self._keep = keep
        self._task: asyncio.Task[None] | None = None
        self.failures = 0
        self.took_s = 0.0
        self.bytes = 0
        files = backups_in(self._folder, database)
        self.newest = files[-1][0] if files else None

    def start(self) -> None:
        """Start making backups. This needs a running event loop."""
        self._task = asyncio.create_task(self._back_up_when_due())

    async def stop(self) -> None:
        """Stop at once. A backup in progress is stopped too, and removes its unfinished file."""
        await cancel(self._task)

    async def _back_up_when_due(self) -> None:
        await asyncio.sleep(FIRST_AFTER_S)
        while True:
            wait_s = self._due_in_s()
            if wait_s <= 0:
                wait_s = self._every_s if await self._back_up_or_notify() else min(self._every_s, RETRY_S)
            await asyncio.sleep(wait_s)

    def _due_in_s(self) -> float:
        """Return the seconds until the next backup is due; 0 or less if it is due now."""
        if self.newest is None:
            return 0
        # `min` limits the wait to `every_s`: if the clock was set back, `newest` may be far in the future.
        return min(self.newest + self._every_s - _machine_s(self._engine.clock), self._every_s)

    async def _back_up_or_notify(self) -> bool:
        """Make a backup and return whether it succeeded; the health check shows a notice about a failure."""
        try:
            failure = await self._back_up()
        except OSError as error:
            failure = str(error)
        if failure is None:
            self._engine.notices.pop(_NOTICE, None)
            return True
        self.failures += 1
        log.error("the backup failed: %s", failure)
        newest = "there is none" if self.newest is None else f"the newest is from {iso(self.newest * 1000)}"
        self._engine.notices[_NOTICE] = f"The last backup failed, and {newest}: {failure}"
        return False

    async def _back_up(self) -> str | None:
        """Make a backup, and delete the oldest backups so that `keep` backups stay.

        Return None, or the reason why the backup failed.
        """
        began, at = time.monotonic(), int(_machine_s(self._engine.clock))
        stem, suffix = _name_parts(self._database)
        file = self._folder / f"{stem}-{datetime.fromtimestamp(at, UTC):{_STAMP}}{suffix}"
        failure = await self._run("backup", str(file))
        if failure is not None:
            return failure
        self.newest, self.took_s, self.bytes = at, time.monotonic() - began, file.stat().st_size
        log.info("backup %s made in %.1f s", file, self.took_s)
        others = [other for _, other in backups_in(self._folder, self._database) if other != file]
        for old in others[: max(0, len(others) + 1 - self._keep)]:
            old.unlink()
        return None

    async def _run(self, *words: str) -> str | None:
        """Run a `ledger-engine` command on the database; return its error message, or None if it succeeds."""
        environment = without_settings() | {
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "LEDGER_DATABASE": str(self._database),
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-P", "-c", _PROGRAM, *words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
        )
        try:
            _, output = await process.communicate()
        except asyncio.CancelledError:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), STOP_TIMEOUT_S)
                process.kill()
            raise
        if process.returncode == 0:
            return None
        lines = output.decode(errors="replace").splitlines() or [f"it ended with status {process.returncode}"]
        return lines[-1].removeprefix("ledger-engine: ")


def backups_in(folder: Path, database: Path) -> list[tuple[int, Path]]:
    """Return the Unix time and the file of each backup of the database in the folder, the oldest first.

    Raises OSError.
    """
    stem, suffix = _name_parts(database)
    pattern = re.compile(rf"{re.escape(stem)}-(\d{{8}}T\d{{6}}Z){re.escape(suffix)}", re.ASCII)
    files = []
    for file in folder.iterdir():
        if match := pattern.fullmatch(file.name):
            with contextlib.suppress(ValueError):  # the digits are no date, such as February 30
                at = datetime.strptime(match[1], _STAMP).replace(tzinfo=UTC)
                files.append((int(at.timestamp()), file))
    return sorted(files)


def _name_parts(database: Path) -> tuple[str, str]:
    return database.stem, database.suffix or ".db"


def _machine_s(clock: Clock) -> float:
    return clock.machine() / 1000
