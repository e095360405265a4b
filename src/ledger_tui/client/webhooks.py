"""Verification of webhooks, for receivers of the ledger's events.

A delivery has the header `Ledger-Signature`, the lowercase hex HMAC-SHA-256 of the raw request body, keyed
with the endpoint's signing secret: all of its text, `whsec_` included, as UTF-8.
"""

from __future__ import annotations

import hmac

HEADER = "Ledger-Signature"


def sign(secret: str, body: bytes) -> str:
    """Return the signature of a raw body: 64 lowercase hex digits."""
    return hmac.digest(secret.encode(), body, "sha256").hex()


def verify(secret: str, body: bytes, header: str | None) -> bool:
    """Return whether `header`, the value of `Ledger-Signature` or None if it is missing, signs this body.

    Pass the bytes as they arrived: JSON that was parsed and written again is another body. It takes the same
    time however much of the signature is right.
    """
    given = (header or "").encode("utf-8", "surrogatepass")
    return hmac.compare_digest(sign(secret, body).encode(), given)
