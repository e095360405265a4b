"""Requests as curl commands that can be pasted into a shell, without the key."""

from __future__ import annotations

import shlex

from ledger_tui.client.traffic import Exchange

KEY_VARIABLE = "LEDGER_API_KEY"


def as_curl(exchange: Exchange) -> str:
    """Return the command; it takes the credential from the environment variable LEDGER_API_KEY."""
    parts = ["curl"]
    if exchange.method != "GET":
        parts += ["-X", exchange.method]
    parts += [shlex.quote(exchange.url), "-H", f'"Authorization: Bearer ${KEY_VARIABLE}"']
    if exchange.idempotency_key is not None:
        parts += ["-H", shlex.quote(f"Idempotency-Key: {exchange.idempotency_key}")]
    if exchange.body is not None:
        parts += ["-H", "'Content-Type: application/json'", "-d", shlex.quote(exchange.body)]
    return " ".join(parts)
