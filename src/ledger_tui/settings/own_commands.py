"""The commands that users define in the config file.

Each command has a key and a line for the shell. The line runs with the selected record in its environment
variables.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ledger_tui.client.traffic import masked
from ledger_tui.formats.text import literal

_SECONDS_MAX = 60.0
_SHOWN = 200  # the number of characters to show of the last line that a command prints
# Only these fields become environment variables. A server could send other fields of any size, and the size
# of an environment is limited.
_FIELDS = (
    *("account", "address", "amount", "attempts", "balance", "balance_after", "created", "credential"),
    *("credential_id", "currency", "customer", "data", "deactivated_at", "description", "destination"),
    *("disabled_at", "disabled_reason", "due_date", "duration_ms", "email", "endpoint", "error_code"),
    *("event", "event_type", "events", "id", "idempotency_key", "items", "last4", "lines", "livemode"),
    *("metadata", "method", "name", "next_attempt_at", "number", "object", "opened_at", "paid_at", "path"),
    *("query", "request", "request_body", "response_body", "reverses", "revoked_at", "role", "scopes"),
    *("shipped_at", "status", "total", "transaction", "transfer", "type", "url", "user_id", "voided_at"),
)


@dataclass(frozen=True, slots=True)
class OwnCommand:
    """One command of the config file.

    `run` is the line for the shell. `screens` are the screens on which the command works; empty means all.
    """

    name: str
    key: str
    run: str
    screens: tuple[str, ...] = ()


def environment(record: Mapping[str, Any], kind: str, url: str) -> dict[str, str]:
    """Return the variables for a command: `LEDGER_ROW_ID` and so on, and the whole record in `LEDGER_JSON`.

    Nested values are JSON too; null becomes an empty text.
    """
    variables = {"LEDGER_KIND": kind, "LEDGER_URL": url, "LEDGER_JSON": json.dumps(record)}
    for name in _FIELDS:
        if name in record:
            value = record[name]
            text = value if isinstance(value, str) else "" if value is None else json.dumps(value)
            variables[f"LEDGER_ROW_{name.upper()}"] = text.replace("\x00", "")
    return variables


def without_secrets(key_variables: Collection[str]) -> dict[str, str]:
    """Return this process's environment without API keys, other secrets and `LEDGER_…` variables."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("LEDGER_") and name not in key_variables and masked(value) == value
    }


async def run(command: OwnCommand, variables: Mapping[str, str], key_variables: Collection[str] = ()) -> str:
    """Run a command in the shell, without a terminal; return a sentence with its result and its last line.

    The environment of the command contains `variables`, and this process's environment without secrets such
    as the `key_variables`.
    """
    import asyncio  # imported here, because commands that only read the config file do not need it

    try:
        process = await asyncio.create_subprocess_shell(
            command.run,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=without_secrets(key_variables) | dict(variables),
            start_new_session=True,
        )
    except UnicodeEncodeError:
        return f"{command.name} was not run: the record has characters that are not valid Unicode."
    except OSError as error:
        too_large = error.errno == errno.E2BIG
        why = "the record is too large for a command's environment" if too_large else error.strerror
        return f"{command.name} was not run: {why}."
    try:
        output, _none = await asyncio.wait_for(process.communicate(), _SECONDS_MAX)
    except TimeoutError:
        return f"{command.name} was ended after {_SECONDS_MAX:.0f} s"
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    lines = masked(output.decode(errors="replace")).strip().splitlines()
    last = literal(lines[-1])[:_SHOWN] if lines else ""
    outcome = "done" if process.returncode == 0 else f"ended with {process.returncode}"
    return f"{command.name}: {outcome}" + (f"  {last}" if last else "")
