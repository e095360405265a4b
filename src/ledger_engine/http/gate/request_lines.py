"""The line in the server's log for each request, at the level info."""

from __future__ import annotations

import logging

from ledger_engine.access.credentials import Credential
from ledger_engine.core.errors import LedgerError
from ledger_engine.core.logs import FIELDS
from ledger_engine.core.masking import masked

log = logging.getLogger("ledger_engine.http.requests")


def log_request(
    request_id: str,
    method: str,
    path: str,
    status: int,
    seconds: float,
    caller: Credential | LedgerError,
    address: str,
) -> None:
    """Log a request that was answered. Secrets in its path are masked; its query could contain anything."""
    if not log.isEnabledFor(logging.INFO):
        return
    fields = {
        "request": request_id,
        "method": method,
        "path": masked(path),
        "status": status,
        "duration_ms": round(seconds * 1000, 1),
        "credential": caller.id if isinstance(caller, Credential) else None,
        "address": address,
    }
    log.info(
        "%s %s %d in %.1f ms, %s by %s from %s",
        method,
        fields["path"],
        status,
        fields["duration_ms"],
        request_id,
        fields["credential"] or "no valid credential",
        address,
        extra={FIELDS: fields},
    )
