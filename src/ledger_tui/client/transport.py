"""The client of a server, and the JSON of its answers.

The import of `ledger_client.ledger` also loads httpx, which takes a tenth of a second. So this import is
inside `client_of`, which the dashboard calls after the first paint.
"""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import TYPE_CHECKING, Any

from ledger_client.addresses import LOOPBACK
from ledger_client.parsing import parsed

if TYPE_CHECKING:
    from ledger_client.ledger import AsyncLedger

_SURROGATE = re.compile(rb"\\u[dD]|\xed[\xa0-\xbf]")
TIMEOUT_SECONDS = 20.0  # the longest wait for the next data from the server
ANSWER_SECONDS_MAX = 60.0  # the longest time until an answer has arrived completely
# the maximum size of an answer; parsing a larger page would take so long that keys would have to wait
ANSWER_BYTES_MAX = 16_000_000
_NUMBER_LENGTH_MAX = 24  # the length of the longest form of a float, such as -1.2345678901234567e-308
_FLOAT_MAX = 1e24


def client_of(url: str, credential: str | None = None, **settings: Any) -> AsyncLedger:
    """Return a client that sends each request once.

    The client takes proxies and the certificates to trust from the environment. It uses no proxy for this
    machine's own addresses. Raises NotSent if the URL, the credential or a proxy is not valid.
    """
    from ledger_client.ledger import AsyncLedger

    direct = {f"all://{f'[{host}]' if ':' in host else host}": None for host in LOOPBACK}
    limits = {"bytes_max": ANSWER_BYTES_MAX, "seconds_max": ANSWER_SECONDS_MAX, "timeout": TIMEOUT_SECONDS}
    headers = {"User-Agent": "ledger-tui", "Accept": "application/json"}
    return AsyncLedger(
        url, credential or None, attempts=1, mounts=direct, headers=headers, **{**limits, **settings}
    )


def decoded(text: bytes | str) -> Any:
    """Return the value of a JSON text, or the text itself if it is a signed note of the transparency log.

    Return None for any other text, and for a JSON text that is nested too deeply or contains too many values.
    Replace lone surrogates, because the dashboard cannot send back, show or store a text with them.
    """
    try:
        value = parsed(text, number=_number) if text else None
        if _SURROGATE.search(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")):
            plain = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
            return parsed(plain.decode("utf-8", "replace"))
        return value
    except ValueError:
        return _signed_note(text)


def _signed_note(text: bytes | str) -> str | None:
    """Return the text of a checkpoint or a proof of the transparency log; None for anything else."""
    note = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return note if "\n\n— " in note else None


def _number(text: str) -> int | float | str:
    """Return a number of JSON; return its text if the number is too long or too large to calculate with."""
    if len(text) > _NUMBER_LENGTH_MAX:
        return text
    try:
        return int(text)
    except ValueError:
        value = float(text)
        return value if isfinite(value) and abs(value) < _FLOAT_MAX else text
