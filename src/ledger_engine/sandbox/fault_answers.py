"""The answers with which faults fail a request: an error as the ledger itself would answer it."""

from __future__ import annotations

from ledger_engine.core.errors import (
    AuthenticationError,
    Conflict,
    InvalidRequest,
    LedgerError,
    PermissionDenied,
)
from ledger_engine.core.records import dumps
from ledger_engine.http.errors import CODES, JSON, Rendered, body_of, render_rate_limited

RATE_LIMITED = 429
_OTHER = {4: ("invalid_request", ("invalid_value",)), 5: ("api_error", ("internal_error",))}


class _NotThere(LedgerError):
    type = "not_found"


_KINDS: dict[str, type[LedgerError]] = {
    kind.type: kind
    for kind in (InvalidRequest, AuthenticationError, PermissionDenied, _NotThere, Conflict, LedgerError)
}


def codes_of(status: int) -> tuple[str, ...]:
    """Return the codes that an error with this status can have, the usual one first."""
    if status == RATE_LIMITED:
        return ("rate_limited",)
    return CODES.get(status, _OTHER[status // 100])[1]


def fault_answer(status: int, code: str | None, fault: str, path: str) -> Rendered:
    """Return the answer of a fault to a request for `path`, in the shape that errors have there."""
    if status == RATE_LIMITED:
        return status, [JSON, (b"retry-after", b"1")], render_rate_limited(1)
    type, codes = CODES.get(status, _OTHER[status // 100])
    error = _KINDS[type](code or codes[0], f"This answer was asked for by {fault}.")
    headers = [JSON, (b"www-authenticate", b"Bearer")] if status == 401 else [JSON]
    return status, headers, dumps(body_of(error, path)).encode()
