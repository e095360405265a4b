"""The user's own commands: a key, and a shell command that gets the selected record in its environment."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ledger_tui.state.text import literal
from ledger_tui.state.traffic import masked

_SECONDS_MAX = 60.0
_SHOWN = 200  # characters of what a command wrote last
_NAME = re.compile(r"[^A-Z0-9]+")
# What the command must not get of the dashboard's own environment.
_SECRETS = ("LEDGER_API_KEY", "LEDGER_SECRET_KEY")


@dataclass(frozen=True, slots=True)
class OwnCommand:
    """One command of the config file: `run` is for the shell, `screens` are its screens, all if empty."""

    name: str
    key: str
    run: str
    screens: tuple[str, ...] = ()


def environment(record: Mapping[str, Any], kind: str, url: str) -> dict[str, str]:
    """Return the variables that a command gets: `LEDGER_ID`, `LEDGER_STATUS` and so on, and `LEDGER_JSON`.

    Inner values are JSON too; null is an empty text.
    """
    found = {"LEDGER_KIND": kind, "LEDGER_URL": url, "LEDGER_JSON": json.dumps(record)}
    for name, value in record.items():
        variable = f"LEDGER_{_NAME.sub('_', name.upper())}"
        text = value if isinstance(value, str) else "" if value is None else json.dumps(value)
        found.setdefault(variable, text.replace("\x00", ""))
    return found


async def run(command: OwnCommand, variables: Mapping[str, str]) -> str:
    """Run a command in the shell, without a terminal; return how it ended, with the last line it wrote."""
    import asyncio  # not before: commands that only read the config file need none of it

    own = {name: value for name, value in os.environ.items() if name not in _SECRETS}
    try:
        process = await asyncio.create_subprocess_shell(
            command.run,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=own | dict(variables),
            start_new_session=True,
        )
    except UnicodeEncodeError:
        return f"{command.name} cannot be run: a text of the record is not valid Unicode"
    except OSError as error:  # a variable has at most 128 KB on Linux
        large = error.errno == errno.E2BIG
        reason = "a text of the record is too long for a variable" if large else error.strerror
        return f"{command.name} cannot be run: {reason}"
    try:
        written, _none = await asyncio.wait_for(process.communicate(), _SECONDS_MAX)
    except TimeoutError:
        return f"{command.name} was ended after {_SECONDS_MAX:.0f} s"
    finally:
        if process.returncode is None and sys.platform != "win32":
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    lines = masked(written.decode(errors="replace")).strip().splitlines()
    last = literal(lines[-1])[:_SHOWN] if lines else ""
    ended = "done" if process.returncode == 0 else f"ended with {process.returncode}"
    return f"{command.name}: {ended}" + (f"  {last}" if last else "")
